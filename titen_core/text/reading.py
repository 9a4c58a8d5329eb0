"""Unicode in, plain words out: what reads the same becomes the same characters.

Only the category of assigned characters, NFKC and case folding are asked of `unicodedata`, and
scripts are told apart by their blocks, so that Python 3.11 (Unicode 14) and later ones agree.
"""

import re
import unicodedata
from functools import lru_cache

__all__ = ["JOINT", "fold", "is_unspaced", "readable"]

JOINT = "·"
"""Stands for the dot inside a number, `38·101`: a full stop would split the term. Never in a word."""

_UNSPACED = (  # scripts written without spaces, or (Hangul) with particles glued to words
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u1780-\u17ff"  # Khmer
    "\u1b00-\u1b7f\ua980-\ua9df"  # Balinese, Javanese
    "\u3005-\u3007\u3021-\u302f\u3040-\u31bf\u31f0-\u31ff\U0001aff0-\U0001b16f"  # kana, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_EMOJI = re.compile("[\u2600-\u2767\u2776-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]")

_ALIKE = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201b\u02b9\u02bb\u02bc\u00b4", "'")  # typed for an apostrophe
    | dict.fromkeys("\u2010\u2011\u2212", "-")
    | dict.fromkeys("\u2122\u2120", " ")  # the trade marks, which NFKC would glue on as letters
)
_OPTIONAL_MARKS = re.compile(  # read with or without: Hebrew and Arabic vowel signs, variation selectors
    "[\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u20d0-\u20ff\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_FILLERS = "\u0640\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # Arabic tatweel; letters and marks that show nothing

_ACCENTS = re.compile("(?!(?<=[\u0400-\u052f])[\u0306\u0308])[\u0300-\u036f]")  # й is no и, ї no і
_LETTERS = str.maketrans(  # letters that NFD does not take apart
    {"ı": "i", "ł": "l", "đ": "d", "ð": "d", "ø": "o", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h"}
    | {"ё": "е"}
    | {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه"}
)

_WORD = r"[0-9A-Za-z\u0080-\U0010ffff]"
_SPELLED_OUT = (  # names that live in their punctuation; thousands
    (re.compile(r"(?<=[A-Za-z0-9])\+\+(?![A-Za-z+])"), "-plusplus"),  # C++, g++, C++17
    (re.compile(rf"(?<!{_WORD})([A-Za-z])#(?!{_WORD})"), r"\1-sharp"),  # C#, F#
    (re.compile(rf"(?<!{_WORD})(?<![.)\]'\"_])\.(?=[A-Za-z])"), "dot-"),  # .NET, .env
    (re.compile(r"(?<![0-9.,])([0-9]{1,3}(?:,[0-9]{3})+)(?![0-9,])"), lambda m: m[1].replace(",", "")),
)


def readable(text: str) -> str:
    """The text in plain characters: word characters, ASCII punctuation and spaces.

    Compatibility forms (full width, ligatures), apostrophes, hyphens and digits of any script get one
    spelling, and C++, C# and .NET one in letters; invisible characters go; punctuation outside ASCII
    becomes space. An emoji and a run of a script written without spaces each stand apart.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_ALIKE)).translate(_ALIKE)
        text = "".join(map(_plain, text))
        text = _UNSPACED_RUN.sub(r" \g<0> ", text)
    for pattern, spelling in _SPELLED_OUT:
        text = pattern.sub(spelling, text)
    return text


def fold(word: str) -> str:
    """The word without case and accents: `Café` and `cafe`, `Straße` and `strasse` are one.

    Marks that carry the vowels or consonants of a script (Devanagari, Thai) stay.
    """
    if word.isascii():
        return word.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", word.casefold()))
    return unicodedata.normalize("NFC", bare).translate(_LETTERS)


def is_unspaced(word: str) -> bool:
    """Whether the word belongs to a script written without spaces. `readable` never mixes a word."""
    return _UNSPACED_RUN.match(word) is not None


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    """A character of `readable` text: itself, a plainer one, a space or nothing."""
    if char.isascii():
        return char
    if _EMOJI.match(char):
        return f" {char} "
    category = unicodedata.category(char)
    is_optional = category[0] == "M" and _OPTIONAL_MARKS.match(char) is not None
    if category == "Cf" or char in _FILLERS or is_optional:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(char))
    # Unassigned and private characters count as letters: most that get assigned are letters.
    return " " if category[0] in "PSZ" or category in ("Cc", "Cs") else char
