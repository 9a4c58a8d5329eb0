"""Pieces of SQL that travel with their parameters."""

from collections.abc import Iterable
from dataclasses import dataclass

from titen_core.protocols import SqlValue

__all__ = ["Fragment", "all_of"]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A boolean SQL expression and the parameters of its `?` placeholders, in order."""

    sql: str
    params: tuple[SqlValue, ...] = ()


def all_of(fragments: Iterable[Fragment]) -> Fragment:
    """The conjunction of the fragments; at least one is required."""
    parts = tuple(fragments)
    return Fragment(
        " AND ".join(part.sql for part in parts),
        tuple(param for part in parts for param in part.params),
    )
