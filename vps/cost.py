"""What a workload uses on Cloudflare and what that costs: pure arithmetic over stated assumptions.

A month has 30 days. Rows are those that D1 counts: a table's row and one for each index it is in.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vps.cost_extraction import (
    CHARACTERS_PER_TOKEN,
    DEFAULT_CHAT_MODEL,
    ExtractionTokens,
    estimate_tokens,
    neurons_of,
)

__all__ = ["PRICES_AS_OF", "PRICES_FROM", "Estimate", "Line", "Workload", "estimate"]

PRICES_AS_OF: Final = "2026-07-26"
PRICES_FROM: Final = (
    "developers.cloudflare.com/workers/platform/pricing",
    "developers.cloudflare.com/d1/platform/pricing",
    "developers.cloudflare.com/vectorize/platform/pricing",
    "developers.cloudflare.com/workers-ai/platform/pricing",
)
PAID_BASE_USD: Final = 5.0
DAYS: Final = 30
DIMENSIONS: Final = 1024

# Estimates, not measurements of a live deployment: rows follow from the schema's tables and indexes.
ROWS_WRITTEN_PER_MEMORY: Final = 30
ROWS_READ_PER_WRITE: Final = 40
ROWS_READ_PER_RECALL: Final = 300
CPU_MS_PER_REQUEST: Final = 10
CRON_RUNS_PER_DAY: Final = 288
ROWS_READ_PER_CRON: Final = 10
BYTES_PER_MEMORY: Final = 9_500  # the vector as base64 text 5,464, its int8 copy 1,368, rows, history and indexes
BYTES_PER_CHARACTER: Final = 3  # the text, its history and its terms
NEURONS_PER_MILLION_TOKENS: Final = 1_075


@dataclass(frozen=True, slots=True)
class Workload:
    """A day's writes, recalls and extractions, and what is stored; lengths in characters.

    What extractions store counts as writes. `extraction_tokens`: as measured, else they are estimated.
    """

    writes_per_day: int
    recalls_per_day: int
    memories_stored: int
    characters_per_memory: int = 200
    characters_per_question: int = 60
    extractions_per_day: int = 0
    characters_per_conversation: int = 4_000
    chat_model: str = DEFAULT_CHAT_MODEL
    extraction_tokens: ExtractionTokens | None = None

    @property
    def tokens_per_extraction(self) -> ExtractionTokens:
        """Measured, or else estimated."""
        return self.extraction_tokens or estimate_tokens(self.characters_per_conversation, self.characters_per_memory)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that is metered. `usd` is what a month costs above what Paid includes."""

    what: str
    used: float
    free: float
    paid_included: float
    usd: float
    formula: str

    @property
    def is_over_free(self) -> bool:
        return self.used > self.free


@dataclass(frozen=True, slots=True)
class Estimate:
    """`paid_usd` is a month on Workers Paid; `over_free` names what Workers Free would refuse."""

    workload: Workload
    lines: tuple[Line, ...]
    over_free: tuple[str, ...]
    paid_usd: float


def estimate(workload: Workload) -> Estimate:
    """Every line, and the sum."""
    lines = tuple(_lines(workload))
    return Estimate(
        workload,
        lines,
        tuple(line.what for line in lines if line.is_over_free),
        round(PAID_BASE_USD + sum(line.usd for line in lines), 2),
    )


def _lines(work: Workload) -> Iterator[Line]:
    requests = work.writes_per_day + work.recalls_per_day + work.extractions_per_day + CRON_RUNS_PER_DAY
    cpu_ms = CPU_MS_PER_REQUEST * requests * DAYS
    read = (
        ROWS_READ_PER_WRITE * work.writes_per_day
        + ROWS_READ_PER_RECALL * work.recalls_per_day
        + ROWS_READ_PER_CRON * CRON_RUNS_PER_DAY
    )
    written = ROWS_WRITTEN_PER_MEMORY * work.writes_per_day
    stored_bytes = work.memories_stored * (BYTES_PER_MEMORY + BYTES_PER_CHARACTER * work.characters_per_memory)
    vectors = work.memories_stored * DIMENSIONS
    queried = (work.recalls_per_day * DAYS + work.memories_stored) * DIMENSIONS if work.recalls_per_day else 0
    tokens = _tokens(work)
    yield Line(
        "requests a day", requests, 100_000, 10_000_000 / DAYS, _above(requests * DAYS, 10_000_000, 0.30, 1_000_000),
        f"writes + recalls + extractions + {CRON_RUNS_PER_DAY} cron runs",
    )  # fmt: skip
    yield Line(
        "CPU-ms a request", CPU_MS_PER_REQUEST, 10, 30_000, _above(cpu_ms, 30_000_000, 0.02, 1_000_000),
        f"about {CPU_MS_PER_REQUEST}, an estimate",
    )  # fmt: skip
    yield Line(
        "D1 rows read a day", read, 5_000_000, 25e9 / DAYS, _above(read * DAYS, 25e9, 0.001, 1_000_000),
        f"{ROWS_READ_PER_WRITE} a write + {ROWS_READ_PER_RECALL} a recall + {ROWS_READ_PER_CRON} a cron run",
    )  # fmt: skip
    yield Line(
        "D1 rows written a day", written, 100_000, 50e6 / DAYS, _above(written * DAYS, 50e6, 1.0, 1_000_000),
        f"{ROWS_WRITTEN_PER_MEMORY} a write",
    )  # fmt: skip
    yield Line(
        "D1 bytes stored", stored_bytes, 500e6, 5e9, _above(stored_bytes, 5e9, 0.75, 1e9),
        f"stored x ({BYTES_PER_MEMORY} + {BYTES_PER_CHARACTER} x characters)",
    )  # fmt: skip
    yield Line(
        "Vectorize dimensions stored", vectors, 5_000_000, 10_000_000, _above(vectors, 10_000_000, 0.05, 100_000_000),
        f"stored x {DIMENSIONS}",
    )  # fmt: skip
    yield Line(
        "Vectorize dimensions queried a month", queried, 30_000_000, 50_000_000,
        _above(queried, 50_000_000, 0.01, 1_000_000), f"(recalls x {DAYS} + stored) x {DIMENSIONS}",
    )  # fmt: skip
    extraction = neurons_of(work.tokens_per_extraction, work.chat_model)
    neurons = tokens * NEURONS_PER_MILLION_TOKENS / 1_000_000 + work.extractions_per_day * extraction
    yield Line(
        "Workers AI neurons a day", neurons, 10_000, 10_000, _above(neurons, 10_000, 0.011, 1_000) * DAYS,
        f"tokens x {NEURONS_PER_MILLION_TOKENS} / 1,000,000 + extractions x {extraction:.1f};"
        f" tokens = characters / {CHARACTERS_PER_TOKEN}",
    )  # fmt: skip


def _tokens(work: Workload) -> int:
    """What the embedding model reads in a day: every memory written and every question once."""
    memory = math.ceil(work.characters_per_memory / CHARACTERS_PER_TOKEN)
    question = math.ceil(work.characters_per_question / CHARACTERS_PER_TOKEN)
    return work.writes_per_day * memory + work.recalls_per_day * question


def _above(used: float, included: float, usd: float, unit: float) -> float:
    """What is used above what is included, at so many USD a unit."""
    return max(0.0, used - included) / unit * usd
