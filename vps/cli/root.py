"""The root command: knows where each command lives, and turns faults into one sentence."""

import importlib
from typing import Any

import click

from titen_core import __version__
from titen_core.errors import SqlError, TitenError
from vps.faults import EXIT_FAULT, EXIT_USAGE, Fault

__all__ = ["cli"]

# name: (module, attribute, the line in `titen --help`)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("vps.cli.serving", "up", "Create what is missing, then serve it."),
    "serve": ("vps.cli.serving", "serve", "Serve an existing store over HTTP."),
    "init": ("vps.cli.setting_up", "init", "Create a store with its first tenant and admin key."),
    "migrate": ("vps.cli.setting_up", "migrate", "Bring a store to this version's schema."),
    "remember": ("vps.cli.memories", "remember", "Remember a fact."),
    "recall": ("vps.cli.memories", "recall", "Recall the facts that answer a question."),
    "mcp": ("vps.cli.mcp", "mcp", "Speak MCP on stdin and stdout."),
    "export": ("vps.cli.transfer", "export", "Export memories to a file."),
    "import": ("vps.cli.transfer", "import_", "Import memories from a file."),
    "tenant": ("vps.cli.tenants", "tenant", "Create and list tenants."),
    "key": ("vps.cli.keys", "key", "Create, list and revoke API keys."),
    "token": ("vps.cli.tokens", "token", "Create sign-in tokens for humans."),
    "repair": ("vps.cli.repair", "repair", "Try failed work again until nothing is left."),
    "reindex": ("vps.cli.reindex", "reindex_command", "Move the store to another embedder, or rebuild its index."),
    "purge": ("vps.cli.purge", "purge", "Remove memories for good, with a certificate."),
    "smoke": ("vps.cli.smoke", "smoke", "Try a running service, step by step."),
    "cloudflare": ("vps.cli.cloudflare.group", "cloudflare", "Deploy to Cloudflare, and look after it there."),
    "cost": ("vps.cli.cost", "cost", "Say what a workload costs on Cloudflare."),
    "doctor": ("vps.cli.doctor", "doctor", "Show settings and look at every part."),
    "version": ("vps.cli.version", "version", "Show the version."),
}


class Root(click.Group):
    """Imports a command when it is asked for, so that no command pays for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Fault as fault:
            raise _ended(fault.message, fault.exit_code) from None
        except TitenError as failure:
            raise _ended(failure.message) from None
        except SqlError as failure:
            raise _ended(f"The store cannot be used: {failure}.") from None


class _UsageFault(click.ClickException):
    """A fault of how titen was called, rather than of what it met."""

    exit_code = EXIT_USAGE


def _ended(message: str, exit_code: int = EXIT_FAULT) -> click.ClickException:
    return _UsageFault(message) if exit_code == EXIT_USAGE else click.ClickException(message)


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="titen %(version)s")
def cli() -> None:
    """Titen: a memory service for AI agents.

    \b
    Start:     titen up
    Remember:  titen remember "Pengguna lebih suka naik kereta" --subject user_123
    Recall:    titen recall "How does the user like to travel?" --subject user_123
    """
