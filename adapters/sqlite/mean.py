"""`vec_mean`, an SQL aggregate that sqlite-vec lacks: the mean of float32 vectors."""

from array import array
from typing import Final

import apsw

from titen_core.protocols import SqlValue

__all__ = ["register_vec_mean"]

NAME: Final = "vec_mean"


def register_vec_mean(connection: apsw.Connection) -> None:
    """Make `vec_mean(blob)` known to the connection; NULL when there is no row."""
    connection.create_aggregate_function(NAME, _Mean, 1)


class _Mean:
    """Sums in the order of the rows, so the same rows in the same order give the same bytes."""

    def __init__(self) -> None:
        self._sums: list[float] = []
        self._count = 0

    def step(self, *values: SqlValue) -> None:
        (blob,) = values
        assert isinstance(blob, bytes)  # noqa: S101 - the column is a BLOB NOT NULL of a STRICT table
        vector = array("f", blob)
        self._sums = [a + b for a, b in zip(self._sums, vector, strict=True)] if self._count else list(vector)
        self._count += 1

    def final(self) -> bytes | None:
        if not self._count:
            return None
        return array("f", [total / self._count for total in self._sums]).tobytes()
