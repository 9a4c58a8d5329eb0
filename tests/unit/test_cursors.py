"""Cursors: only the listing that made one takes it back."""

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titen_core import cursors
from titen_core.errors import ValidationError
from titen_core.models import Access, Actor, PrincipalKind

ACCESS = Access("tenant", 1, None, Actor("Ada", PrincipalKind.HUMAN), "key")
LOCKED = replace(ACCESS, subject_id="s")

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(st.integers(0, 2**53), names, st.sampled_from([None, ACCESS, LOCKED]))
def test_a_cursor_is_read_back_by_its_own_listing(time_ms: int, name: str, access: Access | None) -> None:
    cursor = cursors.encode(access, "list", (time_ms, name))
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert cursors.decode(access, "list", cursor, "cursor") == (time_ms, name)


@pytest.mark.parametrize(
    ("access", "purpose"),
    [
        (replace(ACCESS, tenant_id="other"), "list"),
        (replace(ACCESS, subject_id="s"), "list"),
        (ACCESS, "history"),
        (None, "list"),
    ],
)
def test_another_listing_refuses_it_by_the_fields_name(access: Access | None, purpose: str) -> None:
    cursor = cursors.encode(ACCESS, "list", (5, "id"))
    with pytest.raises(ValidationError, match="after") as refused:
        cursors.decode(access, purpose, cursor, "after")
    assert refused.value.details == {"fields": ["after"]}


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


MANGLED = [
    *("", "x", "é", "====", "A" * 5000, packed(None), packed([]), packed({"a": 1}), packed([5, "id"])),
    *(packed([5, "id", "0" * 16]), packed([True, "id", "x"]), packed(["5", "id", "x"]), packed([5, "\ud800", "x"])),
    *(packed([5, "id", 7]), packed([5, ["id"], "x"])),
    *(base64.urlsafe_b64encode(text).decode().rstrip("=") for text in (b"\xff", b"[" * 1500, b"9" * 1500)),
]


@pytest.mark.parametrize("mangled", MANGLED)
def test_a_mangled_cursor_is_refused(mangled: str) -> None:
    with pytest.raises(ValidationError, match="cursor is not a cursor"):
        cursors.decode(ACCESS, "list", mangled, "cursor")


@given(st.text(max_size=60))
def test_any_text_is_refused_and_never_a_fault(text: str) -> None:
    with pytest.raises(ValidationError):
        cursors.decode(ACCESS, "list", text, "cursor")


@pytest.mark.parametrize("number", [-1, 2**53 + 1, 2**63, -(2**70), 10**400])
def test_a_forged_position_that_sql_cannot_hold_is_refused(number: int) -> None:
    forged = cursors.encode(None, "export", (number, "id"))
    with pytest.raises(ValidationError, match="after is not a cursor"):
        cursors.decode(None, "export", forged, "after")
