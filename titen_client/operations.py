"""What can be asked of Titen: one function an operation, which answers the call and sends nothing.

The clients make methods of them. Names, parameters and fields are held to the OpenAPI document by a test.
"""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack
from urllib.parse import quote

import httpx

from titen_client.answers import (
    Deleted,
    Event,
    Extracted,
    Item,
    Key,
    Memory,
    NewKey,
    Principal,
    Recalled,
    TagCount,
    Written,
)
from titen_client.calls import Call, Page, data_of, envelope, json_body, query
from titen_client.fields import (
    Changes,
    ConversationFields,
    Filters,
    MemoryFields,
    Message,
    PrincipalKind,
    Role,
    Scope,
    Time,
)
from titen_client.transfer import export, import_lines

__all__ = [
    "create_key",
    "digest",
    "expiring",
    "export",
    "forget",
    "get",
    "history",
    "import_lines",
    "keys",
    "memories",
    "principal",
    "recall",
    "remember",
    "remember_conversation",
    "restore",
    "revoke_key",
    "tags",
    "update",
    "verify",
]

T = TypeVar("T")

_JSON = {"Content-Type": "application/json"}


def remember(content: str, *, idempotency_key: str | None = None, **fields: Unpack[MemoryFields]) -> Call[Written]:
    """Remember one fact. What is known already is `unchanged`, or `updated` where fields differ.

    Sent with an Idempotency-Key, your own or a fresh one, so that it may be sent again after a lost answer.
    """
    return _once("/v1/memories", {"content": content, **fields}, idempotency_key, read=data_of)


def remember_conversation(
    messages: Sequence[Message], *, idempotency_key: str | None = None, **fields: Unpack[ConversationFields]
) -> Call[Extracted]:
    """Have the service's chat model pick what is worth keeping, at most ten memories; `refused` says what was not."""

    def read(response: httpx.Response) -> Extracted:
        answer = envelope(response)
        return Extracted(answer["data"]["memories"], answer["data"]["refused"], answer["meta"]["usage"])

    return _once("/v1/memories", {"messages": messages, **fields}, idempotency_key, read=read)


def recall(
    question: str, *, limit: int | None = None, filters: Filters | None = None, **scope: Unpack[Scope]
) -> Call[Recalled]:
    """The few memories that answer a question, by meaning and by words, best first: 1 to 20, 5 by default."""
    body = {"query": question, **query(limit=limit, filters=filters), **scope}
    return Call(
        "POST",
        "/v1/memories/search",
        lambda response: _recalled(envelope(response)),
        headers=_JSON,
        body=json_body(body),
        repeatable=True,
    )


def digest(subject_id: str | None = None, *, max_tokens: int | None = None, about: str | None = None) -> Call[str]:
    """What is known of a subject as plain text for a model, or what of it answers `about`."""
    params = query(subject_id=subject_id, max_tokens=max_tokens, q=about)
    return _get("/v1/recall", lambda response: response.text, params)


def get(memory_id: str) -> Call[Memory]:
    """One memory, expired ones included."""
    return _get(_memory(memory_id), data_of)


def update(memory_id: str, *, expected_version: int | None = None, **changes: Unpack[Changes]) -> Call[Written]:
    """Change the given fields; None clears one. With `expected_version` only if nobody was faster."""
    body = {**changes, **query(expected_version=expected_version)}
    return Call("PATCH", _memory(memory_id), data_of, headers=_JSON, body=json_body(body))


def verify(memory_id: str, *, expected_version: int | None = None, idempotency_key: str | None = None) -> Call[Written]:
    """Note that a human confirmed a memory; needs a human's key or token."""
    body = query(expected_version=expected_version)
    return _once(f"{_memory(memory_id)}/verify", body, idempotency_key, read=data_of)


def forget(memory_id: str, *, expected_version: int | None = None) -> Call[Deleted]:
    """Delete a memory. It is hidden at once and can be restored; deleting it again is `unchanged`."""
    return Call(
        "DELETE",
        _memory(memory_id),
        data_of,
        params=query(expected_version=expected_version),
        repeatable=expected_version is None,
    )


def restore(
    memory_id: str, *, expected_version: int | None = None, idempotency_key: str | None = None
) -> Call[Written]:
    """Bring a deleted memory back as it was."""
    body = query(expected_version=expected_version)
    return _once(f"{_memory(memory_id)}/restore", body, idempotency_key, read=data_of)


def memories(
    *, filters: Filters | None = None, page_size: int | None = None, **scope: Unpack[Scope]
) -> Call[Page[Memory]]:
    """All memories in a scope, newest first."""
    return _listed("/v1/memories", query(limit=page_size, **scope, **(filters or {})))


def history(memory_id: str, *, page_size: int | None = None) -> Call[Page[Event]]:
    """Every change of a memory, oldest first."""
    return _listed(f"{_memory(memory_id)}/history", query(limit=page_size))


def expiring(within: str | None = None, *, limit: int | None = None, **scope: Unpack[Scope]) -> Call[list[Memory]]:
    """Memories that expire within a span such as `36h`, `7d` or `2w`, soonest first."""
    return _get("/v1/memories/expiring", data_of, query(within=within, limit=limit, **scope))


def tags(**scope: Unpack[Scope]) -> Call[list[TagCount]]:
    """Tags in use, with how many memories carry each."""
    return _get("/v1/memories/tags", data_of, query(**scope))


def principal() -> Call[Principal]:
    """Whose key this is, and what it may do."""
    return _get("/v1/principal", data_of)


def create_key(
    principal: str,
    *,
    kind: PrincipalKind,
    role: Role,
    subject_id: str | None = None,
    label: str | None = None,
    expires_at: Time | None = None,
) -> Call[NewKey]:
    """Make a key, never stronger than your own. Not repeated after a lost answer: look at `keys` then."""
    body = query(principal=principal, kind=kind, role=role, subject_id=subject_id, label=label, expires_at=expires_at)
    return Call("POST", "/v1/keys", data_of, headers=_JSON, body=json_body(body))


def keys() -> Call[list[Key]]:
    """All keys of the tenant, without their secrets."""
    return _get("/v1/keys", data_of)


def revoke_key(key_id: str) -> Call[Key]:
    """Revoke a key at once."""
    return Call("DELETE", f"/v1/keys/{_segment(key_id)}", data_of, repeatable=True)


def _get(path: str, read: Callable[[httpx.Response], T], params: dict[str, Any] | None = None) -> Call[T]:
    return Call("GET", path, read, params=params or {}, repeatable=True)


def _once(path: str, body: Any, idempotency_key: str | None, *, read: Callable[[httpx.Response], T]) -> Call[T]:
    """A change that the service carries out once, however often it arrives."""
    headers = {**_JSON, "Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    return Call("POST", path, read, headers=headers, body=json_body(body), repeatable=True)


def _listed(path: str, params: dict[str, Any]) -> Call[Page[Any]]:
    def read(response: httpx.Response) -> Page[Any]:
        answer = envelope(response)
        cursor = answer["meta"]["next_cursor"]
        following = None if cursor is None else _listed(path, {**params, "cursor": cursor})
        return Page(answer["data"], following)

    return _get(path, read, params)


def _recalled(answer: Any) -> Recalled:
    items: list[Item] = answer["data"]
    return Recalled(items, answer["meta"])


def _memory(memory_id: str) -> str:
    return f"/v1/memories/{_segment(memory_id)}"


def _segment(identifier: str) -> str:
    """An id as one part of a path; nothing and dots would lead to another operation."""
    if not identifier.strip("."):
        raise ValueError("The id is empty.")
    return quote(identifier, safe="")
