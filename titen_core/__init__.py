"""Titen's core: what a memory is, who may see it, and how it is recalled.

Pure Python over three capabilities (see `titen_core.protocols`); it runs the same in
CPython and in Pyodide and imports no adapter.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
