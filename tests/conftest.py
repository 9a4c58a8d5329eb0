"""Options of the whole test run: which runtime the contract suite speaks to."""

import pytest


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
    if not config.getoption("--base-url"):
        return
    skip = pytest.mark.skip(reason="needs control over its runtime; a live deployment is left alone")
    for item in items:
        if item.get_closest_marker("needs_control"):
            item.add_marker(skip)
