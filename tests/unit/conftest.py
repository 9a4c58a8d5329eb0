"""Property tests try the same examples on every machine, and no example is judged by its duration."""

from hypothesis import settings

settings.register_profile("titen", max_examples=100, deadline=None, derandomize=True, database=None)
settings.load_profile("titen")
