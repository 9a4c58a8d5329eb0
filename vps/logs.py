"""Log lines: one JSON object a line on stderr, without content, keys or tracebacks."""

import json
import logging
import sys
import time
from collections.abc import Mapping

__all__ = ["log_line", "take_over_logging"]


def log_line(fields: Mapping[str, object]) -> None:
    """Write one line. The time comes first unless the fields bring their own."""
    line = json.dumps({"time_ms": time.time_ns() // 1_000_000, **fields}, ensure_ascii=False, default=str)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads any more: the service goes on
        return


def take_over_logging() -> None:
    """Warnings of the server and other libraries become log lines too, without their arguments' text.

    A formatted message may quote what a client sent, so only its template and the error's class pass.
    """
    root = logging.getLogger()
    root.handlers[:] = [_JsonHandler(level=logging.WARNING)]
    root.setLevel(logging.WARNING)


class _JsonHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        log_line(
            {
                "event": "log",
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": str(record.msg).splitlines()[0] if str(record.msg) else "",
                **({"error": error} if error else {}),
            }
        )
