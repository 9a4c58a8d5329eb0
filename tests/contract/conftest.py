"""Fixtures of the contract suite: one runtime a session, one client a caller, fresh names a test."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from tests.contract.client import Api, Ledger
from tests.runtimes.base import Embedder, PrincipalKind, Role, Runtime, Tenant
from tests.runtimes.client import open_client
from tests.runtimes.cloudflare import CloudflareRuntime
from tests.runtimes.live import LiveRuntime
from tests.runtimes.vps import VpsRuntime

RUNTIMES: dict[str, Callable[[Path, Mapping[str, str]], Runtime]] = {
    "vps": VpsRuntime,
    "cloudflare": CloudflareRuntime,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "runtime_name" in metafunc.fixturenames:
        metafunc.parametrize("runtime_name", _chosen_runtimes(metafunc.config), scope="session")


def _chosen_runtimes(config: pytest.Config) -> list[str]:
    if config.getoption("--base-url"):
        return ["live"]
    chosen: str = config.getoption("--runtime")
    return list(RUNTIMES) if chosen == "all" else [chosen]


@pytest.fixture(scope="session")
def runtime(
    runtime_name: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runtime]:
    """The runtime under test, started once."""
    if runtime_name == "live":
        yield LiveRuntime(pytestconfig.getoption("--base-url"), pytestconfig.getoption("--api-key"))
        return
    patient = {"TITEN_EMBED_WRITE_DEADLINE_MS": "20000", "TITEN_EMBED_READ_DEADLINE_MS": "20000"}
    started = start_runtime(runtime_name, tmp_path_factory, **patient)
    yield started
    started.close()


def start_runtime(name: str, tmp_path_factory: pytest.TempPathFactory, **settings: str) -> Runtime:
    """A new runtime of its own, for tests that break it; the caller closes it."""
    return RUNTIMES[name](tmp_path_factory.mktemp(name), settings)


@pytest.fixture(scope="session")
def http(runtime: Runtime) -> Iterator[httpx.Client]:
    with open_client(runtime.base_url) as client:
        yield client


@pytest.fixture(scope="session")
def ledger(runtime: Runtime) -> Ledger | None:
    return None if runtime.disposable else Ledger()


@pytest.fixture(scope="session")
def tenant(runtime: Runtime) -> Tenant:
    """The tenant that most tests share, each with subjects of its own."""
    return runtime.new_tenant()


@pytest.fixture
def api(http: httpx.Client, tenant: Tenant, ledger: Ledger | None) -> Iterator[Api]:
    """A human admin of the shared tenant."""
    caller = Api(http, tenant.admin.api_key, ledger)
    yield caller
    if ledger is not None:
        ledger.clean_up(caller)


class MakeCaller(Protocol):
    def __call__(self, role: Role = "writer", kind: PrincipalKind = "agent", subject_id: str | None = None) -> Api: ...


@pytest.fixture
def caller(api: Api) -> MakeCaller:
    """Makes another caller of the shared tenant, with a key of its own."""

    def make(role: Role = "writer", kind: PrincipalKind = "agent", subject_id: str | None = None) -> Api:
        fields = {} if subject_id is None else {"subject_id": subject_id}
        name = f"{kind}-{role}-{uuid.uuid4().hex[:8]}"
        key = api.create_key(principal=name, kind=kind, role=role, **fields).expect(201).data
        return Api(api.http, key["api_key"], api.ledger)

    return make


@pytest.fixture
def agent(caller: MakeCaller) -> Api:
    """An agent that may write in the shared tenant."""
    return caller("writer", "agent")


@pytest.fixture
def reader(caller: MakeCaller) -> Api:
    """An agent that may only read in the shared tenant."""
    return caller("reader", "agent")


@pytest.fixture
def anyone(http: httpx.Client) -> Api:
    """A caller without a key."""
    return Api(http, None)


@pytest.fixture
def fresh(runtime: Runtime, http: httpx.Client) -> Api:
    """A human admin of an empty tenant; the test needs the mark needs_control."""
    return Api(http, runtime.new_tenant().admin.api_key)


@pytest.fixture(scope="session")
def foreign(runtime: Runtime, http: httpx.Client) -> Api:
    """A human admin of another tenant; the test needs the mark needs_control."""
    return Api(http, runtime.new_tenant("foreign").admin.api_key)


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Names that no other test uses."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def subject(new_name: Callable[[str], str]) -> str:
    """A subject that no other test uses."""
    return new_name("subject")


@pytest.fixture
def embedder(runtime: Runtime) -> Iterator[Embedder]:
    """The provider behind the runtime, healed after the test."""
    yield runtime.embedder
    runtime.embedder.clear()
