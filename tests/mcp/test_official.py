"""The official conformance suites and the official clients against Titen's MCP endpoint, on each runtime.

Both in one file, since a file and a runtime share one started service.
"""

from pathlib import Path

import pytest

from tests.mcp.conformance import SCENARIOS, TOLERATED, Scenario, run_scenario
from tests.mcp.conftest import Endpoint
from tests.mcp.stdio import stdio_target
from tests.mcp.tours import MODERN, NEWEST_LEGACY, PYTHON_MODES, TYPESCRIPT_MODES, inspect, tour

pytestmark = [pytest.mark.needs_control, pytest.mark.slow]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_suite_finds_what_may_be_missing_and_nothing_else(
    endpoint: Endpoint, scenario: Scenario, tmp_path: Path
) -> None:
    checks = run_scenario(scenario, endpoint.keyless_url, tmp_path)
    assert any(check.status == "SUCCESS" for check in checks)
    left = {(check.id, check.status): check.message for check in checks if check.status != "SUCCESS"}
    tolerated = {(each.id, each.status) for each in TOLERATED if each.scenario == str(scenario)}
    odd = left.keys() ^ tolerated
    assert not odd, {key: left.get(key, "is tolerated, and was not found") for key in odd}


def test_every_tolerated_check_belongs_to_a_scenario_that_runs() -> None:
    assert {each.scenario for each in TOLERATED} <= {str(scenario) for scenario in SCENARIOS}


@pytest.mark.parametrize(("mode", "version"), PYTHON_MODES)
def test_the_python_client(endpoint: Endpoint, subject: str, mode: str, version: str) -> None:
    tour("official.py", endpoint.target(subject), version, mode)


@pytest.mark.parametrize(("mode", "version"), TYPESCRIPT_MODES)
def test_the_typescript_client(endpoint: Endpoint, subject: str, mode: str, version: str) -> None:
    tour("sdk2.mjs", endpoint.target(subject), version, mode)


def test_the_typescript_sdk_of_2025(endpoint: Endpoint, subject: str) -> None:
    tour("sdk1.mjs", endpoint.target(subject), NEWEST_LEGACY)


def test_the_inspector(endpoint: Endpoint, subject: str) -> None:
    header = f"Authorization: Bearer {endpoint.key}"
    inspect([endpoint.url, "--transport", "http", "--header", header], subject)


def test_a_client_of_stdio_through_the_bridge(endpoint: Endpoint, subject: str, tmp_path: Path) -> None:
    bridge = stdio_target(tmp_path / "said", {"TITEN_MCP_URL": endpoint.url, "TITEN_API_KEY": endpoint.key})
    tour("official.py", bridge.target(subject), MODERN, "auto")
    bridge.check_output()
