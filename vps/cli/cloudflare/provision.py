"""`titen cloudflare provision`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import click

from titen_core.content import clean_name
from titen_core.errors import SqlError
from vps.cli.cloudflare.account import Account
from vps.cli.cloudflare.deployment import Deployment, Notes, opened
from vps.cli.cloudflare.options import directory_options
from vps.cli.cloudflare.rehearsal import Rehearsal
from vps.cli.options import say
from vps.cli.smoke import run_smoke
from vps.faults import Fault
from vps.first_key import FIRST_TENANT
from vps.remote import Remote
from vps.settings import Settings, load_settings
from vps.wrangler import CommandRunner, Wrangler, WranglerFailed, find_wrangler

__all__ = ["provision"]

PAUSE_S = 2.0

T = TypeVar("T")


@click.command
@directory_options
@click.option("--name", metavar="NAME", help="Name of the Worker and its database. [titen]")
@click.option("--tenant-name", default=FIRST_TENANT, show_default=True, metavar="NAME", help="The first tenant's name.")
@click.option("--url", metavar="URL", help="Where the Worker answers; else as wrangler tells.")
@click.option("--api-key", metavar="KEY", help="Key for the smoke; else the first one. [TITEN_API_KEY]")
@click.option("--wait", default=120, show_default=True, metavar="SECONDS", help="How long a new address may take.")
@click.option("--dry-run", is_flag=True, help="Print the commands for an empty account, and run none.")
def provision(
    directory: str,
    wrangler: str | None,
    name: str | None,
    tenant_name: str,
    url: str | None,
    api_key: str | None,
    wait: int,
    dry_run: bool,
) -> None:
    """Create the database and the index, deploy the Worker, make the first key, and try it all.

    Each step looks first and prints the wrangler commands it runs. Run it again after a failure to go
    on, and after an upgrade to deploy; where everything is there, a run changes nothing.

    \b
    Example:
      titen cloudflare provision --dry-run
      titen cloudflare provision
    """
    deployment = opened(directory, name)
    tenant_name = clean_name("tenant_name", tenant_name)
    settings = load_settings({"api_key": api_key, "wrangler": wrangler})
    run = _Run(deployment, _account(deployment, settings, rehearsal=dry_run), _known_migrations(deployment))
    tag, told = run.all(tenant_name)
    if dry_run:
        say("smoke\n$ titen smoke --url URL\nNothing was run and nothing was changed.")
        return
    _try_out(run, tag, url or told, settings.api_key, wait)


@dataclass
class _Run:
    """Steps, and what is done of them."""

    deployment: Deployment
    account: Account
    known: list[str]
    done: list[str] = field(default_factory=list)

    def all(self, tenant_name: str) -> tuple[str, str | None]:
        """The upload's tag, and its address if wrangler told one. Raises Fault."""
        self.step("database", lambda: (self.account.database(), None))
        self.step("migrations", lambda: (self.account.migrations(self.known), None))
        self.step("vector index", lambda: (self.account.index(), None))
        self.step("metadata indexes", lambda: (self.account.metadata_indexes(), None))
        tag, url = self.step("deployment", self._upload)
        self.step("first tenant and key", lambda: (self.account.credentials(tenant_name), None))
        return tag, url

    def step(self, title: str, action: Callable[[], tuple[str, T]]) -> T:
        """Do one, or say in one sentence where it stopped and how to go on."""
        say(title)
        try:
            sentence, answer = action()
        except WranglerFailed as failure:
            raise self._stopped(title, f"wrangler says: {failure.reason.rstrip('.')}") from None
        except SqlError as failure:
            raise self._stopped(title, str(failure)) from None
        if not self.account.rehearsal:
            say(f"  {sentence}")
        self.done.append(title)
        return answer

    def _upload(self) -> tuple[str, tuple[str, str | None]]:
        tag, sentence, url = self.account.upload()
        if url is not None:
            Notes(url).keep(self.deployment)
        return sentence, (tag, url)

    def _stopped(self, title: str, why: str) -> Fault:
        done = ", ".join(self.done) or "nothing"
        return Fault(f"Stopped at {title}: {why}; done before: {done}; run the same command again to go on.")


def _account(deployment: Deployment, settings: Settings, *, rehearsal: bool) -> Account:
    def tell(line: str) -> None:
        say(f"$ {line}")

    runner: CommandRunner
    if rehearsal:
        runner = Rehearsal(deployment, tell)
    else:
        if not (deployment.directory / "python_modules").is_dir():
            raise Fault("python_modules/ is missing: run `make worker-vendor` first.")
        runner = Wrangler(find_wrangler(settings.wrangler), deployment.directory, tell)
    return Account(deployment, runner, say, rehearsal)


def _known_migrations(deployment: Deployment) -> list[str]:
    return sorted(path.name for path in (deployment.directory / "migrations").glob("*.sql"))


def _try_out(run: _Run, tag: str, url: str | None, api_key: str | None, wait_s: int) -> None:
    """The smoke, once for each upload: it writes and deletes a memory."""
    notes = Notes.read(run.deployment)
    url = url or notes.url
    if url is None:
        raise Fault("wrangler told no address; give it with --url, and this goes on with the smoke.")
    if notes == Notes(url, tag):
        say(f"smoke\n  {url} was tried with this upload\nNothing is left to do.")
        return
    key = api_key or _kept(run.deployment.key_file)
    if key is None:
        raise Fault(f"No key for the smoke: give --api-key, or put one into {run.deployment.key_file}.")
    say(f"smoke\n$ titen smoke --url {url}")
    with Remote(url, key) as remote:
        _wait_until_there(remote, wait_s)
        steps = run_smoke(remote, quiet=False)
    if not all(step.ok for step in steps):
        raise Fault(f"{url} does not work as it should: `npx wrangler tail {run.deployment.name}` shows its log.")
    Notes(url, tag).keep(run.deployment)
    say(f"{url} works.")


def _wait_until_there(remote: Remote, wait_s: int) -> None:
    """A new workers.dev address takes a while to be known everywhere. Raises Fault."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            if remote.raw("GET", "/healthz").is_success:
                return
            why = f"{remote.url} does not answer as Titen does"
        except Fault as fault:
            why = fault.message.rstrip(".")
        if time.monotonic() >= deadline:
            raise Fault(f"Stopped at the smoke: {why}; everything else is done; run the same command again to go on.")
        time.sleep(min(PAUSE_S, wait_s))


def _kept(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip() or None
    except OSError:
        return None
