"""What a text is found by: the terms the lexical channel stores and looks for.

    reading      Unicode in, plain words out: one spelling for what reads the same
    identifiers  a chunk such as `POL-358` or `foo/bar.py` as a whole and in its parts
    stems        the root a word shares with its inflections
    stopwords    the function words a query can do without
    terms        all of it put together

Matching is by set: no positions, no phrases, no syntax. Whatever a user types is text.
"""

from titen_core.text.terms import QueryTerm, index_terms, query_terms

__all__ = ["QueryTerm", "index_terms", "query_terms"]
