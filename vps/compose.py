"""Putting the parts together by hand: settings in, a kernel out. The only place that names adapters."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from adapters.local.embedder import LocalGateway, local_available
from adapters.sqlite.driver import SqliteDriver
from adapters.sqlite.vec import SqliteVecIndex
from titen_core.ids import system_clock
from titen_core.kernel import Deadlines, Kernel
from titen_core.models import Access, Actor, Fingerprint, PrincipalKind, Tenant
from titen_core.protocols import ChatModel, ColocatedIndex, ModelGateway
from titen_core.semantics import Semantics
from titen_core.sql.store import open_store
from titen_core.trace import TracedDriver, TracedGateway
from vps.faults import EXIT_USAGE, Fault
from vps.settings import EmbedMode, Settings, require_embedder
from vps.storefile import READERS, open_store_file

__all__ = ["Runtime", "build_kernel", "open_chat", "open_gateway", "open_runtime", "operator_access"]

OPERATOR = "operator"
PATIENT_EMBED_MS = 30_000


@dataclass(frozen=True, slots=True)
class Runtime:
    """An open store with everything that works on it."""

    settings: Settings
    driver: SqliteDriver
    gateway: ModelGateway | None
    kernel: Kernel


@contextlib.asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    wake: Callable[[], None] | None = None,
    readers: int = READERS,
    patient: bool = False,
) -> AsyncIterator[Runtime]:
    """The runtime over the settings' store; embedder and driver are closed at the end. Raises Fault.

    `patient`: a person waits for one answer, so a model that still has to load is waited for.
    """
    async with open_store_file(settings.db, readers=readers) as driver:
        gateway, chat = open_gateway(settings), open_chat(settings)
        kernel = build_kernel(settings, driver, gateway, wake, patient=patient)
        try:
            yield Runtime(settings, driver, gateway, dataclasses.replace(kernel, chat=chat))
        finally:
            for model in (gateway, chat):
                if model is not None:
                    await model.close()


def build_kernel(
    settings: Settings,
    driver: SqliteDriver,
    gateway: ModelGateway | None,
    wake: Callable[[], None] | None = None,
    *,
    patient: bool = False,
) -> Kernel:
    """The capabilities over an open driver. Opens nothing and reads nothing."""

    def index_for(fingerprint: Fingerprint) -> ColocatedIndex:
        return SqliteVecIndex(driver, fingerprint)

    store = open_store(TracedDriver(driver))
    traced = None if gateway is None else TracedGateway(gateway)
    semantics = Semantics(store.meta, traced, index_for, system_clock, expected_dimensions=settings.embed_dims)
    return Kernel(store, semantics, deadlines=_deadlines(settings, patient), wake=wake or _nobody_listens)


def open_gateway(settings: Settings) -> ModelGateway | None:
    """The embedder the settings ask for; it connects and loads nothing yet. Raises Fault."""
    require_embedder(settings, local_available=local_available)
    if settings.embed is EmbedMode.LOCAL:
        return LocalGateway()
    if settings.embed is EmbedMode.ENDPOINT:
        from adapters.openai.gateway import OpenAIGateway  # noqa: PLC0415 - httpx costs start-up time

        try:
            return OpenAIGateway(
                settings.embed_base_url or "",
                settings.embed_model or "",
                settings.embed_api_key,
                settings.embed_dims,
            )
        except ValueError as failure:
            raise Fault(f"{failure}.", EXIT_USAGE) from None
    return None


def open_chat(settings: Settings) -> ChatModel | None:
    """The chat model the settings ask for, None where they name none; it connects to nothing yet. Raises Fault."""
    if settings.chat_base_url is None and settings.chat_model is None:
        return None
    if settings.chat_base_url is None or settings.chat_model is None:
        missing = "TITEN_CHAT_BASE_URL" if settings.chat_base_url is None else "TITEN_CHAT_MODEL"
        raise Fault(
            f"Extraction needs {missing} as well; set it, or unset the other TITEN_CHAT_* settings.", EXIT_USAGE
        )
    from adapters.openai.chat import OpenAIChat  # noqa: PLC0415 - httpx costs start-up time

    try:
        return OpenAIChat(settings.chat_base_url, settings.chat_model, settings.chat_api_key)
    except ValueError as failure:
        raise Fault(f"{failure}.", EXIT_USAGE) from None


def operator_access(tenant: Tenant) -> Access:
    """What someone with the store's file in hand may touch in a tenant: all of it, as a human."""
    return Access(
        tenant_id=tenant.id,
        tenant_num=tenant.num,
        subject_id=None,
        actor=Actor(OPERATOR, PrincipalKind.HUMAN),
        key_id="",
    )


def _deadlines(settings: Settings, patient: bool) -> Deadlines:
    write_ms, read_ms = settings.embed_write_deadline_ms, settings.embed_read_deadline_ms
    if patient:
        write_ms, read_ms = max(write_ms, PATIENT_EMBED_MS), max(read_ms, PATIENT_EMBED_MS)
    return Deadlines(embed_write_ms=write_ms, embed_read_ms=read_ms, chat_ms=settings.chat_deadline_ms)


def _nobody_listens() -> None:
    return None
