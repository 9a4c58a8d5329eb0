"""Export and import: records move whole, in bounded steps, and never twice."""

import asyncio
import hashlib
import json
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.sqlite.driver import SqliteDriver
from tests.unit.kernel import FailingDriver, Killed, WordModel, make_access, open_driver, open_kernel, over
from tests.unit.service import RecordingDriver
from titen_core import limits
from titen_core.errors import ValidationError
from titen_core.ids import new_id
from titen_core.kernel import Kernel
from titen_core.memories import change, forget, get, restore, verify
from titen_core.models import Access, Category, Draft, Filters, Kind, Patch, PrincipalKind, Scope, Source
from titen_core.outbox import drain
from titen_core.protocols import Row, Statement
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.transfer import ImportReport, export_page, import_lines


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def export_all(kernel: Kernel, access: Access, *, limit: int = 100) -> bytes:
    pages, after = "", None
    while True:
        page = await export_page(kernel, access, after=after, limit=limit, deleted=True)
        pages += page
        after = json.loads(page.splitlines()[-1])["next"]
        if after is None:
            return pages.encode()


async def import_all(kernel: Kernel, access: Access, body: bytes) -> list[ImportReport]:
    reports = [await import_lines(kernel, access, body)]
    while (next_line := reports[-1].next_line) is not None:
        reports.append(await import_lines(kernel, access, body, from_line=next_line))
    return reports


async def furnish(kernel: Kernel, access: Access) -> None:
    """One memory of every kind of past."""
    agent = replace(access, actor=replace(access.actor, kind=PrincipalKind.AGENT, name="bot"))
    full = Draft(
        "s1",
        "Uses vim — 設備 🙂\nand tabs",
        agent_id="bot",
        run_id="run:1",
        kind=Kind.PROCEDURAL,
        category=Category.PREFERENCE,
        key="editor",
        tags=("Tools", "a_b%"),
        confidence=0.0,
        source=Source("chat", None),
        metadata={"n": 1.0, "deep": {"é": [None, True, 'x"\\']}},
        expires_at_ms=4_102_444_800_000,
    )
    written = await remember(kernel, access, full)
    await change(kernel, access, written.memory.id, Patch(content="Uses emacs", confidence=None))
    seen = await remember(kernel, agent, Draft("s1", "Agent's own words"))
    await verify(kernel, access, seen.memory.id)
    for n in range(3):
        await remember(kernel, agent, Draft("s2", "Logged in", kind=Kind.EPISODIC, source=Source("log", f"{n}")))
    back = await remember(kernel, access, Draft("s2", "Gone and back"))
    await forget(kernel, access, back.memory.id)
    await restore(kernel, access, back.memory.id)
    gone = await remember(kernel, access, Draft("s2", "Tombstone words"))
    await forget(kernel, access, gone.memory.id)


def a_record(**fields: Any) -> dict[str, Any]:
    return {
        "format": "titen-memory",
        "format_version": 1,
        "id": new_id(1_700_000_000_000),
        "subject_id": "s",
        "kind": "semantic",
        "content": "Likes tea",
        "priority": "normal",
        "author": "agent",
        "verified": False,
        "confidence": 0.7,
        "created_at": 1_700_000_000_000,
        "updated_at": 1_700_000_000_000,
        "version": 1,
        **fields,
    }


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_an_export_under_writes_can_be_imported_again(tmp_path: Path) -> None:
    """A memory that changes between the reading of its row and of its history."""

    class Overtaken(SqliteDriver):
        async def query(self, statement: Statement) -> list[Row]:
            if "memory_events AS e" in statement.sql and "count(*)" not in statement.sql:
                await self.meanwhile()
            return await super().query(statement)

        async def meanwhile(self) -> None:
            raise NotImplementedError

    async def case() -> None:
        async with open_driver(tmp_path):
            pass
        driver = Overtaken(tmp_path / "titen.db")
        kernel = over(driver)
        here, there = await make_access(kernel), await make_access(kernel)
        memory_id = (await remember(kernel, here, Draft("s", "Likes tea"))).memory.id

        async def meanwhile() -> None:
            await change(kernel, here, memory_id, Patch(content="Likes coffee"))

        driver.meanwhile = meanwhile  # type: ignore[method-assign]
        page = await export_page(kernel, here, after=None, limit=100)
        record = json.loads(page.splitlines()[0])
        assert (record["content"], [event["version"] for event in record["events"]]) == ("Likes tea", [1])
        assert (await import_all(kernel, there, page.encode()))[0].imported == 1
        await driver.close()

    run(case())


def test_a_round_trip_gives_the_same_bytes_with_pages_of_any_size(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            await furnish(kernel, here)
            exported = await export_all(kernel, here)
            assert [json.loads(line)["content"] for line in exported.splitlines()[:2]] == [
                "Uses emacs",
                "Agent's own words",
            ]
            (report,) = await import_all(kernel, there, await export_all(kernel, here, limit=2))
            assert (report.imported, report.failed, report.complete, report.warning) == (7, 0, True, None)
            assert await export_all(kernel, there) == exported
            (again,) = await import_all(kernel, there, exported)
            assert (again.imported, again.unchanged, again.errors) == (0, 7, ())

    run(case())


def test_metadata_nested_as_deep_as_the_api_takes_it_comes_back_in(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            await remember(kernel, here, Draft("s", "Deep", metadata=nested(limits.METADATA_DEPTH)))
            exported = await export_all(kernel, here)
            (report,) = await import_all(kernel, there, exported)
            assert (report.imported, report.errors) == (1, ())
            assert await export_all(kernel, there) == exported

    run(case())


def test_metadata_nested_deeper_than_an_export_may_hold_is_a_line_error(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            (report,) = await import_all(kernel, access, lines(a_record(metadata=nested(limits.METADATA_DEPTH + 1))))
            assert report.imported == 0
            assert report.errors[0].message == "metadata nests deeper than 63 levels."

    run(case())


def test_a_memory_with_a_history_too_long_for_a_line_moves_with_the_latest_of_it(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            padding = {"note": '"' * 4_000}
            written = await remember(kernel, here, Draft("s", "0 " + "é" * 4_000, metadata=padding))
            for n in range(1, 80):
                await change(kernel, here, written.memory.id, Patch(content=f"{n} " + "é" * 4_000))
            exported = await export_all(kernel, here)
            line, _ = exported.splitlines()
            assert limits.IMPORT_LINE_BYTES * 0.97 < len(line) <= limits.IMPORT_LINE_BYTES
            assert [event["version"] for event in json.loads(line)["events"]][-1] == 80
            (report,) = await import_all(kernel, there, exported)
            assert (report.imported, report.errors) == (1, ())
            assert await export_all(kernel, there) == exported
            (again,) = await import_all(kernel, here, exported)
            assert (again.unchanged, again.errors) == (1, ())

    run(case())


def test_a_body_of_bad_lines_is_read_in_bounded_parts(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            bad = b"\n 1\r\n" * (limits.IMPORT_LINES_COUNT + 1)
            first, second = await import_all(kernel, access, bad + lines(a_record()))
            assert (first.failed, first.next_line) == (limits.IMPORT_LINES_COUNT, 2 * limits.IMPORT_LINES_COUNT + 2)
            assert (second.failed, second.imported, second.next_line) == (1, 1, None)

    run(case())


def test_others_have_their_turn_between_the_lines_of_an_import(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            beside = asyncio.create_task(other())
            await import_lines(kernel, access, b"1\n" * 500)
            beside.cancel()
            assert turns >= 499

    run(case())


def nested(depth: int) -> dict[str, Any]:
    value: Any = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return {**value}


def test_imported_memories_are_found_by_words_and_after_a_drain_by_meaning(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path, WordModel()) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            await furnish(kernel, here)
            await import_all(kernel, there, await export_all(kernel, here))
            found = await recall(kernel, there, Scope(), Filters(), query="own words", limit=5)
            assert [item.memory.content for item in found.items][:1] == ["Agent's own words"]
            await drain(kernel)
            found = await recall(kernel, there, Scope(subject_id="s1"), Filters(), query="emacs", limit=5)
            assert found.items[0].memory.content == "Uses emacs"
            assert found.items[0].score.vector_rank is not None
            total = await kernel.store.outbox.total()
            assert (total.pending, total.failed) == (0, 0)

    run(case())


def test_summaries_prove_their_pages(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access, other = await make_access(kernel), await make_access(kernel)
            await furnish(kernel, access)
            page = (await export_page(kernel, access, after=None, limit=3)).encode()
            records, _, last = page.rstrip(b"\n").rpartition(b"\n")
            summary = json.loads(last)
            assert summary["records"] == 3
            assert summary["sha256"] == hashlib.sha256(records + b"\n").hexdigest()
            assert not (await import_lines(kernel, other, page)).complete
            exported = await export_all(kernel, access)
            tampered = await import_lines(kernel, await make_access(kernel), exported.replace(b"emacs", b"ed"))
            assert not tampered.complete
            assert [error.line for error in tampered.errors] == [8]
            cut = await import_lines(kernel, await make_access(kernel), exported.rstrip().rpartition(b"\n")[0])
            assert "incomplete" in (cut.warning or "")
            missing = b"".join(exported.splitlines(keepends=True)[1:])
            assert [e.line for e in (await import_lines(kernel, await make_access(kernel), missing)).errors] == [7]

    run(case())


def test_byte_order_marks_crlf_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            await furnish(kernel, here)
            exported = await export_all(kernel, here)
            dressed = b"\xef\xbb\xbf\r\n" + exported.replace(b"\n", b"\r\n\n").rstrip()
            report = await import_lines(kernel, there, dressed)
            assert (report.imported, report.errors, report.complete) == (7, (), True)

    run(case())


BAD = {
    "not JSON": b"{",
    "not an object": b"[]",
    "bad UTF-8": b'{"format": "\xff"}',
    "too deep": b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
    "far too deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "NaN": b'{"format": NaN}',
    "infinite": json.dumps(a_record(metadata={"n": 1})).replace('"n": 1', '"n": 1e999').encode(),
    "huge integer": b'{"format":' + b"9" * 5000 + b"}",
    "too long": json.dumps(a_record(content="x" * limits.IMPORT_LINE_BYTES)).encode(),
    "other format": b'{"format": "other"}',
}

BAD_FIELDS: list[dict[str, Any]] = [
    {"content": " "},
    {"content": "a\0b"},
    {"content": "\ud800"},
    {"format_version": 2},
    {"format_version": True},
    {"kind": "x"},
    {"kind": None},
    {"subject_id": ""},
    {"subject_id": 1},
    {"key": "k"},
    {"created_at": "yesterday"},
    {"created_at": True},
    {"created_at": 1.5},
    {"version": 0},
    {"version": 2**60},
    {"confidence": 7},
    {"confidence": True},
    {"verified": 1},
    {"verified_by": "x"},
    {"tags": ["x" * 65]},
    {"tags": "x"},
    {"id": ""},
    {"id": "../x"},
    {"metadata": []},
    {"metadata": {"x": "y" * 9000}},
    {"source": {"type": "a", "url": "b"}},
    {"surprise\ud800": 1},
    {"events": "none"},
    {"events": []},
    {"events": [{}]},
    {"events": [{"version": 2}]},
]


@pytest.mark.parametrize("bad", [*BAD.values(), *(lines(a_record(**f)).strip() for f in BAD_FIELDS)])
def test_a_bad_line_is_told_by_its_number_and_the_rest_is_imported(tmp_path: Path, bad: bytes) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            body = lines(a_record(content="before")) + bad + b"\n" + lines(a_record(content="after"))
            report = await import_lines(kernel, access, body)
            assert (report.imported, report.failed) == (2, 1)
            assert [error.line for error in report.errors] == [2]
            report.errors[0].message.encode()

    run(case())


def test_events_are_held_to_the_same_rules(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            written = await remember(kernel, here, Draft("s", "First words"))
            await change(kernel, here, written.memory.id, Patch(content="Second words"))
            good = json.loads((await export_all(kernel, here)).splitlines()[0])
            first, second = good["events"]
            for events, complaint in (
                ([first], "events[0].version"),
                ([second, first], "events[0].version"),
                ([{**first, "snapshot": "text"}, second], "events[0].snapshot"),
                ([{**first, "snapshot": {**first["snapshot"], "content": ""}}, second], "content"),
                ([{**first, "snapshot": {**first["snapshot"], "x": 1}}, second], "events[0].snapshot.x"),
                (
                    [{**first, "snapshot": {**first["snapshot"], "subject_id": "b"}}, second],
                    "events[0].snapshot.subject_id",
                ),
                ([first, {**second, "event_type": "purge"}], "events[1].event_type"),
                ([first, {**second, "actor": ""}], "events[1].actor"),
            ):
                report = await import_lines(kernel, there, lines({**good, "events": events}))
                assert report.failed == 1
                assert report.errors[0].message.startswith(complaint)
            assert (await import_lines(kernel, there, lines({**good, "events": [second]}))).imported == 1

    run(case())


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access, foreign = await make_access(kernel), await make_access(kernel)
            record = a_record(category="fact", key="drink")
            await import_lines(kernel, access, lines(record))
            assert (await import_lines(kernel, foreign, lines({**record, "content": "Theirs"}))).imported == 1
            for changed in (
                {**record, "content": "Coffee"},
                {**record, "tags": ["x"]},
                {**record, "version": 2},
                {**record, "metadata": {"a": 1}},
                {**record, "id": new_id(0), "content": "Coffee"},
                {**record, "id": new_id(0), "deleted_at": 5},
            ):
                report = await import_lines(kernel, access, lines(changed))
                assert (report.failed, record["id"] in report.errors[0].message) == (1, True)
            twin = await import_lines(kernel, access, lines({**record, "id": new_id(0)}))
            assert (twin.unchanged, twin.failed) == (1, 0)
            assert (await get(kernel, access, record["id"])).content == "Likes tea"

    run(case())


def test_twins_within_one_step_are_judged_by_the_first(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            record = a_record()
            body = lines(record, record, {**record, "content": "Other"}, {**record, "id": new_id(0)})
            report = await import_lines(kernel, access, body)
            assert (report.imported, report.unchanged, report.failed) == (1, 2, 1)

    run(case())


def test_a_body_full_of_twins_goes_in_smaller_parts(tmp_path: Path) -> None:
    """Twins need a second round; a call stops before its rounds are more queries than D1 takes."""

    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            rows = [a_record(content=f"Row {n}") for n in range(limits.IMPORT_STEP_RECORDS * 3)]
            body = lines(*(twin for row in rows for twin in (row, {**row, "id": new_id(0)})))
            recorder = RecordingDriver(kernel.store.driver)
            recorded = over(recorder)
            reports: list[ImportReport] = []
            next_line: int | None = 1
            while next_line is not None:
                recorder.statements.clear()
                reports.append(await import_lines(recorded, access, body, from_line=next_line))
                assert len(recorder.statements) < 50
                next_line = reports[-1].next_line
            assert [report.next_line is None for report in reports] == [False, True]
            assert sum(report.imported for report in reports) == len(rows)
            assert sum(report.unchanged for report in reports) == len(rows)

    run(case())


def test_a_locked_key_moves_its_subject_only(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            await furnish(kernel, access)
            locked = replace(access, subject_id="s1")
            exported = await export_all(kernel, locked)
            assert {json.loads(line)["subject_id"] for line in exported.splitlines()[:-1]} == {"s1"}
            taken = a_record(subject_id="s2", content="Of another")
            await import_lines(kernel, access, lines(taken))
            report = await import_lines(kernel, locked, lines(a_record(subject_id="s2"), {**taken, "subject_id": "s1"}))
            assert report.failed == 2
            assert "Of another" not in str(report)

    run(case())


def test_a_record_without_history_gets_one_honest_event(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel, name="Importer")
            record = a_record(version=7)
            await import_lines(kernel, access, lines(record))
            (told,) = json.loads((await export_all(kernel, access)).splitlines()[0])["events"]
            assert (told["version"], told["event_type"], told["actor"]) == (7, "add", "Importer")
            assert told["created_at"] > record["updated_at"]
            again = await import_lines(kernel, access, lines(record))
            assert (again.unchanged, again.failed) == (1, 0)

    run(case())


def test_a_large_body_goes_in_steps(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access = await make_access(kernel)
            count = limits.IMPORT_STEP_RECORDS * limits.IMPORT_STEPS_COUNT + 20
            body = lines(*(a_record(content=f"Row {n}") for n in range(count)))
            first, second = await import_all(kernel, access, body)
            assert (first.next_line, first.imported) == (count - 19, count - 20)
            assert (second.imported, second.next_line) == (20, None)

    run(case())


def test_steps_stay_within_the_bytes_of_a_parameter(tmp_path: Path) -> None:
    """8 KiB of Chinese text is many times that in terms."""

    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            rows = [
                a_record(content=f"{n} " + "".join(chr(0x4E00 + n * 97 + i) for i in range(2700))) for n in range(99)
            ]
            reports = await import_all(kernel, here, lines(*rows[:60]))
            assert sum(report.imported for report in reports) == 60
            exported = await export_all(kernel, here)
            await import_all(kernel, there, exported)
            assert await export_all(kernel, there) == exported

    run(case())


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_at_any_batch_leaves_whole_records_and_a_second_run_completes(tmp_path: Path, written: bool) -> None:
    async def case() -> None:
        async with open_driver(tmp_path) as driver:
            kernel = over(driver)
            here = await make_access(kernel)
            await furnish(kernel, here)
            many = lines(*(a_record(content=f"Row {n}") for n in range(120)))
            await import_lines(kernel, here, many)
            exported = await export_all(kernel, here)
            for batches in range(3):
                there = await make_access(kernel)
                dying = over(FailingDriver(driver, batches, written=written))
                with_kill = True
                try:
                    await import_lines(dying, there, exported)
                    with_kill = False
                except Killed:
                    pass
                partly = (await export_all(kernel, there)).splitlines()[:-1]
                assert set(partly) <= set(exported.splitlines())
                assert with_kill == (batches < 2)
                (report,) = await import_all(kernel, there, exported)
                assert report.failed == 0
                assert await export_all(kernel, there) == exported

    run(case())


def test_limits_and_foreign_cursors_of_an_export_are_refused(tmp_path: Path) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path) as kernel:
            access, foreign = await make_access(kernel), await make_access(kernel)
            await furnish(kernel, access)
            page = await export_page(kernel, access, after=None, limit=1)
            cursor = json.loads(page.splitlines()[-1])["next"]
            for bad in (0, 101):
                with pytest.raises(ValidationError, match="limit"):
                    await export_page(kernel, access, after=None, limit=bad)
            for caller, after in ((foreign, cursor), (replace(access, subject_id="s2"), cursor), (access, "x")):
                with pytest.raises(ValidationError, match="after"):
                    await export_page(kernel, caller, after=after, limit=1)
            with pytest.raises(ValidationError, match="from_line"):
                await import_lines(kernel, access, b"", from_line=0)

    run(case())


def test_a_page_of_long_histories_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def case() -> None:
        monkeypatch.setattr(limits, "EXPORT_PAGE_EVENTS", 3)
        async with open_kernel(tmp_path) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            await furnish(kernel, here)
            page = await export_page(kernel, here, after=None, limit=100, deleted=True)
            assert len(page.splitlines()) < 8
            exported = await export_all(kernel, here)
            await import_all(kernel, there, exported)
            assert await export_all(kernel, there) == exported

    run(case())


names = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names
documents = st.dictionaries(names, st.recursive(scalars, lambda inner: st.lists(inner, max_size=3)), max_size=4)
drafts = st.builds(
    Draft,
    subject_id=names,
    content=names,
    agent_id=names,
    kind=st.sampled_from(Kind),
    category=st.sampled_from(Category),
    key=st.none() | names,
    tags=st.lists(names.map(str.strip), max_size=4, unique_by=str.casefold).map(tuple),
    confidence=st.floats(0, 1),
    source=st.builds(Source, st.none() | names, names),
    metadata=documents,
    expires_at_ms=st.integers(1, limits.TIME_MAX_MS),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(drafts, st.sampled_from(["keep", "forget", "verify", "rewrite"])), min_size=1, max_size=6))
def test_any_history_survives_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, pasts: list[tuple[Draft, str]]
) -> None:
    async def case() -> None:
        async with open_kernel(tmp_path_factory.mktemp("store")) as kernel:
            here, there = await make_access(kernel), await make_access(kernel)
            for draft, past in pasts:
                clean = replace(draft, content=draft.content.strip())
                memory_id = (await remember(kernel, here, clean)).memory.id
                if past == "forget":
                    await forget(kernel, here, memory_id)
                elif past == "verify":
                    await verify(kernel, here, memory_id)
                elif past == "rewrite":
                    await change(kernel, here, memory_id, Patch(metadata={"then": 1.0}, confidence=None))
            exported = await export_all(kernel, here)
            (report,) = await import_all(kernel, there, exported)
            assert report.errors == ()
            assert report.complete
            assert await export_all(kernel, there) == exported
            assert (await import_lines(kernel, there, exported)).imported == 0

    run(case())
