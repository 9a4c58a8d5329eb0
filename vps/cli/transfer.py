"""`titen export` and `titen import`."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

from titen_core import limits
from titen_core.transfer import export_page, import_lines
from vps.cli.options import as_json_option, emit, say
from vps.cli.progress import Counter, bar
from vps.cli.target import Target, target_options
from vps.faults import EXIT_FAULT, EXIT_USAGE, Fault
from vps.jsonl import Piece, Tail, last_summary, pieces, read_summary
from vps.local import open_tenant

__all__ = ["export", "import_"]

NDJSON = "application/x-ndjson"
FILE_MODE = 0o600

Page = Callable[[str | None], Awaitable[str]]
Step = Callable[[bytes, int], Awaitable[dict[str, Any]]]


@click.command
@click.argument("file", default="-")
@click.option("--deleted", is_flag=True, help="Include deleted memories, as tombstones with their history.")
@click.option("--resume", is_flag=True, help="Go on with a FILE that was cut short.")
@target_options
@as_json_option
def export(target: Target, file: str, deleted: bool, resume: bool, as_json: bool) -> None:
    """Export a tenant's memories with their history to FILE, as JSON Lines; `-` is stdout.

    FILE is readable by this user only. Keys and vectors are not exported.

    \b
    Example:
      titen export memories.jsonl
      titen export memories.jsonl --resume          # after an interruption
      titen export --url https://titen.example --api-key KEY > memories.jsonl
    """
    if file == "-" and (resume or as_json):
        raise Fault("--resume and --json need a FILE: stdout holds the memories.", EXIT_USAGE)
    tail = Tail(0, 0, None, complete=False)
    if file != "-":
        tail = _standing(Path(file), resume)
    with _opened(file, tail) as stream:
        records = tail.records
        if not tail.complete:
            records += asyncio.run(_export(target, stream, tail.following, deleted))
    if as_json:
        emit({"file": file, "records": records, "complete": True})
    else:
        say(f"Exported {records} memories to {'stdout' if file == '-' else file}.", as_json=file == "-")


@click.command(name="import")
@click.argument("file")
@click.option("--from-line", type=click.IntRange(min=1), default=1, metavar="N", help="Pass over the lines before N.")
@target_options
@as_json_option
def import_(target: Target, file: str, from_line: int, as_json: bool) -> None:
    """Import exported memories from FILE; `-` is stdin.

    Lines are checked one by one: a bad one is reported and the next is tried. Importing the same file
    again changes nothing, so an interrupted import can simply be run again. Exit code 1 when a line
    failed or the file is not whole.

    \b
    Example:
      titen import memories.jsonl
      titen import memories.jsonl --url https://titen.example --api-key KEY
    """
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if file == "-" else stack.enter_context(_readable(Path(file)))
        size = 0 if file == "-" else os.fstat(stream.fileno()).st_size
        total = asyncio.run(_import(target, stream, size, from_line))
    if as_json:
        emit(total.document())
    else:
        _report(total)
        if total.imported and target.url is None:
            say("They are found by their words now, by their meaning once `titen serve` or `titen repair` has run.")
    if total.failed or not total.complete:
        click.get_current_context().exit(EXIT_FAULT)


@dataclass(slots=True)
class Total:
    """What became of all pieces of a file."""

    imported: int = 0
    unchanged: int = 0
    failed: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False

    def add(self, piece: Piece, answer: dict[str, Any]) -> None:
        """Count one step's report, with line numbers of the whole file."""
        self.imported += answer["imported"]
        self.unchanged += answer["unchanged"]
        self.failed += answer["failed"]
        room = limits.IMPORT_ERRORS_REPORTED - len(self.errors)
        for error in answer["errors"][:room]:
            self.errors.append({"line": error["line"] + piece.first_line - 1, "message": error["message"]})
        self.complete = answer["complete"]

    def document(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "imported": self.imported,
            "unchanged": self.unchanged,
            "failed": self.failed,
            "errors": self.errors,
            "complete": self.complete,
        }


def _standing(path: Path, resume: bool) -> Tail:
    """How far an existing file has come. Raises Fault where it would be overwritten."""
    if not path.exists():
        return Tail(0, 0, None, complete=False)
    if not resume:
        raise Fault(f"{path} exists; name another file, or add --resume to go on with it.")
    return last_summary(path)


@contextlib.contextmanager
def _opened(file: str, tail: Tail) -> Any:
    if file == "-":
        yield sys.stdout.buffer
        return
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR, FILE_MODE)
        with os.fdopen(descriptor, "r+b") as stream:
            stream.truncate(tail.end_byte)
            stream.seek(tail.end_byte)
            try:
                yield stream
            finally:
                if stream.tell() == 0:  # refused before the first page: the same command may be run again
                    Path(file).unlink(missing_ok=True)
    except OSError as failure:
        raise Fault(f"{file} cannot be written: {failure.strerror}.") from None


async def _export(target: Target, stream: BinaryIO, after: str | None, deleted: bool) -> int:
    """Write page after page, each durable before the next is asked for; answers the records written."""
    counter, records = Counter("Exported"), 0
    async with _pages(target, deleted) as page:
        while True:
            body = (await page(after)).encode()
            summary = read_summary(body[body.rstrip(b"\n").rfind(b"\n") + 1 :])
            if summary is None:
                raise Fault("The service answered a page without its summary; run the command again with --resume.")
            stream.write(body)
            stream.flush()
            count = summary["records"]
            records += count if isinstance(count, int) else 0
            counter.add(count if isinstance(count, int) else 0)
            if summary["next"] is None:
                counter.end()
                return records
            after = str(summary["next"])


@asynccontextmanager
async def _pages(target: Target, deleted: bool) -> AsyncIterator[Page]:
    if target.url is not None:
        with target.remote() as remote:

            async def ask(after: str | None) -> str:
                params: dict[str, str | int | bool] = {
                    "limit": limits.EXPORT_LIMIT_MAX,
                    "deleted": str(deleted).lower(),
                }
                wanted = params if after is None else {**params, "after": after}
                answer = await asyncio.to_thread(remote.answer, "GET", "/v1/export", params=wanted, patient=True)
                return str(answer.text)

            yield ask
        return
    async with open_tenant(target.settings, target.tenant) as (runtime, access):

        async def read(after: str | None) -> str:
            return await export_page(
                runtime.kernel, access, after=after, limit=limits.EXPORT_LIMIT_MAX, deleted=deleted
            )

        yield read


async def _import(target: Target, stream: BinaryIO, size: int, from_line: int) -> Total:
    total = Total()
    async with _steps(target) as step:
        with bar("Importing", size) as progress:
            for piece in pieces(stream):
                await _import_piece(step, piece, from_line, total)
                progress.update(len(piece.body))
    return total


async def _import_piece(step: Step, piece: Piece, from_line: int, total: Total) -> None:
    """Call again and again until the piece is done; where it stops midway is said to whoever must go on."""
    start: int | None = max(1, from_line - piece.first_line + 1)
    if start is not None and start > piece.lines:
        return
    while start is not None:
        try:
            answer = await step(piece.body, start)
        except Fault as fault:
            line = piece.first_line + start - 1
            raise Fault(
                f"{fault.message} {total.imported} memories are in; go on with --from-line {line}.", fault.exit_code
            ) from None
        total.add(piece, answer)
        start = answer["next_line"]


@asynccontextmanager
async def _steps(target: Target) -> AsyncIterator[Step]:
    if target.url is not None:
        with target.remote() as remote:

            async def send(body: bytes, start: int) -> dict[str, Any]:
                answer = await asyncio.to_thread(
                    remote.answer,
                    "POST",
                    "/v1/import",
                    params={"from_line": start},
                    content=body,
                    content_type=NDJSON,
                    patient=True,
                )
                return dict(answer.json()["data"])

            yield send
        return
    async with open_tenant(target.settings, target.tenant) as (runtime, access):

        async def take(body: bytes, start: int) -> dict[str, Any]:
            report = await import_lines(runtime.kernel, access, body, from_line=start)
            errors = [{"line": error.line, "message": error.message} for error in report.errors]
            return {
                "imported": report.imported,
                "unchanged": report.unchanged,
                "failed": report.failed,
                "errors": errors,
                "next_line": report.next_line,
                "complete": report.complete,
            }

        yield take


def _readable(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as failure:
        raise Fault(f"{path} cannot be read: {failure.strerror}.") from None


def _report(total: Total) -> None:
    say(f"Imported {total.imported}, unchanged {total.unchanged}, failed {total.failed}.")
    for error in total.errors:
        say(f"  line {error['line']}: {error['message']}")
    if len(total.errors) < total.failed:
        say(f"  … and {total.failed - len(total.errors)} more.")
    if not total.complete:
        say("The file does not end with an export's last summary: memories may be missing from it.")
