from typing import Any

class WorkerEntrypoint:
    ctx: Any
    env: Any
    def __init__(self, ctx: Any, env: Any) -> None: ...
