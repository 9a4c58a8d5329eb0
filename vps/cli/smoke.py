"""`titen smoke`: does a running service do what it is for?"""

import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click

from vps.cli.options import as_json_option, emit, say
from vps.cli.target import Target, api_key_option
from vps.faults import EXIT_FAULT, Fault
from vps.remote import Remote
from vps.settings import load_settings

__all__ = ["run_smoke", "smoke"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried. `message` says what went wrong."""

    name: str
    ok: bool
    took_ms: int
    message: str | None = None


class _Wrong(Exception):
    """A step's answer is not what it should be."""


@click.command
@click.option("--url", metavar="URL", help="The running service.")
@api_key_option
@as_json_option
def smoke(url: str | None, api_key: str | None, as_json: bool) -> None:
    """Try a running service: sign in, remember, recall, read, delete. Cleans up after itself.

    Needs a key that may write. Exit code 1 when a step fails; later steps are then not tried.

    \b
    Example:
      titen smoke --url http://127.0.0.1:8787 --api-key "$(cat .titen/titen.db.admin-key)"
    """
    target = Target(load_settings({"api_key": api_key}), None, url)
    with target.remote() as remote:
        steps = run_smoke(remote, quiet=as_json)
    ok = all(step.ok for step in steps)
    if as_json:
        emit({"ok": ok, "url": url, "steps": [asdict(step) for step in steps]})
    else:
        say(f"{url} works." if ok else f"{url} does not work as it should.")
    if not ok:
        click.get_current_context().exit(EXIT_FAULT)


def run_smoke(remote: Remote, *, quiet: bool) -> list[Step]:
    """Try each step until one fails, and tell of it unless `quiet`."""
    return _Run(remote, quiet=quiet).all()


class _Run:
    """The steps in order, over one memory with words nobody else uses."""

    def __init__(self, remote: Remote, *, quiet: bool) -> None:
        self._remote = remote
        self._quiet = quiet
        self._word = f"smoke{secrets.token_hex(6)}"
        self._subject = f"titen-{self._word}"
        self._memory_id: str | None = None

    def all(self) -> list[Step]:
        steps: list[Step] = []
        try:
            for name, action in self._steps():
                steps.append(self._try(name, action))
                if not steps[-1].ok:
                    break
        finally:
            self._clean_up()
        return steps

    def _steps(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("refuses a request without a key", self._refuses),
            ("is ready", self._ready),
            ("knows the key", self._signs_in),
            ("remembers", self._remembers),
            ("recalls at once", self._recalls),
            ("reads by id", self._reads),
            ("deletes", self._deletes),
            ("recalls nothing deleted", self._forgot),
        ]

    def _try(self, name: str, action: Callable[[], None]) -> Step:
        started, message = time.perf_counter(), None
        try:
            action()
        except _Wrong as wrong:
            message = str(wrong)
        except Fault as fault:
            message = fault.message
        step = Step(name, message is None, round((time.perf_counter() - started) * 1000), message)
        if not self._quiet:
            mark = _mark(step.ok)
            say(f"{mark} {name} ({step.took_ms} ms)" + (f": {message}" if message else ""))
        return step

    def _refuses(self) -> None:
        status = self._remote.raw("GET", "/v1/principal", headers={"Authorization": ""}).status_code
        _expect(status == 401, f"it answered {status} and not 401")

    def _ready(self) -> None:
        response = self._remote.raw("GET", "/readyz")
        codes = ", ".join(_data(response.json()).get("codes", [])) if response.status_code in {200, 503} else ""
        _expect(response.status_code == 200, f"it answered {response.status_code} {codes}".rstrip())

    def _signs_in(self) -> None:
        caller = self._remote.ask("GET", "/v1/principal")["data"]
        _expect(caller["role"] != "reader", "the key is a reader's; smoke needs one that may write")
        self._subject = caller["subject_id"] or self._subject

    def _remembers(self) -> None:
        body = {
            "subject_id": self._subject,
            "content": f"The password of the smoke test is {self._word}",
            "source": {"type": "titen smoke"},
        }
        memory = self._remote.ask("POST", "/v1/memories", json=body)["data"]
        self._memory_id = memory["id"]
        _expect(memory["status"] == "stored", f"it answered {memory['status']} and not stored")

    def _recalls(self) -> None:
        _expect(self._memory_id in self._found(), "what was just remembered is not found")

    def _reads(self) -> None:
        memory = self._remote.ask("GET", f"/v1/memories/{self._memory_id}")["data"]
        _expect(self._word in memory["content"], "it came back with other words")

    def _deletes(self) -> None:
        answer = self._remote.ask("DELETE", f"/v1/memories/{self._memory_id}")["data"]
        _expect(answer["status"] == "deleted", f"it answered {answer['status']} and not deleted")

    def _forgot(self) -> None:
        _expect(self._memory_id not in self._found(), "the deleted memory is still found")
        self._memory_id = None

    def _found(self) -> list[str]:
        body = {"subject_id": self._subject, "query": f"smoke test password {self._word}"}
        return [item["id"] for item in self._remote.ask("POST", "/v1/memories/search", json=body)["data"]]

    def _clean_up(self) -> None:
        """Whatever happened, the memory is deleted; that deleting failed was told already."""
        if self._memory_id is not None:
            try:
                self._remote.raw("DELETE", f"/v1/memories/{self._memory_id}")
            except Fault:
                return


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise _Wrong(otherwise)


def _data(answer: Any) -> dict[str, Any]:
    found = answer.get("data") if isinstance(answer, dict) else None
    return found if isinstance(found, dict) else {}


def _mark(ok: bool) -> str:
    try:
        "✓✗".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "ok  " if ok else "FAIL"
    return "✓" if ok else "✗"
