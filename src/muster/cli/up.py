"""muster up: a whole cluster on this laptop, that kubectl and every other client can use."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from muster.api.profiles import ProfileName
from muster.base.clock import SystemClock
from muster.base.log import Level
from muster.cli.cluster_records import DEFAULT_NAME, is_name
from muster.cli.failing import failed
from muster.cli.flags import profile_name

_MOST_NODES: Final = 5000
_WORLDS: Final = ("embedded", "kube")
_DEMO_SIZE: Final = (64, 8)
"""Nodes and GPUs for which the demo's manifests are written."""

_NAME = "What to call the cluster: several may run beside each other, see muster clusters."
_Name = Annotated[str, typer.Option(help=_NAME)]
_Nodes = Annotated[int, typer.Option(min=0, max=_MOST_NODES, help="How many nodes to pretend.")]
_GpusOfEach = Annotated[int, typer.Option(min=0, max=16, help="GPUs of each node.")]
_Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port of the API server; 0 takes a free one.")
]
_Host = Annotated[
    str, typer.Option(help="Address to listen on. Anything but loopback is open to others.")
]
_WRITTEN = (
    "Where to write the kubeconfig; by default .muster/kubeconfig, or .muster/NAME.kubeconfig. A "
    "file of anybody else is not touched."
)
_Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help=_WRITTEN)]
_KEPT_IN = (
    "Keep the state in this directory, and go on with what is in it; without it, it is gone at the "
    "end."
)
_DataDir = Annotated[Path | None, typer.Option(help=_KEPT_IN)]
_Services = Annotated[
    bool, typer.Option(help="Run muster in the cluster; without it, the cluster alone.")
]
_ECOSYSTEM = (
    "Racks, a storage class, a node each with MIG slices, AMD GPUs and GPUs by claim, and operators"
    " that make pods of PyTorchJob, RayCluster and other kinds."
)
_Ecosystem = Annotated[bool, typer.Option(help=_ECOSYSTEM)]
_CONF = "Configuration of the scheduler; it is read again when it changes."
_Conf = Annotated[Path | None, typer.Option("--scheduler-conf", help=_CONF)]
_PAGES = "Port of the scheduler's metrics and debug pages; by default 8080, or a free one."
_PagesPort = Annotated[int | None, typer.Option(min=0, max=65535, help=_PAGES)]
_Story = Annotated[bool, typer.Option(help="Show muster at work first: eight steps, each checked.")]
_WORLD = "embedded: an API server in this process; kube: the control plane of make kube."
_World = Annotated[str, typer.Option(help=_WORLD)]
_PROFILE = "muster, kai, volcano, kube-batch or kube-batch-0.2 (no demo): whose objects are served."
_Profile = Annotated[str, typer.Option(help=_PROFILE)]
_UNTIL = "End after the demo, or stay up; by default stay on a terminal."
_Once = Annotated[bool | None, typer.Option("--once/--stay", help=_UNTIL)]
_ENDS = (
    "muster up: this is no terminal, so the cluster ends once it has shown itself;"
    " --stay keeps it up"
)
_Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")]


def up(
    name: _Name = DEFAULT_NAME,
    nodes: _Nodes = 64,
    gpus: _GpusOfEach = 8,
    port: _Port = 0,
    host: _Host = "127.0.0.1",
    kubeconfig_path: _Kubeconfig = None,
    data_dir: _DataDir = None,
    services: _Services = True,
    ecosystem: _Ecosystem = True,
    scheduler_conf: _Conf = None,
    pages_port: _PagesPort = None,
    story: _Story = True,
    world: _World = "embedded",
    profile: _Profile = ProfileName.MUSTER.value,
    once: _Once = None,
    verbose: _Verbose = False,
) -> None:
    """Start a Kubernetes cluster with muster in this process and keep it up until Ctrl-C."""
    # Loaded here: the services and the simulated world are not needed to show what flags there are.
    from muster.cli.kernels import prepare_kernels
    from muster.cli.laptop import CannotStart, UpOptions, check, run
    from muster.sim.apiserver.serve import Address

    _check(name, world, data_dir, scheduler_conf)
    ends = not sys.stdout.isatty() if once is None else once
    if once is None and ends:
        typer.echo(_ENDS, err=True)
    options = UpOptions(
        nodes,
        gpus,
        Address(host, port),
        kubeconfig_path or _kubeconfig_of(name),
        data_dir,
        Level.INFO if verbose else Level.WARNING,
        name=name,
        services=services,
        # The last step of the demo changes the scheduler's configuration.
        runs_demo=services
        and story
        and (nodes, gpus) == _DEMO_SIZE
        and scheduler_conf is None
        and profile != ProfileName.KUBE_BATCH_02,
        once=ends,
        on_kube=world == "kube",
        profile=profile_name(profile, "--profile"),
        scheduler_conf=scheduler_conf,
        pages_port=pages_port,
        ecosystem=ecosystem,
    )
    try:
        # A minute of compiling is not to end with no.
        check(options, SystemClock())
        if services:
            # Before there is a cluster: while kernels compile nobody else is served, and nodes
            # whose kubelets are silent for a minute count as lost.
            prepare_kernels()
        is_well = asyncio.run(run(options, SystemClock()))
    except CannotStart as problem:
        raise failed("up", problem) from None
    if not is_well:
        raise typer.Exit(1)


def _check(name: str, world: str, data_dir: Path | None, conf: Path | None) -> None:
    if not is_name(name):
        wanted = "write at most 40 small letters, digits and dashes"
        raise typer.BadParameter(f"--name: {name!r}: {wanted}")
    if world not in _WORLDS:
        raise typer.BadParameter(f"--world: {world!r} is not one of {', '.join(_WORLDS)}")
    if world == "kube" and data_dir is not None:
        raise typer.BadParameter("--data-dir: only the embedded API server keeps its state")
    if conf is not None and not conf.is_file():
        raise typer.BadParameter(f"--scheduler-conf: there is no file {conf}")


def _kubeconfig_of(name: str) -> Path:
    return Path(".muster") / ("kubeconfig" if name == DEFAULT_NAME else f"{name}.kubeconfig")
