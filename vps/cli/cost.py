"""`titen cost`."""

from dataclasses import asdict

import click

from vps.cli.options import as_json_option, emit, say
from vps.cli.tables import table
from vps.cost import PRICES_AS_OF, PRICES_FROM, Workload, estimate

__all__ = ["cost"]

COUNT = click.IntRange(min=0)


@click.command
@click.option("--writes", type=COUNT, default=100, show_default=True, metavar="N", help="Memories written a day.")
@click.option("--recalls", type=COUNT, default=500, show_default=True, metavar="N", help="Recalls a day.")
@click.option("--stored", type=COUNT, default=10_000, show_default=True, metavar="N", help="Memories stored.")
@click.option("--characters", type=COUNT, default=200, show_default=True, metavar="N", help="Length of a memory.")
@click.option("--question", type=COUNT, default=60, show_default=True, metavar="N", help="Length of a question.")
@as_json_option
def cost(writes: int, recalls: int, stored: int, characters: int, question: int, as_json: bool) -> None:
    """Say what a workload uses on Cloudflare, and what that costs, beside the limits of Free and Paid.

    An estimate from formulas, which are printed. What a limit counts is Cloudflare's word.

    \b
    Example:
      titen cost --writes 1000 --recalls 5000 --stored 100000
    """
    found = estimate(Workload(writes, recalls, stored, characters, question))
    if as_json:
        emit({**asdict(found), "prices_as_of": PRICES_AS_OF, "prices_from": list(PRICES_FROM)})
        return
    rows = [
        (
            *(line.what, f"{line.used:,.0f}", f"{line.free:,.0f}", f"{line.paid_included:,.0f}"),
            *(f"{line.usd:.2f}", line.formula),
        )
        for line in found.lines
    ]
    say(table(("what", "used", "free", "in paid", "USD above", "formula"), rows))
    say()
    over = ", ".join(found.over_free)
    say(f"Workers Free: not enough for {over}." if over else "Workers Free: enough.")
    say(f"Workers Paid: USD {found.paid_usd:.2f} a month.")
    say(f"Prices as of {PRICES_AS_OF}, from Cloudflare's pricing pages: {', '.join(PRICES_FROM)}.")
