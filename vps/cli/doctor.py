"""`titen doctor`."""

import asyncio
from dataclasses import asdict

import click

from titen_core import __version__
from vps.cli.options import as_json_option, emit, say, store_options
from vps.cli.tables import table
from vps.diagnosis import Finding, Verdict, diagnose
from vps.faults import EXIT_FAULT
from vps.settings import Settings, Shown, load_settings, masked

__all__ = ["doctor"]

MARKS = {Verdict.OK: "ok", Verdict.WARNING: "look", Verdict.BROKEN: "BROKEN"}


@click.command
@store_options
@as_json_option
def doctor(db: str | None, config: str | None, as_json: bool) -> None:
    """Show the effective settings, secrets masked, and look at every part. Changes nothing.

    Exit code 1 when something is broken.

    \b
    Example:
      titen doctor
      titen doctor --db /var/lib/titen/titen.db --json
    """
    settings = load_settings({"db": db}, config)
    shown = masked(settings)
    if not as_json:
        say(f"titen {__version__}\n")
        rows = [(each.name, each.value or "-", each.origin) for each in shown]
        say(table(("setting", "value", "from"), rows) + "\n")
    findings = asyncio.run(_looked(settings, quiet=as_json))
    verdicts = {finding.verdict for finding in findings}
    broken = Verdict.BROKEN in verdicts
    if as_json:
        emit(_document(shown, findings, ok=not broken))
    else:
        say("\n" + _conclusion(verdicts))
    if broken:
        click.get_current_context().exit(EXIT_FAULT)


async def _looked(settings: Settings, *, quiet: bool) -> list[Finding]:
    findings = []
    async for finding in diagnose(settings):
        findings.append(finding)
        if not quiet:
            say(f"{MARKS[finding.verdict]:7} {finding.part}: {finding.message}")
    return findings


def _conclusion(verdicts: set[Verdict]) -> str:
    if Verdict.BROKEN in verdicts:
        return "Something is broken; see above."
    return "Nothing is broken, but look at the above." if Verdict.WARNING in verdicts else "All is well."


def _document(shown: list[Shown], findings: list[Finding], *, ok: bool) -> dict[str, object]:
    return {
        "version": __version__,
        "ok": ok,
        "settings": {each.name: {"value": each.value, "from": each.origin} for each in shown},
        "checks": [asdict(finding) for finding in findings],
    }
