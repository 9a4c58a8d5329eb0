"""Options of the whole test run: which runtime the contract suite speaks to."""

import pytest

from tests.mcp.conformance import TOLERATED

SUITES = "tests/mcp/test_official.py::test_the_suite_finds_what_may_be_missing_and_nothing_else"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("titen", "Titen's contract suite")
    group.addoption(
        "--runtime",
        choices=("vps", "cloudflare", "all"),
        default="vps",
        help="the runtime that the contract suite starts and speaks to (default: vps)",
    )
    group.addoption(
        "--base-url",
        default=None,
        help="speak to this running deployment instead; needs --api-key, and runs the safe subset only",
    )
    group.addoption("--api-key", default=None, help="a human admin key of the deployment at --base-url")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "needs_control: starts, stops, breaks or adds tenants to its runtime; skipped against --base-url",
    )
    if config.getoption("--base-url") and not config.getoption("--api-key"):
        raise pytest.UsageError("--base-url needs --api-key: a human admin key of that deployment")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _keep_together(items)
    if config.getoption("--base-url"):
        _leave_alone(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where a conformance suite ran, say what it may find missing, beside the clause that allows it."""
    ran = {report.nodeid.partition("[")[0] for report in terminalreporter.stats.get("passed", [])}
    if SUITES not in ran:
        return
    terminalreporter.section("MCP conformance: checks tolerated, each with the clause that allows it")
    for each in TOLERATED:
        terminalreporter.line(f"{each.scenario}  {each.id}  {each.status}")
        terminalreporter.line(f"    {each.clause}")
        terminalreporter.line(f"    {each.reason}")


def _keep_together(items: list[pytest.Item]) -> None:
    """A file and runtime go to one process, the runtimes one after the other: each process starts each once."""
    items.sort(key=lambda item: _runtime_of(item) == "cloudflare")
    for item in items:
        item.add_marker(pytest.mark.xdist_group(f"{item.path.name} {_runtime_of(item)}"))


def _runtime_of(item: pytest.Item) -> str:
    parameters = getattr(item, "callspec", None)
    return "" if parameters is None else str(parameters.params.get("runtime_name", ""))


def _leave_alone(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="needs control over its runtime; a live deployment is left alone")
    for item in items:
        if item.get_closest_marker("needs_control"):
            item.add_marker(skip)
