"""Every command by name: where it is, and its line in the help.

Nothing is imported before it is called: the engine and the simulated cluster take more than a
second to import, and whoever asks for the version, the help or a completion needs neither.
"""

import signal
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

SERVICES: Final = "Services"
"""The panel of the help in which services stand."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table."""

    module: str
    help: str
    """The first line of what the command says of itself: a test compares them."""
    panel: str | None = None

    def load(self, name: str) -> Any:
        """The command itself, with its flags."""
        module = import_module(self.module)
        called = module.command_of(name) if self.panel == SERVICES else getattr(module, name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name)(called)
        return get_command(alone)


def _service(help: str) -> Entry:
    return Entry("muster.cli.services", help, SERVICES)


COMMANDS: Final[dict[str, Entry]] = {
    "status": Entry(
        "muster.cli.people", "How is the cluster: GPUs, jobs, who is owed, what is closed?"
    ),
    "queues": Entry("muster.cli.people", "Who may have what, who has it, who is owed?"),
    "jobs": Entry("muster.cli.people", "What runs, what waits, why, and since when?"),
    "nodes": Entry("muster.cli.people", "What is there, what is free, and who holds it?"),
    "why": Entry(
        "muster.cli.explaining", "Why does it wait, and which smallest change would start it?"
    ),
    "plan": Entry(
        "muster.cli.explaining",
        "Would it start now, where, and at whose cost? Nothing is submitted.",
    ),
    "priority": Entry("muster.cli.explaining", "Who is served next, and which rule put it there?"),
    "reasons": Entry("muster.cli.reasons", "What does this code mean, and what helps?"),
    "up": Entry(
        "muster.cli.up",
        "Start a Kubernetes cluster with muster in this process and keep it up until Ctrl-C.",
    ),
    "clusters": Entry(
        "muster.cli.clusters",
        "List the clusters of muster up that run on this machine, or stop some of them.",
    ),
    "install": Entry(
        "muster.cli.install",
        "Install or upgrade: kinds, operator, a first Config, shard and queues.",
    ),
    "uninstall": Entry(
        "muster.cli.install",
        "Remove the services and what the operator made. Queues, pod groups and running pods stay.",
    ),
    "kernels": Entry(
        "muster.cli.kernels",
        "Compile the engine's kernels and keep them (seconds the first time, then nothing).",
    ),
    "hold": Entry("muster.cli.hold", "Do nothing until told to end: what scaling pods run."),
    "replay": Entry(
        "muster.cli.replay",
        "Decide recorded cycles again and print what muster would do, and why the rest waits.",
    ),
    "convert": Entry(
        "muster.cli.convert",
        "Turn objects and conf of Volcano or kube-batch into native ones, and print them.",
    ),
    "web": Entry(
        "muster.cli.web",
        "Serve the dashboard: reads the cluster like a scheduler, and never writes.",
    ),
    "scheduler": _service("Decide which pod runs where: the scheduler of one node pool."),
    "binder": _service("Carry out bind requests: volumes, devices, shared GPUs, bindings."),
    "admission": _service(
        "Check and complete pods, queues, pod groups and topologies as they are written."
    ),
    "resource-reservation": _service(
        "Inside a reservation pod: find the GPU that it got, say so on the pod, and hold it."
    ),
    "pod-grouper": _service("Give every pod its pod group."),
    "podgroup-controller": _service(
        "Say on every pod group what it asks for and holds, and whether its gang is whole."
    ),
    "queue-controller": _service(
        "Say on every queue what it and the queues below it hold and want."
    ),
    "node-scale-adjuster": _service(
        "Ask autoscalers for whole GPUs on behalf of pods that wait for a share of one."
    ),
    "volcano-controllers": _service(
        "Run Volcano's Jobs, CronJobs and Commands; open and close its Queues; group plain pods."
    ),
    "operator": _service(
        "Install what the Config and the SchedulingShards ask for, and keep it so."
    ),
}


class CommandGroup(TyperGroup):
    """Lists commands from the table, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            line = TyperCommand(name, help=entry.help, rich_help_panel=entry.panel)
            self.add_command(line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, line, rest = super().resolve_command(ctx, args)
        if line is None or name is None:
            return name, line, rest
        found = COMMANDS[name].load(name)
        # From here on Ctrl-C is an exception again (see `muster.cli.entry`): commands clean up.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return name, found, rest
