"""The root a word shares with its inflections, in English and in Indonesian.

The language of a text is not known, and a memory often mixes two, so every word goes through both
stemmers, one after the other, and is found by what is left. The classes are imported from their own
modules: the package itself would prefer the C stemmer where one is installed, and the two runtimes
must agree.
"""

import re

from snowballstemmer.english_stemmer import EnglishStemmer
from snowballstemmer.indonesian_stemmer import IndonesianStemmer

__all__ = ["roots"]

STEMMED_CHARS_MIN = 3
STEMMED_CHARS_MAX = 32  # longer than the words of either language

_STEMMABLE = re.compile(f"[a-z]{{{STEMMED_CHARS_MIN},{STEMMED_CHARS_MAX}}}")
_ENGLISH_ENDINGS = tuple("cdegilmnrsty")  # the last letters of all English suffixes
_SURELY_ENGLISH = re.compile(r".*(?:y|ie[sd]?)")
_NASAL_PREFIX = re.compile(r"[mp]e(m|n|ng)(?=[aeiou])")
_MELTED_INTO = {"m": ("m", "p"), "n": ("n", "t"), "ng": ("", "k")}


def roots(word: str) -> tuple[str, ...]:
    """What the word is found by in place of itself: one root, or two where it may come from either.

    `word` is folded. A root is a key and not always a word: `databas`, `polici`. Words of other scripts,
    numbers and very long words are their own root.
    """
    if not _STEMMABLE.fullmatch(word):
        return (word,)
    english = _english(word)
    if _SURELY_ENGLISH.fullmatch(word):  # or `policy`, polici by now, would lose an Indonesian -i: police
        return (english,)
    stems = _indonesian(english)
    if stems == (english,):
        return stems
    # English once more: what it made of tulis, `tuli`, it makes of the tulis that tulisan left.
    return tuple(dict.fromkeys(map(_english, stems)))


def _english(word: str) -> str:
    if not word.endswith(_ENGLISH_ENDINGS):  # 0.05 ms saved on two words of five in Indonesian
        return word
    # A stemmer keeps its word in attributes, so every call has its own: two threads may be here.
    return str(EnglishStemmer().stemWord(word))


def _indonesian(word: str) -> tuple[str, ...]:
    """The stem, or both readings of one whose first consonant may have melted into a nasal prefix.

    me- and pe- take a nasal that swallows p, t and k: `memakai` is pakai but `memigrasi` is migrasi,
    `menulis` tulis but `menilai` nilai, `mengirim` kirim but `mengubah` ubah. The stemmer guesses one.
    """
    stem = str(IndonesianStemmer().stemWord(word))
    prefix = _NASAL_PREFIX.match(word)
    if prefix is None or stem == word:
        return (stem,)
    rest = word[prefix.end() :]
    bare = stem if rest.startswith(stem) else stem[1:]  # without the consonant the stemmer guessed
    if not bare or not rest.startswith(bare):
        return (stem,)
    return tuple(first + bare for first in _MELTED_INTO[prefix[1]])
