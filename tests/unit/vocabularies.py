"""Real tokenizers, whose vocabularies come inside their package: counting needs no network."""

import warnings
from typing import Final

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it opens its data by a way that Python 3.11 deprecates
    import bpe_openai

__all__ = ["VOCABULARIES", "count_tokens"]

VOCABULARIES: Final = ("o200k_base", "cl100k_base")
"""A large vocabulary of many languages, and an older one that is mostly English."""

_ENCODINGS = {name: bpe_openai.get_encoding(name) for name in VOCABULARIES}


def count_tokens(text: str, vocabulary: str) -> int:
    return len(_ENCODINGS[vocabulary].encode(text))
