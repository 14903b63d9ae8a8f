"""muster clusters: the clusters of `muster up` that run on this machine."""

import asyncio
import os
import signal
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from muster.base.clock import Clock, SystemClock
from muster.cli.cluster_records import ClusterRecord, ClusterRecords, records_folder
from muster.cli.serving import failed

_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.1


class Verb(StrEnum):
    """What to do."""

    LIST = "list"
    STOP = "stop"


_Verb = Annotated[Verb, typer.Argument(help="List those that run, or stop those that are named.")]
_Names = Annotated[list[str] | None, typer.Argument(help="Which to stop.")]


def clusters(verb: _Verb = Verb.LIST, names: _Names = None) -> None:
    """List the clusters of muster up that run on this machine, or stop some of them."""
    records = ClusterRecords(records_folder(os.environ))
    if verb is Verb.LIST:
        _show(records.all_running())
        return
    if not names:
        raise typer.BadParameter("name the clusters to stop; `muster clusters` lists them")
    for name in names:
        record = records.running(name)
        if record is None:
            running = ", ".join(one.name for one in records.all_running()) or "none"
            raise failed("clusters", f"no cluster named {name} runs; there are: {running}")
        if not asyncio.run(_stopped(records, record, SystemClock())):
            waited = f"{_PATIENCE_S:g} s after it was told to stop"
            raise failed("clusters", f"{name} (pid {record.pid}) still runs {waited}")
        typer.echo(f"{name} has stopped")


def _show(running: list[ClusterRecord]) -> None:
    if not running:
        typer.echo("No cluster runs. `muster up` starts one.")
        return
    rows = [("NAME", "PID", "SINCE", "API SERVER", "KUBECONFIG")]
    for one in running:
        since = datetime.fromtimestamp(one.started_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        rows.append((one.name, str(one.pid), since, one.url or "starting", one.kubeconfig))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("   ".join(cells).rstrip())


async def _stopped(records: ClusterRecords, record: ClusterRecord, clock: Clock) -> bool:
    """Tell it to stop, and wait until it has."""
    os.kill(record.pid, signal.SIGTERM)
    until_s = clock.monotonic_s() + _PATIENCE_S
    while (now := records.running(record.name)) is not None and now.pid == record.pid:
        if clock.monotonic_s() > until_s:
            return False
        await clock.sleep(_LOOK_S)
    return True
