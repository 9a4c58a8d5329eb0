"""Figures in the pages are those of the results files.

A page says `<!-- figures: FILE -->`, and after it `5.25<!-- recall.python_cpu_ms -->`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results"
MARK = re.compile(r"<!-- figures: (?P<file>[\w.]+) -->|(?P<figure>[\d.,]+)<!-- (?P<path>[\w.]+) -->")
PAGES = sorted(page for page in (REPOSITORY / "docs").rglob("*.md") if "<!-- figures:" in page.read_text())


def figures(page: Path) -> Iterator[tuple[str, str, str]]:
    """File, path and printed figure of each mark; a page names the file before its figures."""
    file = ""
    for mark in MARK.finditer(page.read_text()):
        if mark["file"]:
            file = mark["file"]
        else:
            yield file, mark["path"], mark["figure"]


def at(results: Any, path: str) -> Any:
    for part in path.split("."):
        results = results[part]
    return results


def test_there_are_figures() -> None:
    assert sum(1 for page in PAGES for _ in figures(page)) >= 9


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_figure_is_measured(page: Path) -> None:
    for file, path, printed in figures(page):
        assert printed == str(at(json.loads((RESULTS / file).read_text()), path)), f"{path} of {file}"


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.name)
def test_every_results_file_says_where_it_comes_from_and_names_no_place(file: Path) -> None:
    text = file.read_text()
    assert {"date", "commit", "processor", "cores", "python"} <= json.loads(text)["machine"].keys()
    assert not re.search(r"/(home|root|work|tmp|Users)/", text)
