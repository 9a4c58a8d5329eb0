"""A chunk of text between spaces, as a whole and in its parts.

`foo/bar_baz.py` is split at `/` into foo and bar_baz.py, that one at `.` and `_` into bar, baz and py, and
a part such as `getName2` where its letters change. What stands together at any step is a term: the
chunk, each step's pieces, the last parts. Joined spellings are equal: POL-358 and pol358, don't and
dont, user_name and userName.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from titen_core.text.reading import JOINT, fold

__all__ = ["CHUNK", "Token", "tokens"]

_WORD = r"[0-9A-Za-z\u0080-\U0010ffff]+"
CHUNK = re.compile(rf"{_WORD}(?:(?:://|::|_+|[-./\\:@&#'~+]){_WORD})*")
"""Words joined by the punctuation of identifiers, in `readable` text."""

_SEGMENT = re.compile(r"[/\\:@#~+]+")
_PIECE = re.compile(r"[-_&]+|(?<![0-9])\.|\.(?![0-9])")  # the dot of 38.101 stays
_DECIMAL_DOT = re.compile(r"(?<=[0-9])\.(?=[0-9])")
_CONNECTORS = re.compile(r"[-_./\\:@&#'~+]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS_NUMBER = re.compile(r"([^0-9]+)([0-9.]+)|([0-9.]+)([^0-9]+)")
_YEAR = re.compile(r"(?:19|20)[0-9][0-9]")

ELIDED_CHARS_MIN = 3  # the t of don't and the ll of we'll are no words
CAMEL_PARTS_MAX = 6  # more is a random string, not a name


@dataclass(frozen=True, slots=True)
class Token:
    """A folded word or identifier."""

    text: str
    exact: bool = False  # names one thing: its presence alone makes a match
    asked: bool = True  # a query looks for it; otherwise only an index holds it


def tokens(chunk: str) -> Iterator[Token]:
    """The chunk and everything it can be found by, widest first, repeats possible."""
    segments = _SEGMENT.split(chunk)
    if len(segments) > 1:
        yield Token(_joined(chunk), exact=True)
    for segment in segments:
        yield from _segment_tokens(segment, alone=len(segments) == 1)


def _segment_tokens(segment: str, *, alone: bool) -> Iterator[Token]:
    pieces = _PIECE.split(segment)
    if len(pieces) == 1:
        yield from _piece_tokens(segment, alone=alone)
        return
    if _is_repeated(pieces):  # Indonesian plural: anak-anak is anak
        yield Token(fold(pieces[0]))
        return
    yield Token(_joined(segment), exact=True)
    for piece in pieces:
        yield from _piece_tokens(piece, alone=False)


def _piece_tokens(piece: str, *, alone: bool) -> Iterator[Token]:
    word = _joined(piece)
    *_, elided = piece.split("'")
    letters_number = _LETTERS_NUMBER.fullmatch(piece)
    camel = _CAMEL.split(piece)
    is_camel = 1 < len(camel) <= CAMEL_PARTS_MAX
    yield Token(
        word,
        exact=is_camel or _names_one_thing(word, alone=alone),
        asked=alone or not _is_slight(word),
    )
    if ELIDED_CHARS_MIN <= len(elided) < len(piece):  # the équipe of l'équipe
        yield Token(fold(elided))
    if letters_number is not None:
        for part in filter(None, letters_number.groups()):
            yield Token(_joined(part), exact=JOINT in part, asked=not _is_slight(_joined(part)))
    elif is_camel:
        for part in camel:
            yield Token(fold(part), asked=False)


def _joined(chunk: str) -> str:
    """`foo/bar.py` as foobarpy and `v1.5.0` as v1·5·0: 38.101 is another number than 381.01."""
    return fold(_CONNECTORS.sub("", _DECIMAL_DOT.sub(JOINT, chunk)))


def _is_repeated(pieces: list[str]) -> bool:
    return len(set(map(fold, pieces))) == 1 and pieces[0].isalpha()


def _names_one_thing(word: str, *, alone: bool) -> bool:
    """Has a digit, and is not a count, a year or a number cut out of an identifier."""
    if not any(map(str.isdigit, word)):
        return False
    if word.isdigit():
        return alone and len(word) > 2 and not _YEAR.fullmatch(word)
    return True


def _is_slight(part: str) -> bool:
    """Too common to be looked for as the part of something: a letter, the 1 of `v1-beta`."""
    return len(part) == 1 or (len(part) < 3 and part.isdigit())
