"""muster snapshot: keep this moment of the cluster in a file, for muster replay."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.failing import failed


def snapshot(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file that is written.")],
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The cluster; without it KUBECONFIG or ~/.kube/config.")
    ] = None,
    context: Annotated[str, typer.Option(help="Of the kubeconfig.")] = "",
    scheduler_conf: Annotated[
        Path | None, typer.Option(help="The scheduler's configuration file.")
    ] = None,
    request_timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 60.0,
) -> None:
    """Keep this moment of the cluster, to be decided again by muster replay FILE."""
    from muster.base.log import Level, Log, MemorySink
    from muster.cli.observing import NotSeen, look_once
    from muster.cli.serving import Process
    from muster.client.errors import BadAccess
    from muster.engine.config.reader import ConfigError
    from muster.services.scheduler.cycle_dump import CycleDump, encode_dump, recorded_settings
    from muster.services.scheduler.options import SchedulerServiceConfig

    config = SchedulerServiceConfig(conf_file=scheduler_conf)
    process = Process("cli", kubeconfig=kubeconfig, context=context)
    log = Log("muster", MemorySink(), Level.ERROR)
    try:
        look = asyncio.run(look_once(process, config, request_timeout, log))
        text = scheduler_conf.read_text() if scheduler_conf else _DEFAULT_CONF
        situation = look.observed.situation()
        dump = CycleDump(
            situation.now_s,
            text,
            situation.snapshot.to_records(),
            settings=recorded_settings(config.options),
        )
        output.write_bytes(encode_dump(dump))
    except OSError as problem:
        raise failed("snapshot", f"{problem.filename}: {problem.strerror}") from None
    except (NotSeen, BadAccess, ConfigError) as problem:
        raise failed("snapshot", problem) from None
    typer.echo(f"{output} written. Decide it again: muster replay {output}")


_DEFAULT_CONF = "actions: allocate, consolidation, reclaim, preempt, stalegangeviction\n"
