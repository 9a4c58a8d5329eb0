"""What the Python client sends again, and what its errors say: the generator alone, with no transport."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from titen_client import Busy, ExtractionUnavailable, Refused, Titen, TitenError, Unexpected, Unreachable, errors
from titen_client.calls import Call, data_of
from titen_client.exchange import ATTEMPTS_MAX, PAUSE_S_MAX, Outcome, Pause, exchange

PAGE = Path(__file__).parents[2] / "docs/reference/errors.md"

READ: Call[Any] = Call("GET", "/x", data_of, repeatable=True)
CHANGE: Call[Any] = Call("PATCH", "/x", data_of)
GOOD = httpx.Response(200, json={"data": 1, "meta": {"request_id": "r"}})
LOST = httpx.ReadTimeout("no answer")
NOT_SENT = httpx.ConnectError("refused")
GATEWAY = httpx.Response(502, text="<html>Bad Gateway</html>")


def refused(status: int, code: str, **headers: str) -> httpx.Response:
    body = {"error": {"code": code, "message": "No.", "details": {"version": 3}}, "meta": {"request_id": "r1"}}
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def busy(seconds: str) -> httpx.Response:
    return refused(503, "BUSY", Retry_After=seconds)


def drive(call: Call[Any], outcomes: Sequence[Outcome]) -> tuple[Any, list[float]]:
    """The answer or the error, and the pauses on the way. Every outcome has to be used."""
    steps, pauses, left = exchange(call), list[float](), list(outcomes)
    outcome: Outcome = None
    try:
        while True:
            step = steps.send(outcome)
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                outcome = None
            else:
                outcome = left.pop(0)
    except StopIteration as done:
        assert left == []
        return done.value, pauses
    except TitenError as error:
        assert left == []
        return error, pauses


@pytest.mark.parametrize("call", [READ, CHANGE])
def test_a_busy_service_is_asked_again_when_it_says(call: Call[Any]) -> None:
    assert drive(call, [busy("3"), busy("1"), GOOD]) == (1, [3.0, 1.0])


@pytest.mark.parametrize("call", [READ, CHANGE])
def test_what_was_never_sent_is_sent_again(call: Call[Any]) -> None:
    assert drive(call, [NOT_SENT, NOT_SENT, GOOD]) == (1, [0.5, 1.0])


@pytest.mark.parametrize("outcome", [LOST, GATEWAY, httpx.RemoteProtocolError("cut")])
def test_a_lost_answer_is_asked_for_again_only_where_that_does_no_harm(outcome: Outcome) -> None:
    assert drive(READ, [outcome, GOOD]) == (1, [0.5])
    error, pauses = drive(CHANGE, [outcome])
    assert isinstance(error, Unreachable | Unexpected)
    assert pauses == []


def test_attempts_and_pauses_have_an_end() -> None:
    error, pauses = drive(READ, [LOST] * ATTEMPTS_MAX)
    assert isinstance(error, Unreachable)
    assert len(pauses) == ATTEMPTS_MAX - 1
    error, pauses = drive(READ, [busy(str(int(PAUSE_S_MAX) + 1))])
    assert isinstance(error, Busy)
    assert (error.retry_after_s, pauses) == (PAUSE_S_MAX + 1, [])


@pytest.mark.parametrize("wish", ["", "soon", "-1", "1.5", "٣"])
def test_a_wish_that_is_no_number_is_none(wish: str) -> None:
    error, pauses = drive(
        READ, [httpx.Response(503, headers=[(b"Retry-After", wish.encode())], content=busy("1").content)]
    )
    assert isinstance(error, Busy)
    assert (error.retry_after_s, pauses) == (None, [])


def test_where_waiting_does_not_help_nothing_is_repeated() -> None:
    error, pauses = drive(READ, [refused(503, "EXTRACTION_UNAVAILABLE")])
    assert isinstance(error, ExtractionUnavailable)
    assert pauses == []


def test_a_refusal_tells_all_that_the_service_told() -> None:
    error, _ = drive(CHANGE, [refused(409, "VERSION_CONFLICT")])
    assert isinstance(error, errors.VersionConflict)
    assert (error.code, error.status, error.message, error.request_id) == ("VERSION_CONFLICT", 409, "No.", "r1")
    assert error.details == {"version": 3}
    assert "details['version']" in error.repair
    assert str(error) == "VERSION_CONFLICT: No."


def test_every_documented_code_has_a_class_with_a_repair_of_its_own() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Codes of")[0]
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", table, re.MULTILINE))
    assert len(documented) > 15
    for code, status in documented.items():
        error = errors.refusal(code, "No.", status=int(status))
        assert type(error) is not Refused, code
        assert error.repair != TitenError.repair, code
    assert errors._BY_CODE.keys() == documented.keys()


def test_a_code_of_a_newer_service_is_still_a_refusal() -> None:
    error, _ = drive(READ, [refused(418, "TEAPOT")])
    assert type(error) is Refused
    assert (error.code, error.status) == ("TEAPOT", 418)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(404, json={"error": "not found"}),
        httpx.Response(302, headers={"Location": "https://elsewhere.example/"}),
    ],
)
def test_an_answer_of_something_else_is_unexpected(response: httpx.Response) -> None:
    try:
        error, _ = drive(READ, [response])
    except Unexpected as raised:
        error = raised
    assert isinstance(error, Unexpected)
    assert error.status == response.status_code


@pytest.mark.parametrize("key", ["", "titen_a_b\n", "titen a", "titén"])
def test_a_malformed_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ValueError, match="API key") as refusal:
        Titen("http://127.0.0.1:9", key)
    assert not key.strip() or key.strip() not in str(refusal.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8787", "ftp://x", "http://[::1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        Titen(url, "titen_a_b")


def test_the_environment_must_name_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TITEN_URL", raising=False)
    monkeypatch.setenv("TITEN_API_KEY", "titen_a_b")
    with pytest.raises(ValueError, match="TITEN_URL"):
        Titen.from_env()
    monkeypatch.setenv("TITEN_URL", "http://127.0.0.1:9")
    with Titen.from_env() as titen:
        assert "titen_a_b" not in repr(titen)


def test_json_without_a_meaning_is_never_sent() -> None:
    from titen_client.calls import json_body  # noqa: PLC0415

    with pytest.raises(ValueError, match="JSON"):
        json_body({"confidence": float("nan")})
    assert json.loads(json_body("é🙂")) == "é🙂"
