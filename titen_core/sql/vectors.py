"""Canonical vectors: what makes a row findable by meaning, written in the same batch as the row.

A vector is kept as base64 of little-endian float32 (D1 returns BLOBs as lists of numbers, an order
of magnitude slower), beside an int8 copy for the overlay of fresh rows.
"""

import base64
import struct
import sys
from array import array

from titen_core.models import Fingerprint
from titen_core.protocols import ColocatedIndex, RemoteIndex, Statement, Vector
from titen_core.sql.fragments import Fragment, all_of

__all__ = [
    "attach_vector",
    "decode_vector",
    "encode_int8",
    "encode_vector",
    "enqueue",
    "finish",
    "remove_vector",
    "still_the_model",
]


def encode_vector(vector: Vector) -> str:
    """Base64 of the vector's float32 values, little-endian."""
    values = array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode()


def decode_vector(text: str) -> Vector:
    """The inverse of `encode_vector`."""
    values = array("f")
    values.frombytes(base64.b64decode(text))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def encode_int8(vector: Vector) -> str:
    """Base64 of the scale as a float32, then each value as `round(value / scale) + 128`.

    The scale puts the largest value at 127. See `titen_core.ranking.similar_to` for the arithmetic.
    """
    scale = (max((abs(value) for value in vector), default=0.0) or 1.0) / 127
    return base64.b64encode(struct.pack("<f", scale) + bytes(round(value / scale) + 128 for value in vector)).decode()


def enqueue(where: Fragment, now_ms: int) -> Statement:
    """Note that the selected rows of `memories AS m` have to reach the index in their present state."""
    return Statement(
        f"""INSERT INTO vector_outbox (seq, tenant_id, target, next_attempt_at, created_at)
            SELECT m.seq, m.tenant_id, m.content_version, ?, ? FROM memories AS m WHERE {where.sql}
            ON CONFLICT (seq) DO UPDATE SET target = excluded.target, attempts = 0, failed = 0,
              next_attempt_at = excluded.next_attempt_at, sent_at = NULL, lease = NULL, lease_until = NULL,
              last_error = NULL""",
        (now_ms, now_ms, *where.params),
    )


def attach_vector(
    where: Fragment, vector: Vector, fingerprint: Fingerprint, index: ColocatedIndex | RemoteIndex
) -> list[Statement]:
    """Store a vector of the selected rows' present content; where the index is colocated, finish the job.

    Nothing happens for rows that are deleted, or when the store has moved to another model meanwhile.
    """
    rows = all_of((where, Fragment("m.deleted_at IS NULL"), still_the_model(fingerprint)))
    statements = [keep_vector(rows, vector, fingerprint)]
    if index.colocated:
        statements += index.put(select_rows(rows), vector)
        statements += _done(rows)
    return statements


def finish(where: Fragment, fingerprint: Fingerprint) -> list[Statement]:
    """Call the selected rows findable by meaning: a remote index shows them now."""
    return _done(all_of((where, Fragment("m.deleted_at IS NULL"), still_the_model(fingerprint))))


def remove_vector(where: Fragment, index: ColocatedIndex | RemoteIndex | None) -> list[Statement]:
    """Take deleted rows out of a colocated index at once; a remote one is told by the outbox."""
    if index is None or not index.colocated:
        return []
    return [
        *index.drop(select_rows(where)),
        Statement(
            f"DELETE FROM vector_outbox WHERE seq IN (SELECT m.seq FROM memories AS m WHERE {where.sql})",
            where.params,
        ),
    ]


def keep_vector(rows: Fragment, vector: Vector, fingerprint: Fingerprint) -> Statement:
    """Store a canonical vector of the selected rows' present content, whatever the store's model is."""
    return Statement(
        f"""INSERT INTO memory_vectors (seq, fingerprint, tenant_id, content_version, vector, vector_int8)
            SELECT m.seq, ?, m.tenant_id, m.content_version, ?, ? FROM memories AS m WHERE {rows.sql}
            ON CONFLICT (seq, fingerprint) DO UPDATE SET content_version = excluded.content_version,
              vector = excluded.vector, vector_int8 = excluded.vector_int8""",
        (str(fingerprint), encode_vector(vector), encode_int8(vector), *rows.params),
    )


def _done(rows: Fragment) -> list[Statement]:
    return [
        Statement(f"UPDATE memories AS m SET index_status = 'ready' WHERE {rows.sql}", rows.params),
        Statement(
            f"DELETE FROM vector_outbox WHERE seq IN (SELECT m.seq FROM memories AS m WHERE {rows.sql})",
            rows.params,
        ),
    ]


def still_the_model(fingerprint: Fingerprint) -> Fragment:
    """Whether the store belongs to this model now; another process may have moved it."""
    return Fragment(
        "EXISTS (SELECT 1 FROM titen_meta WHERE titen_meta.key = 'fingerprint' AND value = ?)",
        (str(fingerprint),),
    )


def select_rows(rows: Fragment) -> Statement:
    """The rows as a subquery for a colocated index."""
    return Statement(f"SELECT m.seq AS seq FROM memories AS m WHERE {rows.sql}", rows.params)
