"""One scenario of an official conformance suite, and the checks in it that a server of Titen's kind may leave.

The suites want a server with diagnostic tools, prompts, resources and logging. A check is tolerated only where a clause
of the specification lets a server go without; the clause stands beside it, and the list is exact: a tolerated check
that passes, changes its status or disappears fails the test like an unknown failure.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.mcp.toolbox import package, run
from tests.runtimes.node import NODE

__all__ = ["SCENARIOS", "TOLERATED", "Check", "Scenario", "Tolerated", "run_scenario"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario of a suite; `revision` is what the suite is asked to speak, where it has the option."""

    suite: str
    name: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.suite}-{self.name}"


@dataclass(frozen=True, slots=True)
class Check:
    """What a suite found. The same id comes several times, once for each variation."""

    id: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Tolerated:
    """A check that need not succeed: what it says instead, the clause that allows it, and why it applies."""

    scenario: str
    id: str
    status: str
    clause: str
    reason: str


SCENARIOS = [
    *(Scenario("2025", name) for name in ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")),
    *(
        Scenario("2026", name, "2026-07-28")
        for name in (
            "server-stateless",
            "tools-list",
            "caching",
            "http-header-validation",
            "dns-rebinding-protection",
            "server-sse-multiple-streams",
        )
    ),
]

_PARTS = "2026-07-28 Overview, introduction: components beyond the base MAY be implemented as needed"
_NEEDED = "2026-07-28 Overview, _meta: -32021 is for requests that need a capability the client lacks"
_EITHER = "2026-07-28 Streamable HTTP, Sending Messages 6: one JSON object is as good as a stream"
_LOGGING = "2026-07-28 Logging, Capabilities: only servers that emit log messages declare logging"
_POLLED = "2026-07-28 Caching, Interaction with Notifications: ttlMs may be given without listChanged"
_HINTS = "2026-07-28 Caching, Cacheable Results: hints belong to complete results, and an error is none"

TOLERATED = [
    Tolerated(
        "2026-server-stateless",
        "sep-2575-server-rejects-undeclared-capability",
        "FAILURE",
        _NEEDED,
        "asks for a diagnostic tool; none of the three tools needs a capability of the client",
    ),
    Tolerated(
        "2026-server-stateless",
        "sep-2575-missing-capability-http-400",
        "FAILURE",
        _NEEDED,
        "asks for the same diagnostic tool",
    ),
    Tolerated(
        "2026-server-stateless",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "FAILURE",
        _EITHER,
        "asks for a diagnostic tool that streams; Titen never opens a stream",
    ),
    Tolerated(
        "2026-server-stateless",
        "sep-2575-server-no-log-without-loglevel",
        "FAILURE",
        _LOGGING,
        "asks for a diagnostic tool that logs; Titen sends no log messages and declares no logging",
    ),
    *(
        Tolerated("2026-server-stateless", f"sep-2575-server-{what}", "SKIPPED", _POLLED, "Titen announces no changes")
        for what in (
            "sends-subscription-ack",
            "tags-subscription-id",
            "honors-notification-filter",
            "sends-prompts-list-changed-on-subscription",
            "sends-tools-list-changed-on-subscription",
        )
    ),
    *(
        Tolerated("2026-caching", f"sep-2549-{what}-list-caching-hints", "FAILURE", f"{_PARTS}; {_HINTS}", reason)
        for what, reason in (
            ("prompts", "Titen has no prompts and declares none"),
            ("resources", "Titen has no resources and declares none"),
            ("resources-templates", "Titen has no resources and declares none"),
        )
    ),
    Tolerated(
        "2026-caching",
        "sep-2549-resources-read-caching-hints",
        "SKIPPED",
        f"{_PARTS}; {_HINTS}",
        "there is no resource to read",
    ),
    Tolerated(
        "2026-server-sse-multiple-streams",
        "server-sse-streams-functional",
        "INFO",
        _EITHER,
        "the suite notes that it got JSON instead of streams",
    ),
]


def run_scenario(scenario: Scenario, url: str, directory: Path) -> list[Check]:
    """The checks of a scenario against the MCP endpoint at `url`. An AssertionError says that the suite did not run."""
    program = package(f"conformance-{scenario.suite}/dist/index.js")
    options = ["--url", url, "--scenario", scenario.name, "--output-dir", str(directory)]
    revision = [] if scenario.revision is None else ["--spec-version", scenario.revision]
    done = run(NODE, program, "server", *options, *revision)
    files = list(directory.rglob("checks.json"))
    assert len(files) == 1, f"the suite wrote no checks:\n{done.stdout}\n{done.stderr}"
    found = json.loads(files[0].read_text())
    return [Check(each["id"], each["status"], str(each.get("errorMessage", ""))) for each in found]
