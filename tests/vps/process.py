"""Titen as a person runs it: real processes, real files, loopback only."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
READY = re.compile(r"Titen \S+ answers on (http://\S+) \(embeddings: (.+)\)")
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.out)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: none of the developer's own settings, no embedder unless asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TITEN_")}
    return {**kept, "PYTHONPATH": str(ROOT), "TITEN_EMBED": "off", **(extra or {})}


def titen(
    *arguments: str | Path, env: Mapping[str, str] | None = None, stdin: str = "", cwd: Path | None = None
) -> Ran:
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "vps.launcher", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(env),
        cwd=cwd,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Service:
    """A running `titen serve` or `titen up`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._fresh: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_out, daemon=True),
            threading.Thread(target=self._read_err, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self.url, self.embeddings = self._wait_until_ready()

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return "".join(self._errors)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; answers the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code

    def wait_for_line(self, part: str) -> None:
        """Wait until a line of stdout holds `part`."""
        while not any(part in line for line in self.lines):
            line = self._fresh.get(timeout=PATIENCE_S)
            assert line is not None, f"ended before it said {part!r}: {self.lines} {self.err}"
            self.lines.append(line)

    def _wait_until_ready(self) -> tuple[str, str]:
        self.wait_for_line(" answers on ")
        found = READY.fullmatch(self.lines[-1])
        assert found is not None, self.lines
        return found[1], found[2]

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._fresh.put(line.rstrip("\n"))
        self._fresh.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)


@contextlib.contextmanager
def running(*arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[Service]:
    """A service that answers; stopped at the end."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "vps.launcher", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(env),
        cwd=cwd,
    )
    with process.stdout or contextlib.nullcontext(), process.stderr or contextlib.nullcontext():
        try:
            service = Service(process)
            yield service
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_S)
        service.stop()
