"""The only place that runs wrangler, Cloudflare's own command line."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from vps.faults import EXIT_USAGE, Fault

__all__ = ["CommandRunner", "Wrangler", "WranglerFailed", "find_wrangler", "shown"]

TIMEOUT_S = 900
# No colours, no questions; no log files either, which would keep names of subjects.
ENVIRONMENT = {"NO_COLOR": "1", "FORCE_COLOR": "0", "WRANGLER_SEND_METRICS": "false", "WRANGLER_WRITE_LOGS": "false"}

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_HASH = re.compile(r"'[0-9a-f]{64}'")
_SHOWN_CHARACTERS = 400
_NOISE = ("🪵", "If you think this is a bug", "Logs were written")


class WranglerFailed(Exception):
    """wrangler ended with a fault. `reason` is its own last word on it, `details` everything it said."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details


class CommandRunner(Protocol):
    """Something that runs wrangler, or shows what would be run."""

    def run(self, *arguments: str) -> str:
        """Run one command and answer its stdout. Raises WranglerFailed."""
        ...


class Wrangler:
    """Runs wrangler in `directory`; `tell` hears each command before it is run."""

    def __init__(self, command: Sequence[str], directory: Path, tell: Callable[[str], None]) -> None:
        self._command = tuple(command)
        self._directory = directory
        self._tell = tell

    def run(self, *arguments: str) -> str:
        self._tell(shown(arguments))
        try:
            done = subprocess.run(  # noqa: S603 - an argument list, no shell
                [*self._command, *arguments],
                cwd=self._directory,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise WranglerFailed(f"wrangler did not end within {TIMEOUT_S} seconds") from None
        except (OSError, ValueError) as failure:
            raise WranglerFailed(f"{self._command[0]} could not be run ({type(failure).__name__})") from None
        if done.returncode != 0:
            raise WranglerFailed(_reason(done.stdout, done.stderr), f"{done.stdout}\n{done.stderr}")
        return done.stdout


def find_wrangler(wish: str | None) -> list[str]:
    """The command that starts wrangler: as wished, or `wrangler` or `npx wrangler` from PATH. Raises Fault."""
    command = shlex.split(wish) if wish else []
    if command and (found := shutil.which(command[0])):
        return [found, *command[1:]]
    if wish:
        raise Fault(f"There is no program {command[0] if command else wish!r}; see --wrangler.", EXIT_USAGE)
    if found := shutil.which("wrangler"):
        return [found]
    if found := shutil.which("npx"):
        return [found, "wrangler"]
    raise Fault("wrangler is not installed; install Node.js 22 or newer, then `npm install --global wrangler`.")


def shown(arguments: Sequence[str]) -> str:
    """A command for a person to read: hashes and long SQL are cut."""
    return "wrangler " + " ".join(_shown(each) for each in arguments)


def _shown(argument: str) -> str:
    flat = _HASH.sub("'…'", " ".join(argument.split()))
    if len(flat) > _SHOWN_CHARACTERS:
        flat = f"{flat[:_SHOWN_CHARACTERS]} …"
    return shlex.quote(flat)


def _reason(out: str, err: str) -> str:
    """wrangler's last word, without its banners, colours and hints."""
    try:
        return _of_document(json.loads(out)["error"])
    except (ValueError, KeyError, TypeError, IndexError):
        lines = _lines(f"{out}\n{err}")
    said = [index for index, line in enumerate(lines) if "[ERROR]" in line]
    if not said:
        return lines[-1] if lines else "wrangler said nothing"
    reason = lines[said[-1]].partition("[ERROR]")[2].strip()
    if reason.startswith("A request to the Cloudflare API") and said[-1] + 1 < len(lines):
        return f"{reason} {lines[said[-1] + 1]}"
    return reason


def _of_document(error: Any) -> str:
    notes = [str(note["text"]) for note in error.get("notes") or ()]
    return " ".join([str(error["text"]), *notes])


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in _ESCAPES.sub("", text).splitlines()]
    return [line for line in lines if line and not any(word in line for word in _NOISE)]
