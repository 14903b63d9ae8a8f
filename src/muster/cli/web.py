"""muster web: the dashboard and its HTTP API, on a scheduler that decides and does nothing."""

import secrets
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from muster.api.names import DEFAULT
from muster.base.database_file import BadFile
from muster.base.log import Log
from muster.base.offload import Offload
from muster.cli.flags import state_folder
from muster.cli.observing import moment_of
from muster.cli.pages import REVIEW_LIMITS, BadPages, PageSettings, address, gate_of
from muster.cli.serving import Process, serve
from muster.client.connection import Connection
from muster.foresight.estimates import FILE, EstimateLog
from muster.runtime.page_access import Gate, KubernetesGate, PageAuth, ShutGate
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.observer import Observation, build_observer
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.usage.cluster_copy import ClusterCopy
from muster.usage.kept import UsageFolder
from muster.web.board import Board, difference
from muster.web.guard import ROLE_PREFIX
from muster.web.handlers import Handlers
from muster.web.health import UNHEARD_S
from muster.web.live import LiveCluster
from muster.web.moment import Moment
from muster.web.named_objects import reading
from muster.web.observed import ObservedCluster
from muster.web.server import WebPart

DEFAULT_LISTEN = "127.0.0.1:8765"
_HEALTH_EACH_S = 5.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

_Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="The cluster; without it KUBECONFIG, ~/.kube/config, or the own pod's."),
]
_Listen = Annotated[str, typer.Option(help="Where the dashboard is served.")]
_Auth = Annotated[
    str,
    typer.Option(
        help="Who may look from other machines: kubernetes (whoever the API server lets get the "
        "path) or token (that of --auth-token-file)."
    ),
]
_TokenFile = Annotated[Path | None, typer.Option(help="The token of token; may be replaced.")]
_Conf = Annotated[
    Path | None, typer.Option(help="The scheduler's configuration; without it the built-in one.")
]
_Scheduler = Annotated[str, typer.Option(help="schedulerName of the pods that are shown.")]
_Pool = Annotated[
    str, typer.Option("--nodepool-label-key", help="Label of nodes that says whose they are.")
]
_Shard = Annotated[
    str,
    typer.Option(
        "--partition-label-value",
        help="Its value on the nodes that are shown; empty: those without it.",
    ),
]
_QueueLabel = Annotated[
    str, typer.Option("--queue-label-key", help="Label of pods that names their queue.")
]
_Reservations = Annotated[
    str,
    typer.Option(
        "--resource-reservation-namespace", help="Where the pods are that hold shared GPUs."
    ),
]
_ReservationApp = Annotated[
    str, typer.Option("--resource-reservation-app-label", help="Their app label.")
]
_Metrics = Annotated[
    str,
    typer.Option("--metrics-bind-address", help="Where probes and metrics of this are answered."),
]
_LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")]
_Cluster = Annotated[str, typer.Option(help="What the pages call the cluster.")]
_Journal = Annotated[
    str,
    typer.Option(
        help="Where the scheduler keeps its journal; auto: in the state folder of the user."
    ),
]

_Usage = Annotated[
    Path | None,
    typer.Option(
        help="The file in which the queue controller keeps usage (its --usage-store); without it "
        "what it keeps in the cluster."
    ),
]


def web(
    kubeconfig: _Kubeconfig = None,
    listen: _Listen = DEFAULT_LISTEN,
    auth: _Auth = "",
    auth_token_file: _TokenFile = None,
    scheduler_conf: _Conf = None,
    scheduler_name: _Scheduler = DEFAULT.scheduler,
    cluster: _Cluster = "",
    journal_folder: _Journal = "auto",
    usage_store: _Usage = None,
    nodepool_label_key: _Pool = DEFAULT.node_pool_label,
    partition_label_value: _Shard = "",
    queue_label_key: _QueueLabel = DEFAULT.queue_label,
    reservation_namespace: _Reservations = DEFAULT.reservation_namespace,
    reservation_app: _ReservationApp = DEFAULT.reservation_app,
    metrics_bind_address: _Metrics = "127.0.0.1:0",
    log_json: _LogJson = False,
) -> None:
    """Serve the dashboard: reads the cluster like a scheduler, and never writes."""
    host, port = address(listen)
    if host not in _LOOPBACK and not auth:
        raise typer.BadParameter(
            f"--listen {listen} is open to other machines: say with --auth who may look"
        )
    if auth and auth not in (PageAuth.KUBERNETES, PageAuth.TOKEN):
        raise typer.BadParameter(f"--auth {auth!r}: write kubernetes or token")
    known = replace(
        DEFAULT,
        scheduler=scheduler_name,
        node_pool_label=nodepool_label_key,
        queue_label=queue_label_key,
        reservation_namespace=reservation_namespace,
        reservation_app=reservation_app,
    )
    options = Options(names=known, shard=partition_label_value)
    config = SchedulerServiceConfig(
        options=options,
        conf_file=scheduler_conf,
        journal_folder=state_folder(journal_folder, "--journal-folder"),
    )

    def build(supervisor: Supervisor) -> None:
        site = Site(
            (host, port), cluster, usage_store, _gate(auth, auth_token_file, supervisor.connection)
        )
        part = build_web(supervisor, config, site)
        typer.echo(f"The dashboard is at http://{host}:{part.port}")

    # By default metrics of this process are for this machine, on any port that is free.
    pages = PageSettings(listen=metrics_bind_address)
    process = Process("web", kubeconfig=kubeconfig, pages=pages, log_json=log_json)
    serve(process, build)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a dashboard is served, what it is called, what it reads beside the cluster, and to
    whom it is shown who is not on this machine (None: nobody)."""

    where: tuple[str, int]
    cluster: str = ""
    usage_store: Path | None = None
    gate: Gate | None = None


def build_web(supervisor: Supervisor, config: SchedulerServiceConfig, site: Site) -> WebPart:
    """The observer, the board that it fills, and the server that shows it."""
    board, observed = Board(site.cluster), ObservedCluster.of(supervisor, config.options.names)

    async def on_observed(seen: Observation) -> None:
        observed.newest = seen
        await show(board, config.offload, seen, observed)

    build_observer(supervisor, config, on_observed)
    # A token is good for ten minutes: no key has to outlive the process.
    live = LiveCluster(
        observed,
        supervisor.clock,
        config.offload,
        config.journal_folder,
        secrets.token_bytes(32),
        site.cluster,
    )
    log = supervisor.log.child("estimates")
    estimates = record_of_estimates(config.journal_folder, log)
    copy = ClusterCopy(supervisor.reader, config.options.names.namespace)
    kept = UsageFolder(copy, supervisor.clock, config.offload)
    handlers = Handlers(
        live,
        usage_store=site.usage_store,
        estimates=estimates,
        log=log,
        kept_usage=kept,
        tracks=board.tracks,
        read=reading(supervisor.reader),
    )
    part = WebPart(*site.where, board, supervisor.clock, site.gate, questions=handlers)
    supervisor.add(part, Phase.SERVING)

    async def look_after() -> None:
        while True:
            board.ail(observed.ailments(supervisor.unheard(UNHEARD_S), supervisor.clock.now_s()))
            await supervisor.clock.sleep(_HEALTH_EACH_S)

    supervisor.add(Loop("health", look_after), Phase.SYNCED)
    return part


def record_of_estimates(folder: Path | None, log: Log) -> EstimateLog:
    """Beside the journal, where this process may write there; otherwise as long as it lives."""
    try:
        return EstimateLog(None if folder is None else folder / FILE)
    except BadFile as problem:
        log.warning("estimates are judged only until this process ends", why=str(problem))
        return EstimateLog()


async def show(
    board: Board, offload: Offload, seen: Observation, observed: ObservedCluster | None = None
) -> None:
    """Put what was observed on the board. What costs time is calculated beside the event loop."""
    moment, told = await offload(partial(_told, board.moment, board.cluster, seen, observed))
    board.show(moment, told)


def _told(
    before: Moment | None, cluster: str, seen: Observation, observed: ObservedCluster | None
) -> tuple[Moment, bytes]:
    moment = moment_of(seen, before, observed)
    return moment, difference(before, moment, cluster)


def _gate(auth: str, token_file: Path | None, connection: Connection) -> Gate:
    if not auth:
        return ShutGate()
    kubernetes = KubernetesGate(connection.apart(REVIEW_LIMITS), ROLE_PREFIX)
    try:
        return gate_of("--auth", PageAuth(auth), token_file, kubernetes)
    except BadPages as problem:
        raise typer.BadParameter(str(problem)) from None
