"""Who may do what, as tables."""

import dataclasses
from contextlib import AbstractContextManager, nullcontext

import pytest

from titen_core.errors import Forbidden, HumanRequired
from titen_core.models import Access, Action, Actor, Principal, PrincipalKind, Role
from titen_core.policy import grant, may_mint, narrow

READER, WRITER, ADMIN = Role
HUMAN, AGENT, SERVICE = PrincipalKind

LEAST = {
    Action.READ: READER,
    Action.WRITE: WRITER,
    Action.VERIFY: WRITER,
    Action.EXPORT: ADMIN,
    Action.IMPORT: ADMIN,
    Action.KEYS: ADMIN,
    Action.REPAIR: ADMIN,
    Action.READINESS: ADMIN,
}


def principal(role: Role, kind: PrincipalKind = HUMAN, subject_id: str | None = None) -> Principal:
    return Principal("tenant", 7, "key", "principal", "Ada", kind, role, subject_id, None)


def test_every_action_but_none_has_a_least_role() -> None:
    assert set(LEAST) == set(Action) - {Action.NONE}
    with pytest.raises(KeyError):
        grant(principal(ADMIN), Action.NONE)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("action", LEAST)
def test_a_role_may_do_what_it_and_the_roles_below_it_may(role: Role, action: Action) -> None:
    ranks = list(Role)
    allowed = ranks.index(role) >= ranks.index(LEAST[action])
    expected: AbstractContextManager[object] = nullcontext() if allowed else pytest.raises(Forbidden, match=str(role))
    with expected:
        grant(principal(role), action)


@pytest.mark.parametrize("kind", [AGENT, SERVICE])
@pytest.mark.parametrize("action", LEAST)
def test_only_verifying_needs_a_human(kind: PrincipalKind, action: Action) -> None:
    expected = pytest.raises(HumanRequired) if action is Action.VERIFY else nullcontext()
    with expected:
        grant(principal(ADMIN, kind), action)


def test_a_reader_that_is_no_human_is_told_its_role_first() -> None:
    with pytest.raises(Forbidden) as refused:
        grant(principal(READER, AGENT), Action.VERIFY)
    assert not isinstance(refused.value, HumanRequired)


@pytest.mark.parametrize("subject_id", [None, "user_1"])
def test_an_access_is_what_the_credential_says(subject_id: str | None) -> None:
    access = grant(principal(READER, AGENT, subject_id), Action.READ)
    assert access == Access("tenant", 7, subject_id, Actor("Ada", AGENT), "key")


@pytest.mark.parametrize(
    ("locked", "named", "meant"),
    [(None, None, None), (None, "user_1", "user_1"), ("user_1", None, "user_1"), ("user_1", "user_1", "user_1")],
)
def test_a_request_means_its_subject_or_the_keys_own(locked: str | None, named: str | None, meant: str | None) -> None:
    assert narrow(grant(principal(READER, subject_id=locked), Action.READ), named) == meant


@pytest.mark.parametrize("named", ["user_2", "USER_1", "user_1 ", ""])
def test_a_locked_key_may_not_name_another_subject(named: str) -> None:
    with pytest.raises(Forbidden, match="locked"):
        narrow(grant(principal(ADMIN, subject_id="user_1"), Action.WRITE), named)


@pytest.mark.parametrize("kind", PrincipalKind)
@pytest.mark.parametrize("maker", PrincipalKind)
def test_only_a_human_makes_a_humans_key(maker: PrincipalKind, kind: PrincipalKind) -> None:
    refused = kind is HUMAN and maker is not HUMAN
    expected: AbstractContextManager[object] = pytest.raises(HumanRequired) if refused else nullcontext()
    with expected:
        may_mint(principal(ADMIN, maker), kind, ADMIN, None, None)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("maker", Role)
def test_no_key_is_stronger_than_its_maker(maker: Role, role: Role) -> None:
    ranks = list(Role)
    stronger = ranks.index(role) > ranks.index(maker)
    expected: AbstractContextManager[object] = pytest.raises(Forbidden) if stronger else nullcontext()
    with expected:
        may_mint(principal(maker), AGENT, role, None, None)


@pytest.mark.parametrize(
    ("locked", "asked", "allowed"),
    [
        *((None, None, True), (None, "user_1", True), ("user_1", "user_1", True)),
        *(("user_1", None, False), ("user_1", "user_2", False)),
    ],
)
def test_a_locked_key_makes_keys_with_its_own_lock_only(locked: str | None, asked: str | None, allowed: bool) -> None:
    expected: AbstractContextManager[object] = nullcontext() if allowed else pytest.raises(Forbidden, match="same")
    with expected:
        may_mint(principal(ADMIN, subject_id=locked), AGENT, READER, asked, None)


@pytest.mark.parametrize(
    ("ends", "asked", "allowed"),
    [(None, None, True), (None, 50, True), (50, 50, True), (50, 49, True), (50, 51, False), (50, None, False)],
)
def test_no_key_outlives_its_maker(ends: int | None, asked: int | None, allowed: bool) -> None:
    maker = dataclasses.replace(principal(ADMIN), expires_at_ms=ends)
    expected: AbstractContextManager[object] = (
        nullcontext() if allowed else pytest.raises(Forbidden, match="expires_at")
    )
    with expected:
        may_mint(maker, AGENT, READER, None, asked)
