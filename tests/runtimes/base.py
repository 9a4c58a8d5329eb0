"""What a runtime offers to the contract suite, whatever it is made of."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from tests.runtimes.chat_server import ChatServer

__all__ = ["Embedder", "Key", "PrincipalKind", "Role", "Runtime", "Tenant"]

Role: TypeAlias = Literal["reader", "writer", "admin"]
PrincipalKind: TypeAlias = Literal["human", "agent", "service"]


@dataclass(frozen=True, slots=True)
class Key:
    """One API key: its public id and the whole secret string that a caller sends."""

    id: str
    api_key: str


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with a key of a human admin."""

    id: str
    admin: Key


class Embedder(Protocol):
    """The embedding provider of a runtime, with its faults under the test's control."""

    def fail(self, mode: str, **how: Any) -> None:
        """Answer wrongly from now on; the modes are those of `EmbeddingServer`."""
        ...

    def clear(self) -> None:
        """Answer correctly and at once again."""
        ...

    @property
    def request_count(self) -> int:
        """How many embedding requests have arrived so far."""
        ...


class Runtime(Protocol):
    """A running Titen. Only a disposable one may be stopped, broken or left dirty."""

    @property
    def name(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def disposable(self) -> bool:
        """False for somebody's live deployment: tests must remove what they created."""
        ...

    @property
    def embedder(self) -> Embedder: ...

    @property
    def chat(self) -> ChatServer:
        """The chat model behind the runtime; a live deployment has one of its own."""
        ...

    def new_tenant(self, name: str = "contract", /) -> Tenant:
        """Create a tenant and a key of a human admin in it; further keys are made over REST."""
        ...

    def start(self) -> None:
        """Start the stopped service on the same store; returns when it answers."""
        ...

    def restart(self, **settings: str) -> None:
        """End the service in the orderly way and start it on the same store, with these settings too."""
        ...

    def kill(self) -> None:
        """End the service at once, giving it no chance to finish anything."""
        ...

    def break_text_index(self) -> None:
        """Destroy the full-text index beneath the running service."""
        ...

    def logs(self) -> str:
        """Everything the service has printed since the first start."""
        ...

    def close(self) -> None:
        """End the service and everything started for it."""
        ...
