"""`titen remember` and `titen recall`."""

import asyncio
import json
import sys
from typing import Any

import click

from titen_core.models import Category, Kind, Priority
from vps.cli.options import as_json_option, emit, say
from vps.cli.target import Target, target_options
from vps.cli.times import TIME
from vps.faults import EXIT_USAGE, Fault
from vps.local import open_tenant, recall_here, remember_here

__all__ = ["recall", "remember"]

KINDS = click.Choice([kind.value for kind in Kind])
CATEGORIES = click.Choice([category.value for category in Category])
PRIORITIES = click.Choice([priority.value for priority in Priority])


@click.command
@click.argument("text")
@click.option("--subject", metavar="ID", help="Whom or what it is about.")
@click.option("--agent", metavar="ID", help="Narrow it to one agent.")
@click.option("--run", metavar="ID", help="Narrow it to one session or ticket.")
@click.option("--kind", type=KINDS, help="[semantic]")
@click.option("--category", type=CATEGORIES, help="Needed with --key.")
@click.option("--key", metavar="NAME", help="A name to replace it by later, unique in subject and category.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="May be repeated.")
@click.option("--priority", type=PRIORITIES, help="[normal]")
@click.option(
    "--confidence", type=click.FloatRange(0, 1), metavar="0..1", help="[1.0; of an agent's or service's key 0.7]"
)
@click.option("--source", "source_ref", metavar="REF", help="Where it came from, such as ticket_456#turn_8.")
@click.option("--metadata", metavar="JSON", help="A JSON object.")
@click.option("--expires", type=TIME, metavar="TIME", help="30d, 12h, or a time such as 2030-01-31T12:00:00Z.")
@target_options
@as_json_option
def remember(
    target: Target, text: str, tags: tuple[str, ...], source_ref: str | None, as_json: bool, **fields: Any
) -> None:
    """Remember TEXT; `-` reads it from stdin. Saying the same again changes nothing.

    \b
    Example:
      titen remember "Pengguna lebih suka naik kereta" --subject user_123
      titen remember "Ships on Fridays" --subject team --category fact --key ship_day
      titen remember "Likes tea" --subject user_123 --url http://127.0.0.1:8787 --api-key KEY
    """
    body: dict[str, Any] = {
        "content": sys.stdin.read() if text == "-" else text,
        "subject_id": fields["subject"],
        "agent_id": fields["agent"],
        "run_id": fields["run"],
        "kind": fields["kind"],
        "category": fields["category"],
        "key": fields["key"],
        "tags": list(tags) or None,
        "priority": fields["priority"],
        "confidence": fields["confidence"],
        "source": None if source_ref is None else {"ref": source_ref},
        "metadata": _metadata(fields["metadata"]),
        "expires_at": fields["expires"],
    }
    answer = _remembered(target, _given(body))
    if as_json:
        emit(answer)
        return
    memory = answer["data"]
    say(f"{memory['status'].capitalize()}: {memory['id']} (version {memory['version']}).")
    if not memory["semantic_ready"]:
        say("It is found by its words now, by its meaning once an embedder has seen it.")


@click.command
@click.argument("query")
@click.option("--subject", metavar="ID", help="Only what is about this one.")
@click.option("--agent", metavar="ID", help="Only of this agent.")
@click.option("--run", metavar="ID", help="Only of this run.")
@click.option("--limit", type=click.IntRange(1, 20), default=5, show_default=True, help="At most so many.")
@click.option("--kind", "kinds", type=KINDS, multiple=True, help="May be repeated.")
@click.option("--category", "categories", type=CATEGORIES, multiple=True, help="May be repeated.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="May be repeated; any of them.")
@target_options
@as_json_option
def recall(
    target: Target,
    query: str,
    subject: str | None,
    agent: str | None,
    run: str | None,
    limit: int,
    kinds: tuple[str, ...],
    categories: tuple[str, ...],
    tags: tuple[str, ...],
    as_json: bool,
) -> None:
    """Recall what answers QUERY, best first, in any language.

    \b
    Example:
      titen recall "How does the user like to travel?" --subject user_123
      titen recall "POL-358" --json
    """
    filters = {"kind": list(kinds), "category": list(categories), "tags": list(tags)}
    body: dict[str, Any] = {
        "query": query,
        "subject_id": subject,
        "agent_id": agent,
        "run_id": run,
        "limit": limit,
        "filters": {name: values for name, values in filters.items() if values},
    }
    answer = _recalled(target, _given(body))
    if as_json:
        emit(answer)
        return
    for place, item in enumerate(answer["data"], 1):
        say(f"{place}. {item['content']}")
        say(f"   {_about(item)}")
    if not answer["data"]:
        say("Nothing found.")
    _say_channels(answer["meta"]["channels"])


def _remembered(target: Target, body: dict[str, Any]) -> dict[str, Any]:
    if target.url is not None:
        with target.remote() as remote:
            return remote.ask("POST", "/v1/memories", json=body)

    async def here() -> dict[str, Any]:
        async with open_tenant(target.settings, target.tenant) as (runtime, access):
            return await remember_here(runtime.kernel, access, body)

    return asyncio.run(here())


def _recalled(target: Target, body: dict[str, Any]) -> dict[str, Any]:
    if target.url is not None:
        with target.remote() as remote:
            return remote.ask("POST", "/v1/memories/search", json=body)

    async def here() -> dict[str, Any]:
        async with open_tenant(target.settings, target.tenant) as (runtime, access):
            return await recall_here(runtime.kernel, access, body)

    return asyncio.run(here())


def _given(body: dict[str, Any]) -> dict[str, Any]:
    """What was given; an option that was left out is not sent, so that it keeps its value."""
    return {name: value for name, value in body.items() if value is not None}


def _metadata(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        raise Fault("""--metadata must be a JSON object, such as '{"team": "blue"}'.""", EXIT_USAGE) from None


def _about(item: dict[str, Any]) -> str:
    score = item["score"]
    ways = [way for way, rank in (("meaning", score["vector_rank"]), ("words", score["text_rank"])) if rank is not None]
    similarity = "" if score["similarity"] is None else f", similarity {score['similarity']:.2f}"
    return f"{item['subject_id']} · found by {' and '.join(ways) or 'recency'}{similarity} · {item['id']}"


def _say_channels(channels: dict[str, str]) -> None:
    if channels["vector"] == "off":
        click.echo("Searched by words only: no embedder is configured (TITEN_EMBED).", err=True)
    elif channels["vector"] != "ok":
        click.echo("Searched by words only: the embedder or its index did not answer; see `titen doctor`.", err=True)
    if channels["text"] != "ok":
        click.echo("Searched by meaning only: the text index is being repaired.", err=True)
