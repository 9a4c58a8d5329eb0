"""Compare layouts for vectors in SQLite. Run by hand: `python -m benchmarks.vector_layout 10000 100000`.

Prints, for each number of rows of 1,024 dimensions, medians as multiples of a numpy brute force over
the same vectors in the same run, and recall against the exact answer. Needs numpy, one core is enough.
The vectors are clustered, of low intrinsic dimension, in a narrow cone: cosines of .7 to .9.
"""

import asyncio
import os
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import apsw
import numpy as np
import sqlite_vec

from adapters.sqlite.driver import SqliteDriver
from adapters.sqlite.vec import SqliteVecIndex
from titen_core.models import Access, Actor, Filters, Fingerprint, Kind, PrincipalKind, Scope
from titen_core.protocols import Statement

DIMENSIONS = 1024
QUERIES = 30
REPEATS = 3
MIGRATION = Path(__file__).parents[1] / "migrations" / "0001_init.sql"
ACCESS = Access("t", 1, None, Actor("bench", PrincipalKind.AGENT), "key")


def main() -> None:
    for count in [int(argument) for argument in sys.argv[1:]] or [10_000]:
        vectors, queries = corpus(count)
        print(f"\n## {count:,} rows")
        with tempfile.TemporaryDirectory() as directory:
            scans(Path(directory), vectors, queries)
            asyncio.run(whole_index(Path(directory), vectors, queries))
        signs(vectors, queries)
    with tempfile.TemporaryDirectory() as directory:
        many_small_tenants(Path(directory))


def corpus(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    rank, clusters = 256, 2000
    spectrum = np.arange(1, rank + 1) ** -0.5
    mix = rng.standard_normal((rank, DIMENSIONS)) / np.sqrt(DIMENSIONS)
    centres = rng.standard_normal((clusters, rank)) * spectrum
    cluster = np.sort(rng.integers(0, clusters, count))
    flat = np.empty((count, DIMENSIONS), dtype="f4")
    axis = unit(rng.standard_normal((1, DIMENSIONS)))
    for start in range(0, count, 10_000):
        part = centres[cluster[start : start + 10_000]]
        latent = part + 0.6 * rng.standard_normal(part.shape) * spectrum
        flat[start : start + 10_000] = unit(unit(latent @ mix) + 1.9 * axis)
    chosen = rng.choice(count, QUERIES, replace=False)
    noise = rng.standard_normal((QUERIES, DIMENSIONS)) * 0.3 / np.sqrt(DIMENSIONS)
    return flat, unit(flat[chosen] + noise).astype("f4")


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def nearest(vectors: np.ndarray, query: np.ndarray, k: int) -> set[int]:
    return set(np.argsort(-(vectors @ query), kind="stable")[:k].tolist())


def sign_codes(vectors: np.ndarray, centre: np.ndarray | float) -> np.ndarray:
    return np.packbits(vectors > centre, axis=1, bitorder="little")


def medians(ways: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Median seconds of each way; the ways take turns so that a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for number in range(QUERIES):
            for name, way in ways.items():
                start = time.perf_counter()
                way(number)
                times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def show(times: dict[str, float]) -> None:
    base = times["numpy brute force"]
    for name, value in times.items():
        print(f"{name:44} {value / base:7.1f} x  ({value * 1000:.2f} ms)")


def brute(vectors: np.ndarray, queries: np.ndarray) -> Callable[[int], object]:
    return lambda n: np.argpartition(-(vectors @ queries[n]), 50)


def scans(directory: Path, vectors: np.ndarray, queries: np.ndarray) -> None:
    connection = open_plain(directory / "scans.db")
    centre = vectors[:1024].mean(axis=0)
    codes, asked = sign_codes(vectors, centre), sign_codes(queries, centre)
    connection.execute("BEGIN")
    connection.execute(
        "CREATE TABLE codes (tenant TEXT, subject TEXT, seq INTEGER, code BLOB,"
        " PRIMARY KEY (tenant, subject, seq)) WITHOUT ROWID"
    )
    rows = [("t", f"s{n % 50}", n, codes[n].tobytes()) for n in range(len(vectors))]
    connection.executemany("INSERT INTO codes VALUES (?, ?, ?, ?)", rows)
    ways: dict[str, Callable[[int], object]] = {"numpy brute force": brute(vectors, queries)}
    for k in (50, 200, 400):
        sql = (
            "SELECT seq FROM codes WHERE tenant = 't'"
            f" ORDER BY vec_distance_hamming(vec_bit(code), vec_bit(?)), seq LIMIT {k}"
        )
        ways[f"plain table, k={k}"] = asks(connection, sql, asked)
    for chunk in (8, 32, 64, 256, 1024):
        connection.execute(
            f"CREATE VIRTUAL TABLE v{chunk} USING vec0"
            f"(tenant TEXT PARTITION KEY, bits bit[{DIMENSIONS}], chunk_size={chunk})"
        )
        connection.executemany(
            f"INSERT INTO v{chunk} (rowid, tenant, bits) VALUES (?, ?, vec_bit(?))",
            [(seq, tenant, code) for tenant, _, seq, code in rows],
        )
        for k in (50, 200, 400):
            sql = f"SELECT rowid FROM v{chunk} WHERE tenant = 't' AND bits MATCH vec_bit(?) AND k = {k}"
            ways[f"vec0 bit, chunk_size={chunk}, k={k}"] = asks(connection, sql, asked)
    connection.execute("COMMIT")
    show(medians(ways))
    connection.close()


def asks(connection: apsw.Connection, sql: str, asked: np.ndarray) -> Callable[[int], object]:
    return lambda n: connection.execute(sql, (asked[n].tobytes(),)).fetchall()


def open_plain(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA cache_size = -4096").fetchall()
    return connection


async def whole_index(directory: Path, vectors: np.ndarray, queries: np.ndarray) -> None:
    path = directory / "index.db"
    driver = SqliteDriver(path)
    await driver.script(MIGRATION.read_text(encoding="utf-8"))
    index = SqliteVecIndex(driver, Fingerprint("bench", "cone", DIMENSIONS))
    await index.prepare()
    start = time.perf_counter()
    await fill(driver, index, "t", vectors)
    print(f"insert with its memory: {(time.perf_counter() - start) / len(vectors) * 1e6:.0f} us a row")
    await searches(index, vectors, queries, "index")
    if len(vectors) <= 10_000:
        for number in range(9):
            await fill(driver, index, f"other{number}", vectors)
        await searches(index, vectors, queries, "index beside 9 x as many foreign rows")
    await driver.close()


async def searches(index: SqliteVecIndex, vectors: np.ndarray, queries: np.ndarray, name: str) -> None:
    numbers = np.arange(len(vectors))
    everything, none = np.ones(len(vectors), bool), Filters()
    cases = {
        "no filter": (Scope(), none, everything),
        "a filter that 1 % pass": (Scope(), Filters(kind=(Kind.PROCEDURAL,)), numbers % 100 == 0),
        "a filter that 99 % pass": (Scope(), Filters(kind=(Kind.SEMANTIC,)), numbers % 100 != 0),
        "one subject of 50": (Scope("s3"), none, numbers % 50 == 3),
    }
    for case, (scope, filters, mask) in cases.items():
        times, brutes, found = [], [], {10: [], 50: []}
        for query in queries:
            start = time.perf_counter()
            answer = await index.search(ACCESS, scope, filters, array("f", query.tobytes()), 50, 5)
            times.append(time.perf_counter() - start)
            start = time.perf_counter()
            np.argpartition(-(vectors @ query), 50)
            brutes.append(time.perf_counter() - start)
            for k, recalls in found.items():
                truth = {int(numbers[mask][row]) for row in nearest(vectors[mask], query, k)}
                recalls.append(len({hit.seq - 1 for hit in answer.hits[:k]} & truth) / len(truth))
        ratio = np.median(times) / np.median(brutes)
        print(
            f"{name}, {case}: {ratio:.1f} x numpy ({np.median(times) * 1000:.2f} ms),"
            f" recall@10 {np.mean(found[10]):.3f}, recall@50 {np.mean(found[50]):.3f}"
        )


async def fill(driver: SqliteDriver, index: SqliteVecIndex, tenant: str, vectors: np.ndarray) -> None:
    await driver.batch([Statement("INSERT INTO tenants (id, name, created_at) VALUES (?, ?, 0)", (tenant, tenant))])
    for statements in batches(index, tenant, vectors):
        await driver.batch(statements)


def batches(index: SqliteVecIndex, tenant: str, vectors: np.ndarray) -> Iterator[list[Statement]]:
    insert = (
        "INSERT INTO memories (tenant_id, id, identity, subject_id, kind, content, priority, author,"
        " verified, confidence, confidence_given, created_at, updated_at, version, content_version,"
        " index_status, op, op_kind, op_given)"
        " VALUES (?, ?, ?, ?, ?, ?, 'normal', 'agent', 0, 0.5, 0, 1, 1, 1, 1, 'ready', 'o', 'stored', 0)"
    )
    for start in range(0, len(vectors), 500):
        statements = []
        for number in range(start, min(start + 500, len(vectors))):
            name, kind = f"m{number}", "semantic" if number % 100 else "procedural"
            values = (tenant, name, name, f"s{number % 50}", kind, "word " * 40)
            statements.append(Statement(insert, values))
            rows = Statement("SELECT seq FROM memories WHERE tenant_id = ? AND id = ?", (tenant, name))
            statements += index.put(rows, array("f", vectors[number].tobytes()))
        yield statements


def signs(vectors: np.ndarray, queries: np.ndarray) -> None:
    ones = np.array([number.bit_count() for number in range(256)], "u2")
    centres = {"raw": 0.0, "first 64": vectors[:64].mean(axis=0), "first 1,024": vectors[:1024].mean(axis=0)}
    for name, centre in centres.items():
        codes, asked = sign_codes(vectors, centre), sign_codes(queries, centre)
        for pool in (200, 400):
            hits = []
            for n, query in enumerate(queries):
                order = np.argsort(ones[codes ^ asked[n]].sum(axis=1), kind="stable")[:pool]
                hits.append(len(set(order.tolist()) & nearest(vectors, query, 50)) / 50)
            print(f"signs, centre {name}, {pool} candidates: recall@50 {np.mean(hits):.3f}")


def many_small_tenants(directory: Path) -> None:
    print("\n## 1,000 tenants with 10 memories each")
    vectors, _ = corpus(10_000)
    codes = sign_codes(vectors, 0.0)

    async def plain() -> None:
        driver = SqliteDriver(directory / "small.db")
        await driver.script(MIGRATION.read_text(encoding="utf-8"))
        index = SqliteVecIndex(driver, Fingerprint("bench", "cone", DIMENSIONS))
        await index.prepare()
        for number in range(1_000):
            await fill(driver, index, f"t{number}", vectors[number * 10 : number * 10 + 10])
        await driver.close()

    asyncio.run(plain())
    print(f"this index and the memories: {(directory / 'small.db').stat().st_size / 2**20:.0f} MiB")
    for chunk in (8, 64, 1024):
        path = directory / f"vec{chunk}.db"
        connection = open_plain(path)
        connection.execute("BEGIN")
        connection.execute(
            f"CREATE VIRTUAL TABLE v USING vec0(tenant TEXT PARTITION KEY, bits bit[{DIMENSIONS}], chunk_size={chunk})"
        )
        rows = [(n, f"t{n // 10}", codes[n].tobytes()) for n in range(10_000)]
        connection.executemany("INSERT INTO v (rowid, tenant, bits) VALUES (?, ?, vec_bit(?))", rows)
        connection.execute("COMMIT")
        connection.close()
        print(f"vec0 sign bits alone, chunk_size={chunk}: {path.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
