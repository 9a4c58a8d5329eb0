"""JavaScript's global scope as Pyodide shows it: only what `adapters/cloudflare/convert.py` uses."""

from typing import Any

class _Json:
    def parse(self, text: str) -> Any: ...
    def stringify(self, value: Any) -> str | None: ...

class _Array:
    def from_(self, values: Any) -> Any: ...

class _Console:
    def log(self, text: str) -> None: ...

class _Constructor:
    def new(self, *args: Any, **options: Any) -> Any: ...

JSON: _Json
Array: _Array
Headers: _Constructor
Response: _Constructor
console: _Console
