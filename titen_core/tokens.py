"""How many tokens a text costs a language model, without knowing the model.

Vocabularies differ, so this is an estimate, from the kinds of characters in the text. Its weights lie
between what o200k (large, many languages) and cl100k (smaller, mostly English) need; tests measure
it against both. It leans to the safe side for Latin text, whose words may be of any language, and
counts other scripts by their own cost, not by their bytes: Chinese is not charged three times over.
"""

import re
from collections.abc import Callable

__all__ = ["estimate_tokens"]

_UNITS = 100  # integers, so that a sum is the same on every Python


def estimate_tokens(text: str) -> int:
    """An upper estimate of the tokens of `text`; 0 only for the empty text.

    Every character costs something, so a number of tokens bounds a number of characters. Cutting a
    text at a line's end and adding up the parts gives at least the estimate of the whole.
    """
    units = sum(_COST[found.lastgroup or ""](found.end() - found.start()) for found in _PIECE.finditer(text))
    return -(-units // _UNITS)


_PIECE = re.compile(
    r"(?P<word>[A-Za-z\u00C0-\u024F\u1E00-\u1EFF]+)"
    r"|(?P<space> )(?=\S)"
    r"|(?P<blank>[\t-\r ]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<sign>[!-/:-@\[-`{-~])"
    r"|(?P<alphabet>[\u0370-\u07FF]+)"
    r"|(?P<indic>[\u0900-\u0EFF]+)"
    r"|(?P<cjk>[\u3000-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7AF\uF900-\uFAFF\uFF00-\uFFEF]+)"
    r"|(?P<rare>[\s\S])"
)


def _word(letters: int) -> int:
    """A short word is one token. A long one falls apart, in English less than in Javanese."""
    return 100 + 33 * max(0, letters - 3)


def _each(units: int) -> Callable[[int], int]:
    return lambda length: units * length


_COST: dict[str, Callable[[int], int]] = {
    "word": _word,
    "space": _each(2),  # it is written into the token of the word that follows
    "blank": lambda length: 100 + 12 * (length - 1),
    "digits": lambda length: 100 * -(-length // 2),
    "sign": _each(100),
    "alphabet": _each(55),
    "indic": _each(75),
    "cjk": _each(100),
    "rare": _each(250),
}
