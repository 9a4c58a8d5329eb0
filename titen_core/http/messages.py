"""One request in, one response out: the shapes both runtimes convert to and from."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from titen_core import limits
from titen_core.errors import ValidationError

__all__ = ["Request", "Response", "body_limit"]


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request as received. `path` and `query` are still percent-encoded.

    `headers` has lower-case names; repeated headers are joined with ", ". `oversize`: the body was
    larger than `body_limit` and was not read to its end.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    oversize: bool = False

    def parameters(self) -> dict[str, list[str]]:
        """Decoded query parameters in order, each with all its values. Raises ValidationError."""
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as failure:
            raise ValidationError("The query string is not valid percent-encoded UTF-8.") from failure
        found: dict[str, list[str]] = {}
        for name, value in pairs:
            found.setdefault(name, []).append(value)
        return found


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response. A streamed body yields chunks of bytes; its length is not known before."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | AsyncIterator[bytes] = b""


def body_limit(method: str, path: str) -> int:
    """How many bytes of body an adapter reads before it gives up and sets `oversize`."""
    is_import = method == "POST" and path.rstrip("/") == "/v1/import"
    return limits.IMPORT_BODY_BYTES if is_import else limits.BODY_BYTES
