"""`__all__` is the promise of a module, and names written down twice agree."""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import titen_client
import titen_core
from titen_core.sql.meta import LATEST_MIGRATION
from titen_core.sql.text_index import CREATE_INDEX

MIGRATIONS = Path(__file__).parents[2] / "migrations"


def _modules() -> list[ModuleType]:
    packages = (titen_core, titen_client)
    names = [found.name for each in packages for found in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
    return [titen_client, *(importlib.import_module(name) for name in names)]


@pytest.mark.parametrize("module", _modules(), ids=lambda module: module.__name__)
def test_a_module_says_what_it_exports(module: ModuleType) -> None:
    if not _has_code(module) or module.__name__ == "titen_core.limits":  # all of limits is its promise
        return
    exported = module.__all__
    assert list(exported) == sorted(exported, key=_isort_order)
    assert len(set(exported)) == len(exported)
    assert [name for name in exported if not hasattr(module, name)] == []
    assert [name for name in exported if name.startswith("_")] == []


def test_the_schema_the_code_asks_for_is_the_newest_migration() -> None:
    assert max(file.name for file in MIGRATIONS.glob("*.sql")) == LATEST_MIGRATION


def test_a_healed_text_index_is_the_one_of_the_first_migration() -> None:
    script = _squeezed((MIGRATIONS / "0001_init.sql").read_text(encoding="utf-8"))
    for sql in CREATE_INDEX:
        assert _squeezed(sql.replace(" IF NOT EXISTS", "")) + ";" in script


def _has_code(module: ModuleType) -> bool:
    return bool(module.__file__) and bool(Path(str(module.__file__)).read_text(encoding="utf-8").strip())


def _squeezed(sql: str) -> str:
    return " ".join(sql.split())


def _isort_order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions, as ruff orders them."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return group, name
