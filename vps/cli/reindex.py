"""`titen reindex`."""

import asyncio
from dataclasses import asdict

import click

from titen_core.errors import SqlError
from titen_core.reindex import ReindexReport, reindex
from vps.cli.options import as_json_option, emit, say, store_options
from vps.cli.progress import bar
from vps.compose import open_runtime
from vps.faults import Fault
from vps.settings import Settings, load_settings
from vps.storefile import sql_fault

__all__ = ["reindex_command"]


@click.command(name="reindex")
@store_options
@as_json_option
def reindex_command(db: str | None, config: str | None, as_json: bool) -> None:
    """Move the store to the configured embedder, or rebuild the index of the one it has.

    The old vectors serve until the new ones are complete, so the service may go on running. Interrupted,
    it is simply run again: nothing is embedded twice. With the same embedder no model is called at all.

    \b
    Example:
      titen reindex
      TITEN_EMBED_BASE_URL=http://127.0.0.1:11434/v1 TITEN_EMBED_MODEL=bge-m3 titen reindex
    """
    report = asyncio.run(_reindexed(load_settings({"db": db}, config)))
    if as_json:
        emit(asdict(report))
        return
    if report.before == report.after:
        say(f"Rebuilt the index of {report.after} from {report.reused} vectors, with no model call.")
    else:
        say(f"The store now belongs to {report.after} (before: {report.before or 'none'}).")
        say(f"Embedded {report.embedded} memories; {report.reused} had their vector already.")
    if report.refused:
        say(f"The embedder refused {len(report.refused)} texts; they are found by words, and are tried again later.")


async def _reindexed(settings: Settings) -> ReindexReport:
    try:
        async with open_runtime(settings, patient=True) as runtime:
            with bar("Reindexing", 0) as progress:

                def show(done: int, total: int) -> None:
                    progress.length = total
                    progress.update(done - progress.pos)

                report = await reindex(runtime.kernel, show)
    except SqlError as failure:
        raise sql_fault(failure, settings.db) from None
    if report is None:
        raise Fault("There is no embedder and the store has no vectors: set TITEN_EMBED to endpoint or local first.")
    return report
