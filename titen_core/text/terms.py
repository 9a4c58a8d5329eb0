"""The terms of a text and of a query.

A term is never empty, has only ASCII lower-case letters, ASCII digits and characters from U+0080 on, none
of them a space, and at most `TERM_CHARS_MAX` characters: FTS5's `ascii` tokenizer keeps it in one piece.
Whatever a query looks for, the index of the same word holds.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from titen_core.limits import QUERY_TERMS_COUNT
from titen_core.text.identifiers import CHUNK, Token, tokens
from titen_core.text.reading import fold, is_unspaced, readable
from titen_core.text.stems import roots
from titen_core.text.stopwords import STOP_WORDS

__all__ = ["QueryTerm", "index_terms", "query_terms"]

TERM_CHARS_MAX = 64
TERM_HASH_CHARS = 32  # what is left of a longer one: 128 bits of SHA-256 in place of its end
CACHED_CHUNKS = 4096  # a few megabytes: words repeat, and stemming one takes 0.1 ms


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term to look for. An exact one names one thing: holding it is match enough for a row."""

    term: str
    exact: bool


def index_terms(text: str) -> tuple[str, ...]:
    """Distinct terms under which a text is found, in order of first appearance."""
    return tuple(dict.fromkeys(term for word in _words(text) for term in word.terms))


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """Distinct terms to look for, in order of first appearance, at most `QUERY_TERMS_COUNT`.

    Function words are dropped unless nothing else is left.
    """
    asked = [word for word in _words(text) if word.asked]
    telling = [word for word in asked if word.exact or word.text not in STOP_WORDS]
    exact: dict[str, bool] = {}
    for word in telling or asked:
        for term in word.terms:
            exact[term] = exact.get(term, False) or word.exact
    return tuple(QueryTerm(term, exact[term]) for term in _most_telling(exact))


def _most_telling(exact: dict[str, bool]) -> Iterable[str]:
    """The terms that fit, in their order: exact ones first, then the longest, as the rarest-looking."""
    if len(exact) <= QUERY_TERMS_COUNT:
        return exact
    ranked = sorted(exact, key=lambda term: (not exact[term], -len(term)))
    kept = set(ranked[:QUERY_TERMS_COUNT])
    return [term for term in exact if term in kept]


@dataclass(frozen=True, slots=True)
class _Word:
    """A token with the terms that stand for it."""

    text: str
    terms: tuple[str, ...]
    exact: bool
    asked: bool


def _words(text: str) -> Iterator[_Word]:
    for chunk in CHUNK.findall(readable(text)):
        yield from _cached_words(chunk) if len(chunk) <= TERM_CHARS_MAX else _chunk_words(chunk)


@lru_cache(maxsize=CACHED_CHUNKS)
def _cached_words(chunk: str) -> tuple[_Word, ...]:
    return _chunk_words(chunk)


def _chunk_words(chunk: str) -> tuple[_Word, ...]:
    found = _ngrams(fold(chunk)) if is_unspaced(chunk) else tokens(chunk)
    return tuple(_word(token) for token in dict.fromkeys(found) if token.text)


def _ngrams(run: str) -> Iterator[Token]:
    """Characters and pairs of them: words of a script without spaces begin anywhere.

    A query of one character looks for it; a longer one looks for its pairs.
    """
    units = _units(run)
    for unit in units:
        yield Token(unit, asked=len(units) == 1)
    for first, second in pairwise(units):
        yield Token(first + second)


def _units(run: str) -> list[str]:
    """The characters, each with the vowel signs and tone marks on it."""
    units: list[str] = []
    for char in run:
        if units and unicodedata.category(char).startswith("M"):
            units[-1] += char
        else:
            units.append(char)
    return units


def _word(token: Token) -> _Word:
    return _Word(token.text, tuple(map(_bounded, roots(token.text))), token.exact, token.asked)


def _bounded(term: str) -> str:
    """The term, or a stable short one in place of a long one."""
    if len(term) <= TERM_CHARS_MAX:
        return term
    digest = hashlib.sha256(term.encode()).hexdigest()
    return term[: TERM_CHARS_MAX - TERM_HASH_CHARS] + digest[:TERM_HASH_CHARS]
