"""Statements written out are read back by SQLite as they were bound."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titen_core.errors import SqlError
from titen_core.protocols import SqlValue, Statement
from vps.literals import literal, written_out

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.none() | TEXT | NUMBERS | st.binary()


def answered(sql: str) -> list[tuple[SqlValue, ...]]:
    connection = apsw.Connection(":memory:")
    try:
        return [tuple(row) for row in connection.execute(sql)]
    finally:
        connection.close()


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_sqlite_reads_back_what_was_written(values: list[SqlValue]) -> None:
    statement = Statement("SELECT " + ", ".join("?" for _ in values), tuple(values))
    assert answered(written_out(statement)) == [tuple(values)]


@given(TEXT, TEXT)
def test_a_text_never_ends_its_literal(first: str, second: str) -> None:
    sql = written_out(Statement('SELECT ? || ? -- \'? \n, \'?\', "?" FROM (SELECT 1 AS "?") /* ? */', (first, second)))
    assert answered(sql) == [(first + second, "?", 1)]


def test_a_minus_before_a_negative_number_is_no_comment() -> None:
    assert answered(written_out(Statement("SELECT 3 -?, 4", (-1,)))) == [(4, 4)]


@pytest.mark.parametrize("value", ["a\0b", "\ud800", float("nan"), float("inf"), 2**63])
def test_what_no_literal_can_say_is_refused(value: SqlValue) -> None:
    with pytest.raises(SqlError):
        literal(value)


@pytest.mark.parametrize("params", [(), (1,), (1, 2, 3)])
def test_places_and_parameters_agree(params: tuple[int, ...]) -> None:
    with pytest.raises(SqlError, match="parameters"):
        written_out(Statement("SELECT ?, ?", params))


def test_a_statement_over_the_bound_of_d1_is_refused() -> None:
    with pytest.raises(SqlError, match="100000 bytes"):
        written_out(Statement("SELECT ?", ("x" * 100_000,)))
