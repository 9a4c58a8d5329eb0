"""The Worker: one request through the core, and a bounded part of its housekeeping after it or by cron.

Composed by hand once per isolate, at its first request: the platform allows neither randomness nor I/O
before that. Importing this module builds every schema, so that the deployed snapshot holds them.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from workers import WorkerEntrypoint

from adapters.cloudflare.convert import JsAi, JsD1, JsVectorize, print_line, setting
from adapters.cloudflare.d1 import D1Driver, count_queries
from adapters.cloudflare.http import read_request, write_response
from adapters.cloudflare.vectorize import VectorizeIndex
from adapters.cloudflare.watch import Watch
from adapters.cloudflare.workers_ai import WorkersAIGateway
from titen_core import limits
from titen_core.errors import IndexUnavailable, SqlBusy, SqlError, SqlFull
from titen_core.http.app import App
from titen_core.ids import system_clock
from titen_core.jwt_auth import JwtSecret
from titen_core.kernel import Deadlines, Kernel
from titen_core.models import Fingerprint
from titen_core.outbox import drain
from titen_core.protocols import ChatModel, ColocatedIndex, ModelGateway, RemoteIndex
from titen_core.semantics import Semantics
from titen_core.sql.store import open_store
from titen_core.trace import TracedDriver, TracedGateway

# A Free plan's request may make 50 D1 queries, its `waitUntil` included (docs/decisions/0030).
D1_QUERIES_MAX: Final = 50
HOUSEKEEPING_QUERIES: Final = 30  # at most, however many items; where a request left less room, the next one does it
DRAIN_AFTER_REQUEST_ITEMS: Final = 4
DRAIN_BY_CRON_ITEMS: Final = 16
EXPIRED_ROWS: Final = 500


class Default(WorkerEntrypoint):
    """What Cloudflare calls."""

    async def fetch(self, request: Any) -> Any:
        """Answer one request; work that it left for later goes on after the answer."""
        service = _service(self.env)
        queries = count_queries()
        incoming = await read_request(request)
        answer = await service.app.handle(incoming)
        if queries.made <= D1_QUERIES_MAX - HOUSEKEEPING_QUERIES and service.take_wake():
            self.ctx.waitUntil(service.after_request())
        return await write_response(answer, incoming.method)

    async def scheduled(self, controller: Any, env: Any = None, ctx: Any = None) -> None:
        """Every few minutes: vectors that are due, a broken text index, old idempotency rows."""
        del controller, env, ctx
        await _service(self.env).by_cron()


class Service:
    """The core over this Worker's bindings, kept for the life of the isolate."""

    def __init__(self, env: Any) -> None:
        self._woken = False
        self._database = JsD1(env.DB)
        self._index = None if setting(env, "VECTORIZE") is None else JsVectorize(env.VECTORIZE)
        self._watch = Watch(_log, system_clock)
        self.kernel = _kernel(env, self._database, self._index, self._wake)
        self.app = App(
            self.kernel,
            runtime="cloudflare",
            log=self._watch.line,
            cors_origins=_cors_origins(env),
            jwt_secret=_jwt_secret(env),
        )

    def take_wake(self) -> bool:
        """Whether the core asked for housekeeping since the last call."""
        woken, self._woken = self._woken, False
        return woken

    async def after_request(self) -> None:
        """A few vectors, and a text index that a request found broken. Never raises."""
        await _logged("after_request", self._heal_text())
        await _logged("after_request", self._drain(DRAIN_AFTER_REQUEST_ITEMS))
        self._watch.database(self._database.size_bytes)

    async def by_cron(self) -> None:
        """One bounded round; what it leaves is due at the next. Never raises."""
        await _logged("cron", self._heal_text())
        await _logged("cron", self._drain(DRAIN_BY_CRON_ITEMS))
        await _logged("cron", self._expire())
        await _logged("cron", self._look_at_limits())

    def _wake(self) -> None:
        self._woken = True

    async def _drain(self, items: int) -> None:
        await drain(self.kernel, items)

    async def _expire(self) -> None:
        await self.kernel.store.idempotency.expire(self.kernel.clock(), EXPIRED_ROWS)

    async def _look_at_limits(self) -> None:
        self._watch.database(self._database.size_bytes)
        self._watch.tenants(await self.kernel.store.keys.newest_tenant_num())
        if self._index is not None:
            self._watch.index(await self._index.describe())

    async def _heal_text(self) -> None:
        """Make a broken text index anew, and fill in a part; the next round goes on."""
        index = self.kernel.store.text
        try:
            await index.check()
        except (SqlBusy, SqlFull):
            raise
        except SqlError as failure:
            _log({"event": "text_index_recreated", "error": type(failure).__name__})
            await index.recreate()
        if await index.refill_step():
            self._wake()


_KEPT: list[Service] = []


def _service(env: Any) -> Service:
    if not _KEPT:
        _KEPT.append(Service(env))
    return _KEPT[0]


def _kernel(env: Any, database: JsD1, index: JsVectorize | None, wake: Any) -> Kernel:
    driver = TracedDriver(D1Driver(database))
    store = open_store(driver)
    gateway = None if index is None else _gateway(env)
    semantics = Semantics(store.meta, gateway, _index_for(index), system_clock)
    return Kernel(store, semantics, deadlines=_deadlines(env), wake=wake, chat=_chat(env))


def _chat(env: Any) -> ChatModel | None:
    """None, and so no extraction, unless TITEN_CHAT_MODEL names a model of Workers AI."""
    models, model = setting(env, "AI"), setting(env, "TITEN_CHAT_MODEL")
    if models is None or not model:
        return None
    from adapters.cloudflare.workers_ai_chat import WorkersAIChat  # noqa: PLC0415 - most Workers have no use for it

    return WorkersAIChat(JsAi(models), str(model))


def _gateway(env: Any) -> ModelGateway | None:
    """None, and so recall by text alone, without the AI binding (or Vectorize), or with TITEN_EMBED=off."""
    models = setting(env, "AI")
    if models is None or setting(env, "TITEN_EMBED") == "off":
        return None
    return TracedGateway(WorkersAIGateway(JsAi(models)))


def _index_for(index: JsVectorize | None) -> Any:
    def index_for(fingerprint: Fingerprint) -> ColocatedIndex | RemoteIndex:
        del fingerprint
        if index is None:
            raise IndexUnavailable("The Worker has no Vectorize binding.")
        return VectorizeIndex(index)

    return index_for


def _deadlines(env: Any) -> Deadlines:
    write_ms = setting(env, "TITEN_EMBED_WRITE_DEADLINE_MS") or limits.EMBED_WRITE_DEADLINE_MS
    read_ms = setting(env, "TITEN_EMBED_READ_DEADLINE_MS") or limits.EMBED_READ_DEADLINE_MS
    chat_ms = setting(env, "TITEN_CHAT_DEADLINE_MS") or limits.CHAT_DEADLINE_MS
    return Deadlines(embed_write_ms=int(write_ms), embed_read_ms=int(read_ms), chat_ms=int(chat_ms))


def _cors_origins(env: Any) -> frozenset[str]:
    return frozenset(str(setting(env, "TITEN_CORS_ORIGINS") or "").replace(",", " ").split())


def _jwt_secret(env: Any) -> JwtSecret | None:
    """None, and so no sign-in by token, without TITEN_JWT_SECRET. A short one raises ValueError: nothing answers."""
    value = setting(env, "TITEN_JWT_SECRET")
    return JwtSecret(str(value)) if value else None


async def _logged(where: str, work: Any) -> None:
    try:
        await work
    except Exception as failure:  # the answer is out already; the next round tries again
        _log({"event": "housekeeping_failed", "where": where, "error": type(failure).__name__})


def _log(line: Mapping[str, object]) -> None:
    print_line(json.dumps(line, separators=(",", ":")))
