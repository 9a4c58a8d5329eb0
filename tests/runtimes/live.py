"""Somebody's running deployment, reached by its address and one key. Nothing in it may be disturbed."""

from typing import NoReturn

from tests.runtimes.base import Embedder, Key, Tenant
from tests.runtimes.chat_server import ChatServer

__all__ = ["LiveRuntime"]


class LiveRuntime:
    """Offers its one tenant; everything that needs control raises, since such tests are skipped."""

    name = "live"
    disposable = False

    def __init__(self, base_url: str, api_key: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key

    @property
    def embedder(self) -> Embedder:
        self._no_control()

    @property
    def chat(self) -> ChatServer:
        self._no_control()

    def new_tenant(self, _name: str = "contract", /) -> Tenant:
        """The tenant of the given key; its id is not needed by the safe subset."""
        return Tenant(id="", admin=Key(id=self._api_key.split("_")[1], api_key=self._api_key))

    def start(self) -> None:
        self._no_control()

    def restart(self, **_settings: str) -> None:
        self._no_control()

    def kill(self) -> None:
        self._no_control()

    def break_text_index(self) -> None:
        self._no_control()

    def logs(self) -> str:
        self._no_control()

    def close(self) -> None:
        """Nothing was started."""

    def _no_control(self) -> NoReturn:
        raise RuntimeError("a live deployment is not under the suite's control: mark the test needs_control")
