from typing import Any

class JsException(Exception): ...

jsnull: Any

def to_js(value: Any) -> Any: ...
