"""The command line `titen`: one file per group of commands, each imported only when it runs."""

from vps.cli.root import cli

__all__ = ["cli"]
