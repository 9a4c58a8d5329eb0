"""Rows for a person: columns as wide as they need to be."""

from collections.abc import Sequence

__all__ = ["table"]


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Names above columns, two spaces between, no trailing ones."""
    lines = [tuple(names), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
