"""The reference pages name every route, error code and public limit, with the values of the code."""

import inspect
import re
from pathlib import Path

from titen_core import errors, limits, readiness
from titen_core.http.routes import ROUTES
from titen_core.policy import _NEEDS
from titen_core.semantics import SemanticStatus

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_every_route_is_in_the_overview_with_its_role() -> None:
    rows = dict(re.findall(r"^\| `([A-Z]+ /[^`]*)` \| (\w+|–) \|", page("api.md"), re.MULTILINE))
    roles = {action: str(role) for action, role in _NEEDS.items()} | {"none": "–", "verify": "human"}
    expected = {f"{route.method} {route.path}": roles[route.action] for route in ROUTES}
    assert rows == expected


def test_every_error_code_is_explained_with_its_status() -> None:
    explained = {code: int(status) for code, status in re.findall(r"`([A-Z_]+)` \| (\d{3}) \|", page("errors.md"))}
    explained |= {code: int(status) for code, status in re.findall(r"`([A-Z_]+)` \((\d{3})\)", page("errors.md"))}
    classes = [found for _, found in inspect.getmembers(errors, inspect.isclass)]
    coded = [found for found in classes if issubclass(found, errors.TitenError) and "code" in vars(found)]
    assert explained == {found.code: found.status for found in coded}


def test_every_code_of_readiness_is_explained() -> None:
    in_code = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', inspect.getsource(readiness))) - {"LATEST_MIGRATION"}
    in_code |= {SemanticStatus.DIMENSION_MISMATCH.value, SemanticStatus.FINGERPRINT_MISMATCH.value}
    explained = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", page("errors.md").split("## Codes of `/readyz`")[1]))
    assert in_code <= explained


def test_limits_are_those_of_the_code() -> None:
    text = page("limits.md")
    for bound, names in re.findall(r"^\|[^|]*\| ([^|]*) \| (`[^|]*`) \|$", text, re.MULTILINE):
        values = [_number(value) for value in re.split("[;–]", bound)]
        for name in re.findall(r"`(\w+)`", names):
            value = getattr(limits, name)
            days = value / 86_400_000 if name == "EXPIRING_WITHIN_MAX_MS" else value
            assert days in values, f"{name} is {value}, the page says {bound}"


def _number(text: str) -> float:
    digits = re.search(r"[\d,.]+", text)
    assert digits is not None
    return float(digits[0].replace(",", ""))
