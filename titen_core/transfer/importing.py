"""Import: records into the store as they are, in bounded steps that may be repeated at will.

A line that cannot be taken is reported and the next one is tried. What is there already is left
alone: the same record is `unchanged`; another record under the same id is an error of its line.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from titen_core import limits
from titen_core.content import canonical_json, refusal
from titen_core.errors import PayloadTooLarge, ValidationError
from titen_core.jwt_auth import is_signed_in
from titen_core.kernel import Kernel
from titen_core.models import Access, EventType, Memory, MemoryEvent, PrincipalKind
from titen_core.sql.memories import row_identity
from titen_core.sql.text_index import text_words
from titen_core.transfer.lines import Line, PageCheck, read_json, read_lines
from titen_core.transfer.record import (
    FORMAT,
    SUMMARY_FORMAT,
    Record,
    canonical_events,
    canonical_fields,
    read_record,
    record_line,
    snapshot,
)

__all__ = ["ImportReport", "LineError", "import_lines"]

_PASSED_A_TURN = 1_000  # lines
_ROUNDS = 3  # a step meets rows written meanwhile, or twins within itself, in its second round


@dataclass(frozen=True, slots=True)
class LineError:
    """Why one line was not taken, in one sentence."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of the lines from `from_line` on.

    `failed` counts every bad line, `errors` tells the first IMPORT_ERRORS_REPORTED of them.
    `next_line`: call again with the same body and `from_line` set to it; None when the body is done.
    `complete`: the body is done and ended with the summary of an export's last page.
    """

    imported: int
    unchanged: int
    failed: int
    errors: tuple[LineError, ...]
    next_line: int | None
    complete: bool

    @property
    def warning(self) -> str | None:
        """A sentence for whoever reads the report of a body that is done but not whole."""
        if self.next_line is not None or self.complete:
            return None
        return "The export is incomplete: its last line is not the summary that ends one. Memories may be missing."


async def import_lines(kernel: Kernel, access: Access, body: bytes, *, from_line: int = 1) -> ImportReport:
    """Take the records of an NDJSON body, from a line on, until its end or a bound.

    The bounds are IMPORT_STEPS_COUNT steps, IMPORT_ROUNDS_COUNT rounds and IMPORT_LINES_COUNT lines, bad ones included.

    Each step is one atomic batch, so a crash loses no more than the answer; running it again finds
    the rest. Byte order marks, CRLF and blank lines are passed over. Raises ValidationError for
    `from_line` below 1 and PayloadTooLarge; the driver's SqlErrors pass through.
    """
    if from_line < 1:
        raise refusal("from_line", "must be at least 1")
    if len(body) > limits.IMPORT_BODY_BYTES:
        raise PayloadTooLarge(f"The body is over {limits.IMPORT_BODY_BYTES} bytes; send it in parts.")
    run = _Import(kernel, access)
    next_line = await run.take(body, from_line)
    if run.imported:
        kernel.wake()
    return ImportReport(
        imported=run.imported,
        unchanged=run.unchanged,
        failed=run.failed,
        errors=tuple(sorted(run.errors, key=lambda error: error.line)),
        next_line=next_line,
        complete=next_line is None and run.check.complete,
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """A record that passed validation, waiting for its step."""

    line: int
    record: Record
    words: str
    size_bytes: int


@dataclass(slots=True)
class _Import:
    kernel: Kernel
    access: Access
    check: PageCheck = field(default_factory=PageCheck)
    imported: int = 0
    unchanged: int = 0
    failed: int = 0
    errors: list[LineError] = field(default_factory=list)
    rounds: int = 0

    async def take(self, body: bytes, from_line: int) -> int | None:
        """Read, validate and write; answers the line to go on with.

        Between lines others get their turn: reading a long body must not hold up the whole service.
        """
        step: list[_Item] = []
        steps = lines = 0
        for line in read_lines(body):
            passed_over = line.number < from_line
            if not passed_over or line.number % _PASSED_A_TURN == 0:
                await asyncio.sleep(0)
            if not passed_over and lines == limits.IMPORT_LINES_COUNT:
                await self._write(step)
                return line.number
            lines += not passed_over
            item = self._read(line, passed_over=passed_over)
            if item is None:
                continue
            if _is_full(step, item):
                await self._write(step)
                steps += 1
                step = []
                if steps == limits.IMPORT_STEPS_COUNT or self.rounds > limits.IMPORT_ROUNDS_COUNT - _ROUNDS:
                    return line.number
            step.append(item)
        await self._write(step)
        return None

    def _read(self, line: Line, *, passed_over: bool) -> _Item | None:
        """The line as an item; None for a summary, a bad line and one that is passed over."""
        try:
            if line.may_be_summary:
                values = read_json(line.data)
                if values.get("format") == SUMMARY_FORMAT:
                    self.check.summary(values)
                    return None
            self.check.record(line)
            return None if passed_over else self._item(line)
        except ValidationError as error:
            if not passed_over:
                self._fail(line.number, error.message)
            return None

    def _item(self, line: Line) -> _Item:
        values = read_json(line.data)
        if values.get("format") != FORMAT:
            raise refusal("format", f"must be {FORMAT}; see the export format for what a line holds")
        record = read_record(values)
        memory = record.memory
        if self.access.subject_id not in {None, memory.subject_id}:
            raise refusal("subject_id", "is not the subject this key is locked to")
        if self.access.actor.kind is not PrincipalKind.HUMAN and _speaks_for_a_human(record):
            raise ValidationError("A human wrote or verified this record; import it with the key of a human admin.")
        size_bytes = len(record_line(memory, record.events or ()).encode())
        if size_bytes > limits.IMPORT_LINE_BYTES:
            raise ValidationError(f"The record is {size_bytes} bytes; at most {limits.IMPORT_LINE_BYTES} are allowed.")
        words = text_words(self.access.tenant_num, memory.content) if memory.deleted_at_ms is None else ""
        return _Item(line.number, record, words, size_bytes + len(words.encode()))

    async def _write(self, step: Sequence[_Item]) -> None:
        """Settle every item of a step: inserted, unchanged or failed."""
        waiting = list(step)
        for _ in range(_ROUNDS):
            if not waiting:
                return
            self.rounds += 1
            fresh, twins = _first_of_each(await self._not_here(waiting))
            written = await self._insert(fresh)
            self.imported += len(written)
            waiting = [item for item in fresh if item.record.memory.id not in written] + twins
        for item in waiting:
            self._fail(item.line, "The id or the statement is taken by a record that this key cannot read.")

    async def _not_here(self, items: Sequence[_Item]) -> list[_Item]:
        """The items that nothing stands for yet; the others are counted."""
        standing = await self.kernel.store.transfer.standing(self.access, [item.record.memory for item in items])
        by_id = {row.id: row for row in standing}
        by_identity = {row_identity(row): row for row in standing}
        same = [item for item in items if _has_same_fields(item.record.memory, by_id.get(item.record.memory.id))]
        histories = await self.kernel.store.transfer.histories(self.access, [item.record.memory.id for item in same])
        left = []
        for item in items:
            memory = item.record.memory
            holder = by_id.get(memory.id)
            if holder is not None:
                self._judge_same_id(item, holder, histories.get(memory.id, ()))
            elif (twin := by_identity.get(row_identity(memory))) is not None:
                self._judge_same_identity(item, twin)
            else:
                left.append(item)
        return left

    def _judge_same_id(self, item: _Item, holder: Memory, history: Sequence[MemoryEvent]) -> None:
        if _has_same_fields(item.record.memory, holder) and _is_known(item.record.events, history):
            self.unchanged += 1
        else:
            self._fail(
                item.line, f"id {holder.id} is here with other content or history; what is here was left as it is."
            )

    def _judge_same_identity(self, item: _Item, twin: Memory) -> None:
        """The statement is here under another id: nothing to do, unless the two disagree."""
        memory = item.record.memory
        if (memory.deleted_at_ms is None) != (twin.deleted_at_ms is None):
            which = "deleted" if twin.deleted_at_ms is not None else "not deleted"
            self._fail(item.line, f"The same memory is here as id {twin.id} and {which}; it was left as it is.")
        elif memory.content != twin.content and memory.key is not None:
            self._fail(item.line, f"The same key is here as id {twin.id} with other content; it was left as it is.")
        else:
            self.unchanged += 1

    async def _insert(self, items: Sequence[_Item]) -> set[str]:
        if not items:
            return set()
        kernel, now_ms = self.kernel, self.kernel.clock()
        records = [(item.record.memory, self._history(item.record, now_ms)) for item in items]
        words: Mapping[str, str] = {item.record.memory.id: item.words for item in items if item.words}
        return await kernel.store.transfer.insert(self.access, records, words, op=kernel.new_id(), now_ms=now_ms)

    def _history(self, record: Record, now_ms: int) -> Sequence[MemoryEvent]:
        """The record's own; where it has none, one `add` that says who brought it in, and when."""
        if record.events is not None:
            return record.events
        memory = record.memory
        return (
            MemoryEvent(
                id=self.kernel.new_id(),
                memory_id=memory.id,
                version=memory.version,
                event_type=EventType.ADD,
                snapshot=snapshot(memory),
                actor=self.access.actor.name,
                created_at_ms=now_ms,
            ),
        )

    def _fail(self, line: int, message: str) -> None:
        self.failed += 1
        if len(self.errors) < limits.IMPORT_ERRORS_REPORTED:
            self.errors.append(LineError(line, message))


def _speaks_for_a_human(record: Record) -> bool:
    """Whether taking it over says that a person wrote or verified it, or did anything: what no agent may say."""
    told = [snapshot(record.memory), *(event.snapshot for event in record.events or ())]
    return any(then["author"] == "human" or then["verified"] for then in told) or any(
        event.event_type is EventType.VERIFY or is_signed_in(event.actor) for event in record.events or ()
    )


def _is_full(step: Sequence[_Item], item: _Item) -> bool:
    """Whether a step that holds something has no room for one more."""
    if len(step) >= limits.IMPORT_STEP_RECORDS:
        return True
    return bool(step) and sum(held.size_bytes for held in step) + item.size_bytes > limits.IMPORT_STEP_BYTES


def _first_of_each(items: Sequence[_Item]) -> tuple[list[_Item], list[_Item]]:
    """Items no two of which share an id or identity, and the rest for the next round."""
    first: list[_Item] = []
    rest: list[_Item] = []
    taken: set[str] = set()
    for item in items:
        names = {item.record.memory.id, row_identity(item.record.memory)}
        (rest if names & taken else first).append(item)
        taken |= names
    return first, rest


def _is_known(events: Sequence[MemoryEvent] | None, history: Sequence[MemoryEvent]) -> bool:
    """Whether the history here ends with these events: a record may leave out the oldest."""
    if events is None:
        return True
    latest = history[-len(events) :]
    return canonical_json(canonical_events(events)) == canonical_json(canonical_events(latest))


def _has_same_fields(memory: Memory, other: Memory | None) -> bool:
    """As JSON, since Python calls 1, 1.0 and True equal."""
    return other is not None and canonical_json(canonical_fields(memory)) == canonical_json(canonical_fields(other))
