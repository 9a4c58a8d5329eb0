"""The console script `titen`. Imports nothing that a plain `pip install titen` lacks until it is there."""

import importlib.util
import sys

__all__ = ["main"]

_NEEDED = ("click", "apsw", "sqlite_vec", "httpx", "httptools", "uvicorn")
_EXIT_USAGE = 2


def main() -> None:
    """Run the command line and exit. Without the extra `vps`: one sentence and exit code 2."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(  # noqa: T201 - click may be what is missing
            f"The titen command needs packages that are not installed ({', '.join(missing)});"
            " run: pip install 'titen[vps,local]'",
            file=sys.stderr,
        )
        sys.exit(_EXIT_USAGE)
    from vps.cli import cli  # noqa: PLC0415 - only now is it known to be importable

    cli(prog_name="titen")


if __name__ == "__main__":
    main()
