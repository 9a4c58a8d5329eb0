"""`titen cost`."""

from collections.abc import Mapping
from dataclasses import asdict

import click

from vps.cli.options import as_json_option, emit, say
from vps.cli.tables import table
from vps.cost import PRICES_AS_OF, PRICES_FROM, Estimate, Workload, estimate
from vps.cost_extraction import (
    CHAT_MODELS,
    CHAT_PRICES_AS_OF,
    DEFAULT_CHAT_MODEL,
    ExtractionTokens,
    usd_per_thousand,
)
from vps.faults import EXIT_USAGE, Fault

__all__ = ["cost"]

COUNT = click.IntRange(min=0)


@click.command
@click.option("--writes", type=COUNT, default=100, show_default=True, metavar="N", help="Memories written a day.")
@click.option("--recalls", type=COUNT, default=500, show_default=True, metavar="N", help="Recalls a day.")
@click.option("--stored", type=COUNT, default=10_000, show_default=True, metavar="N", help="Memories stored.")
@click.option("--characters", type=COUNT, default=200, show_default=True, metavar="N", help="Length of a memory.")
@click.option("--question", type=COUNT, default=60, show_default=True, metavar="N", help="Length of a question.")
@click.option("--extractions", type=COUNT, default=0, show_default=True, metavar="N", help="Conversations a day.")
@click.option("--conversation", type=COUNT, default=4_000, show_default=True, metavar="N", help="Length of one.")
@click.option(
    "--chat-model",
    type=click.Choice(list(CHAT_MODELS)),
    default=DEFAULT_CHAT_MODEL,
    metavar="NAME",
    show_default=True,
    help="The text model of Workers AI that reads them.",
)
@click.option("--input-tokens", type=COUNT, metavar="N", help="Tokens of an extraction as meta.usage tells them.")
@click.option("--output-tokens", type=COUNT, metavar="N", help="The same, written.")
@as_json_option
def cost(
    writes: int,
    recalls: int,
    stored: int,
    characters: int,
    question: int,
    extractions: int,
    conversation: int,
    chat_model: str,
    input_tokens: int | None,
    output_tokens: int | None,
    as_json: bool,
) -> None:
    """Say what a workload uses on Cloudflare, and what that costs, beside the limits of Free and Paid.

    An estimate from formulas, which are printed. What a limit counts is Cloudflare's word. What conversations
    cost is also told for 1,000 of them, for several models; the memories they store count as writes.

    \b
    Example:
      titen cost --writes 1000 --recalls 5000 --stored 100000
      titen cost --extractions 200 --input-tokens 2100 --output-tokens 180
    """
    measured = _measured(input_tokens, output_tokens)
    work = Workload(
        writes, recalls, stored, characters, question, extractions, conversation, chat_model, measured
    )  # fmt: skip
    found, tokens = estimate(work), work.tokens_per_extraction
    thousand = {model: usd_per_thousand(tokens, model) for model in CHAT_MODELS}
    if as_json:
        emit(
            {
                **asdict(found),
                "prices_as_of": PRICES_AS_OF,
                "prices_from": list(PRICES_FROM),
                "extraction": {
                    **asdict(tokens),
                    "measured": measured is not None,
                    "usd_per_thousand": {model: round(usd, 4) for model, usd in thousand.items()},
                    "prices_as_of": CHAT_PRICES_AS_OF,
                },
            }
        )
        return
    _show_workload(found)
    say()
    _show_extraction(tokens, thousand, measured is not None)
    say()
    say(f"Prices as of {PRICES_AS_OF}, of chat models as of {CHAT_PRICES_AS_OF}, from Cloudflare's pricing pages:")
    say(f"{', '.join(PRICES_FROM)}.")


def _measured(input_tokens: int | None, output_tokens: int | None) -> ExtractionTokens | None:
    if input_tokens is None and output_tokens is None:
        return None
    if input_tokens is None or output_tokens is None:
        raise Fault("Give --input-tokens and --output-tokens together, as meta.usage tells them.", EXIT_USAGE)
    return ExtractionTokens(input_tokens, output_tokens)


def _show_workload(found: Estimate) -> None:
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


def _show_extraction(tokens: ExtractionTokens, thousand: Mapping[str, float], is_measured: bool) -> None:
    how = "as given" if is_measured else "estimated"
    say(f"An extraction reads {tokens.input_tokens:,} tokens and writes {tokens.output_tokens:,} ({how}).")
    say(table(("chat model", "USD for 1,000 extractions"), [(model, f"{usd:.2f}") for model, usd in thousand.items()]))
