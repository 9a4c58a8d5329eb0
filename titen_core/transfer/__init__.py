"""Taking memories out of a store and into another: JSON Lines, the same on every runtime."""

from titen_core.transfer.export import export_page
from titen_core.transfer.importing import ImportReport, LineError, import_lines

__all__ = ["ImportReport", "LineError", "export_page", "import_lines"]
