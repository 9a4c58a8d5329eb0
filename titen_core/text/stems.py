"""The roots a word may share with its inflections, in English and in Indonesian.

The language of a text is not known, and a memory often mixes two, so every word goes through both
stemmers and keeps what each made of it. The classes are imported from their own modules: the package
itself would prefer the C stemmer where one is installed, and the two runtimes must agree.
"""

import re

from snowballstemmer.english_stemmer import EnglishStemmer
from snowballstemmer.indonesian_stemmer import IndonesianStemmer

__all__ = ["stems"]

STEMMED_CHARS_MIN = 3
STEMMED_CHARS_MAX = 32  # longer than any word of the two languages

_STEMMABLE = re.compile(f"[a-z]{{{STEMMED_CHARS_MIN},{STEMMED_CHARS_MAX}}}")
_MELTED = re.compile(r"[mp]e(m|n|ng)(?=[aeiou])")
_MELTED_INTO = {"m": ("m", "p"), "n": ("n", "t"), "ng": ("", "k")}


def stems(word: str) -> tuple[str, ...]:
    """What the word is reduced to besides itself; nothing for a word that has no shorter form.

    `word` is folded. A stem is a key and not always a word: `databas`.
    """
    if not _STEMMABLE.fullmatch(word):
        return ()
    # A stemmer holds its word in attributes, so each call has its own: two threads may be here.
    english = EnglishStemmer().stemWord(word)
    indonesian = IndonesianStemmer().stemWord(word)
    found = dict.fromkeys((english, indonesian, *_unmelted(word, indonesian)))
    return tuple(stem for stem in found if stem != word and len(stem) > 1)


def _unmelted(word: str, stem: str) -> tuple[str, ...]:
    """The roots whose first consonant may have melted into the prefix of an Indonesian word.

    me- and pe- take a nasal that swallows p, t and k: `memakai` is pakai, `memigrasi` is migrasi,
    `menulis` is tulis, `menilai` is nilai, `mengirim` is kirim, `mengubah` is ubah. The stemmer takes one
    guess; here are both.
    """
    melted = _MELTED.match(word)
    if melted is None or word == stem:
        return ()
    rest = word[melted.end() :]
    tail = next((stem[at:] for at in range(2) if rest.startswith(stem[at:])), None)
    return () if not tail else tuple(first + tail for first in _MELTED_INTO[melted[1]])
