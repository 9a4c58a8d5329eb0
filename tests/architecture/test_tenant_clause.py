"""Each clause of `permitted` is load-bearing: a leak detector is silent with it and loud without it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.unit.kernel import WordModel
from tests.unit.service import Service, access_of, draft, open_service
from titen_core import memories
from titen_core.errors import NotFound, TitenError
from titen_core.models import Access, Filters, Memory, Scope
from titen_core.protocols import VectorAnswer, VectorHit
from titen_core.recall import recall
from titen_core.remember import remember
from titen_core.sql import predicates
from titen_core.sql.fragments import Fragment
from titen_core.sql.memories import row_identity
from titen_core.transfer import export_page

READS = {
    *("get", "find", "history", "list", "expiring", "tags", "digest", "export", "standing", "recall"),
    *("change", "forget"),
}
SECRET = "hidden"


class LyingIndex:
    """A vector index that calls every row of the store near, whoever asks."""

    def __init__(self, seqs: list[int]) -> None:
        self.seqs = seqs

    async def search(self, *asked: object) -> VectorAnswer:
        return VectorAnswer(tuple(VectorHit(seq, 1.0) for seq in self.seqs))


async def leaks(service: Service, access: Access, foreign: Memory) -> set[str]:
    """Names of the operations through which `access` gets at a memory that is not its own."""
    kernel, rows, now_ms = service.kernel, service.kernel.store.memories, service.clock()
    identity = row_identity(foreign)
    state = await kernel.semantics.state()
    assert state.index is not None
    seen: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: memories.get(kernel, access, foreign.id),
        "find": lambda: rows.find(access, identity),
        "history": lambda: memories.history(kernel, access, foreign.id, after_version=0, limit=9, deleted=True),
        "list": lambda: rows.page(access, Scope(), Filters(), limit=9, before=None, now_ms=now_ms),
        "expiring": lambda: rows.expiring(access, Scope(), until_ms=now_ms + 10_000, limit=9, now_ms=now_ms),
        "tags": lambda: rows.tag_counts(access, Scope(), limit=9, now_ms=now_ms),
        "digest": lambda: kernel.store.digests.read(access, limit=9, now_ms=now_ms),
        "export": lambda: export_page(kernel, access, after=None, limit=9),
        "standing": lambda: kernel.store.transfer.standing(access, [foreign]),
        "recall": lambda: recall(kernel, access, Scope(), Filters(), query=SECRET, limit=9),
    }
    found = {name for name, look in seen.items() if SECRET in repr(await _or_nothing(look))}
    for name, write in (("change", memories.verify), ("forget", memories.forget)):
        try:
            await write(kernel, access, foreign.id)
            found.add(name)
        except NotFound:
            pass
        except TitenError:  # it saw the row and failed later
            found.add(name)
    return found


async def _or_nothing(look: Callable[[], Awaitable[object]]) -> object:
    try:
        return await look()
    except NotFound:
        return None


async def _leaks_of_a_fresh_store(directory: Path, *, locked: bool, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The detector's findings where the secret is another tenant's, or another subject's of one tenant."""
    async with open_service(directory, WordModel()) as service:
        owner = access_of(await service.tenant("owner"))
        prying = (
            Access(owner.tenant_id, owner.tenant_num, "user_2", owner.actor, "key_2")
            if locked
            else access_of(await service.tenant("prying"))
        )
        written = await remember(
            service.kernel, owner, draft(f"a {SECRET} fact", tags=(SECRET,), expires_at_ms=service.clock() + 5_000)
        )
        await remember(service.kernel, prying, draft("my own fact", subject_id="user_2"))
        state = await service.kernel.semantics.state()
        index = LyingIndex([written.memory.seq])
        monkeypatch.setattr(type(state.index), "search", index.search)
        return await leaks(service, prying, written.memory)


@pytest.mark.parametrize("locked", [False, True], ids=["another tenant's", "another subject's"])
def test_nothing_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: bool) -> None:
    assert asyncio.run(_leaks_of_a_fresh_store(tmp_path, locked=locked, monkeypatch=monkeypatch)) == set()


def _without_tenant(access: Access) -> Fragment:
    if access.subject_id is None:
        return Fragment("1 = 1")
    return Fragment("m.subject_id = ?", (access.subject_id,))


def _without_subject(access: Access) -> Fragment:
    return Fragment("m.tenant_id = ?", (access.tenant_id,))


@pytest.mark.parametrize(
    ("mutant", "locked"), [(_without_tenant, False), (_without_subject, True)], ids=["tenant", "subject"]
)
def test_every_read_leaks_without_the_clause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Access], Fragment], locked: bool
) -> None:
    _replace_everywhere(monkeypatch, mutant)
    assert asyncio.run(_leaks_of_a_fresh_store(tmp_path, locked=locked, monkeypatch=monkeypatch)) == READS


def _replace_everywhere(monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Access], Fragment]) -> None:
    """Put the mutant in place of `permitted` in every module that took it by name."""
    original = predicates.permitted
    users = [m for m in list(sys.modules.values()) if getattr(m, "permitted", None) is original]
    assert len(users) >= 3
    for module in users:
        monkeypatch.setattr(module, "permitted", mutant)
