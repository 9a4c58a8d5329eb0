"""When to send a call again, and what its end means: one generator that knows no transport.

A transport sends what is yielded and answers with the response, or with the failure in its place:

    Call  -> httpx.Response | httpx.RequestError
    Pause -> None, after so many seconds

Only what cannot do harm is repeated. Where Titen itself says "not now" with `Retry-After`, nothing was done, so any
call may follow. Where an answer is lost, the request may have been carried out: only a repeatable one is sent again.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import httpx

from titen_client.calls import Call
from titen_client.errors import Refused, TitenError, Unexpected, Unreachable, refusal

__all__ = ["ATTEMPTS_MAX", "PAUSE_S_MAX", "Exchange", "Outcome", "Pause", "exchange"]

ATTEMPTS_MAX: Final = 4
PAUSE_S_MAX: Final = 20.0
"""A service that wishes for a longer pause is not waited for."""

_FIRST_PAUSE_S: Final = 0.5
_GATEWAY_FAULTS: Final = frozenset({502, 503, 504})
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Outcome: TypeAlias = httpx.Response | httpx.RequestError | None
Exchange: TypeAlias = Generator[Call[Any] | Pause, Outcome, T]


def exchange(call: Call[T]) -> Exchange[T]:
    """The answer to a call, and to those that it leads to. Raises TitenError."""
    while True:
        answer = call.read((yield from _answered(call)))
        if not isinstance(answer, Call):
            return answer
        call = answer


def _answered(call: Call[T]) -> Exchange[httpx.Response]:
    """A success, after as many attempts as are allowed. Raises TitenError."""
    for attempt in range(ATTEMPTS_MAX):
        outcome = yield call
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            return outcome
        error = _error_of(outcome)
        pause_s = _pause_s(call, outcome, error, attempt)
        if pause_s is None:
            break
        yield Pause(pause_s)
    raise error from (outcome if isinstance(outcome, Exception) else None)


def _pause_s(call: Call[Any], outcome: Outcome, error: TitenError, attempt: int) -> float | None:
    """How long to wait before the next attempt; None where there must be none."""
    if attempt == ATTEMPTS_MAX - 1:
        return None
    if isinstance(error, Refused):
        wish = error.retry_after_s
        return wish if wish is not None and wish <= PAUSE_S_MAX else None
    lost = isinstance(outcome, httpx.RequestError) or (
        isinstance(error, Unexpected) and error.status in _GATEWAY_FAULTS
    )
    if isinstance(outcome, _NOT_SENT) or (lost and call.repeatable):
        return min(_FIRST_PAUSE_S * 2.0**attempt, PAUSE_S_MAX)
    return None


def _error_of(outcome: Outcome) -> TitenError:
    if isinstance(outcome, httpx.Response):
        return _refused(outcome)
    if isinstance(outcome, httpx.TimeoutException):
        return Unreachable(f"The service did not answer in time ({type(outcome).__name__}).")
    return Unreachable(f"The service cannot be reached ({type(outcome).__name__}).")


def _refused(response: httpx.Response) -> TitenError:
    """The error that a response tells; a body that is not Titen's is Unexpected."""
    try:
        answer = response.json()
        told, request_id = answer["error"], answer["meta"]["request_id"]
        return refusal(
            told["code"],
            told["message"],
            status=response.status_code,
            details=told.get("details"),
            request_id=request_id,
            retry_after_s=_retry_after_s(response),
        )
    except (ValueError, KeyError, TypeError):
        return Unexpected(f"The answer with status {response.status_code} is not one of Titen.", response.status_code)


def _retry_after_s(response: httpx.Response) -> float | None:
    wish: str = response.headers.get("retry-after", "")
    return float(wish) if wish.isascii() and wish.isdigit() else None
