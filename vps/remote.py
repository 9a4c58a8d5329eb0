"""A Titen service over HTTP, as the command line uses it: answers as JSON, faults as one sentence."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from titen_core import __version__
from vps.faults import EXIT_USAGE, Fault

__all__ = ["Remote"]

TIMEOUT_S = 120.0
ATTEMPTS = 6
RETRY_S_MAX = 10.0
_WORTH_ANOTHER_TRY = frozenset({429, 503})


class Remote:
    """One service and one key. Every call that is repeated must be idempotent."""

    def __init__(self, url: str, api_key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise Fault("--url must start with http:// or https://, such as http://127.0.0.1:8787.", EXIT_USAGE)
        if not (api_key.isascii() and api_key.isprintable()):
            raise Fault("The API key has characters that no key has; copy it again.", EXIT_USAGE)
        self.url = url.rstrip("/")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {api_key}", "User-Agent": f"titen/{__version__}"}, timeout=TIMEOUT_S
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def ask(self, method: str, path: str, **parts: Any) -> dict[str, Any]:
        """The JSON answer. Raises Fault."""
        return _json(self.url, self.answer(method, path, **parts))

    def answer(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int | bool] | None = None,
        content: bytes | None = None,
        content_type: str | None = None,
        patient: bool = False,
    ) -> httpx.Response:
        """A successful response. `patient`: wait and try again while the service is busy. Raises Fault."""
        headers = {"Content-Type": content_type} if content_type else None
        for attempt in range(ATTEMPTS):
            response = self.raw(method, path, json=json, params=params, content=content, headers=headers)
            if response.is_success:
                return response
            if not patient or response.status_code not in _WORTH_ANOTHER_TRY or attempt == ATTEMPTS - 1:
                break
            time.sleep(_pause_s(response, attempt))
        raise _refusal(self.url, response)

    def raw(self, method: str, path: str, **parts: Any) -> httpx.Response:
        """Whatever is answered. Raises Fault only where nothing is."""
        try:
            return self._client.request(method, self.url + path, **parts)
        except httpx.ConnectError:
            raise Fault(f"Nothing answers at {self.url}; check the URL and that the service runs.") from None
        except httpx.TimeoutException:
            raise Fault(f"{self.url} did not answer within {TIMEOUT_S:.0f} seconds; try again later.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            raise Fault(f"The exchange with {self.url} failed ({type(failure).__name__}); check the URL.") from None


def _pause_s(response: httpx.Response, attempt: int) -> float:
    wish = response.headers.get("retry-after", "")
    return min(float(wish) if wish.isdigit() else 0.5 * 2**attempt, RETRY_S_MAX)


def _refusal(url: str, response: httpx.Response) -> Fault:
    try:
        message = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return Fault(f"{url} answered status {response.status_code}, and not as Titen does; check the URL.")
    if response.status_code == 401:
        return Fault(f"{url} refused the API key: it is wrong, expired or revoked.")
    return Fault(f"{url} answered {response.status_code}: {message}")


def _json(url: str, response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "data" not in answer:
        raise Fault(f"{url} answered, but not as Titen does; check the URL.")
    return answer
