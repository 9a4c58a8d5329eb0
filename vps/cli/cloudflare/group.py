"""`titen cloudflare`: knows where each of its commands lives."""

import importlib

import click

__all__ = ["cloudflare"]

# name: (module, attribute, the line in `titen cloudflare --help`)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "provision": ("vps.cli.cloudflare.provision", "provision", "Create what a deployment needs, deploy it, try it."),
    "tenant": ("vps.cli.cloudflare.tenants", "tenant", "Create and list tenants of a deployment."),
    "key": ("vps.cli.cloudflare.keys", "key", "Create, list and revoke keys of a deployment."),
    "purge": (
        "vps.cli.cloudflare.purge",
        "purge_deployment",
        "Remove memories for good, with a certificate.",
    ),
}


class _Group(click.Group):
    """Imports a command when it is asked for."""

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


@click.group(cls=_Group)
def cloudflare() -> None:
    """Deploy Titen to Cloudflare with wrangler, and look after it there.

    Works in a checkout of Titen. Sign in first with `npx wrangler login`, or set CLOUDFLARE_API_TOKEN.

    \b
    Example:
      titen cloudflare provision --dry-run
      titen cloudflare provision
    """
