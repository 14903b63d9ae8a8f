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

from muster.cli.help import PlainCommand, write_examples, write_table
from muster.cli.unconverted import leave_as_typed

SERVICES: Final = "Services"
"""The panel of the help in which services stand."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table."""

    module: str
    help: str
    """The first line of what the command says of itself: a test compares them."""
    panel: str | None = None
    examples: tuple[str, ...] = ()
    is_hidden: bool = False

    def load(self, name: str) -> Any:
        """The command itself, with its flags."""
        module = import_module(self.module)
        called = (
            module.command_of(name)
            if self.panel == SERVICES
            else getattr(module, name.replace("-", "_"))
        )
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        alone.command(name, cls=PlainCommand)(called)
        command: Any = get_command(alone)
        command.examples = self.examples
        return command


def _for_people(module: str, help: str, *examples: str) -> Entry:
    return Entry(f"muster.cli.{module}", help, examples=examples)


def _service(help: str) -> Entry:
    return Entry("muster.cli.services", help, SERVICES)


COMMANDS: Final[dict[str, Entry]] = {
    "status": _for_people(
        "people",
        "How is the cluster: GPUs, jobs, who is owed, what is closed?",
        "muster status",
        "muster status --watch",
        "muster status -o json",
    ),
    "queues": _for_people(
        "people",
        "Who may have what, who has it, who is owed?",
        "muster queues",
        "muster queues llm",
        "muster queues --owed -o wide",
    ),
    "jobs": _for_people(
        "jobs",
        "What runs, what waits, why, and since when?",
        "muster jobs -A --state waiting",
        "muster jobs -n team --sort-by -gpus",
        "muster jobs --shapes",
    ),
    "nodes": _for_people(
        "nodes",
        "What is there, what is free, and who holds it?",
        "muster nodes",
        "muster nodes --free 4",
        "muster nodes node-19",
    ),
    "why": _for_people(
        "explaining",
        "Why does it wait, and which smallest change would start it?",
        "muster why train",
        "muster why team/train --all",
        "muster why job/train --no-search",
    ),
    "when": _for_people(
        "explaining",
        "When does it start, and how surely?",
        "muster when train",
        "muster when -q llm",
        "muster when -o json",
    ),
    "plan": _for_people(
        "planning",
        "Would it start now, where, and at whose cost? Nothing is submitted.",
        "muster plan -f train.yaml",
        "muster plan -f train.yaml --set queue=vision",
        "muster plan --quota llm=64 --hours 6",
    ),
    "submit": _for_people(
        "changing",
        "Start this: manifests, or a Job from flags. Says what was made and its place.",
        "muster submit --name tune -q llm --pods 4 --gpus 8 --image team/x:1 -- python tune.py",
        "muster submit -f train.yaml --wait",
        "muster submit --name tune -q llm --image team/x:1 --dry-run",
    ),
    "cancel": _for_people(
        "changing",
        "End jobs: what owns their pods is deleted, or the pods where nothing owns them.",
        "muster cancel train",
        "muster cancel team/a team/b --yes",
        "muster cancel job/train --dry-run",
    ),
    "hold": _for_people(
        "changing",
        "Not now: the job is not started until it is released. What runs of it goes on.",
        "muster hold train",
        'muster hold train --reason "after the release"',
        "muster hold team/train --dry-run",
    ),
    "release": _for_people(
        "changing",
        "Take a job off its hold: it is started when it is its turn.",
        "muster release train",
        "muster release team/train",
        "muster release team/train --dry-run",
    ),
    "wait": _for_people(
        "changing",
        "Come back when a job has started, or ended.",
        "muster wait train",
        "muster wait train --for succeeded --timeout 2h",
        "muster wait team/train --for ended",
    ),
    "priority": _for_people(
        "explaining",
        "Who is served next, and which rule put it there?",
        "muster priority",
        "muster priority -q llm",
        "muster priority -o json",
    ),
    "history": _for_people(
        "past",
        "What happened: starts, ends, evictions, and refusals that changed?",
        "muster history --evictions",
        "muster history team/train --since 7d",
        "muster history -q llm -o csv",
    ),
    "usage": _for_people(
        "past",
        "Who used how much, who waited how long, what was lost?",
        "muster usage",
        "muster usage --by user --since 30d",
        "muster usage --by day,queue -o csv",
    ),
    "top": _for_people(
        "top",
        "All of it, live: status, who is owed, who waits, what happened. q ends.",
        "muster top",
        "muster top --every 5",
        "muster top -o json",
    ),
    "dashboard": _for_people(
        "dashboard",
        "Print the address of the dashboard, and open it.",
        "muster dashboard",
        "muster dashboard --no-open",
        "muster dashboard --port 8766",
    ),
    "reasons": _for_people(
        "reasons",
        "What does this code mean, and what helps?",
        "muster reasons",
        "muster reasons NoRoom",
        "muster reasons -o wide",
    ),
    "conf": _for_people(
        "conf",
        "Is this configuration right, and what of it does nothing? `muster conf check FILE`.",
        "muster conf check scheduler.yaml",
        "muster conf check scheduler.yaml -o json",
        "muster conf check scheduler.yaml --diff",
    ),
    "snapshot": _for_people(
        "snapshot",
        "Keep this moment of the cluster, to be decided again by muster replay FILE.",
        "muster snapshot -o now.json",
        "muster snapshot -o now.json --scheduler-conf scheduler.yaml",
        "muster snapshot -o now.json --context prod",
    ),
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
        "Remove the services, the Config and the shards. Queues, pod groups and running pods stay.",
    ),
    "kernels": Entry(
        "muster.cli.kernels",
        "Compile the engine's kernels and keep them (seconds the first time, then nothing).",
    ),
    "scaling-pod": Entry(
        "muster.cli.scaling_pod",
        "Inside a scaling pod: do nothing until told to end.",
        is_hidden=True,
    ),
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


_NOUNS: Final = frozenset({"queues", "jobs", "nodes", "reasons", "clusters"})
"""Commands that list what they are called by."""
_FIRST: Final = ("muster up", "muster why train", "muster jobs -A --state waiting")


def _panel(entry: Entry) -> str:
    """Under which heading of the help it stands."""
    return "Questions" if entry.examples else entry.panel or "Clusters and files"


class CommandGroup(TyperGroup):
    """Lists commands from the table, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            line = TyperCommand(
                name, help=entry.help, rich_help_panel=entry.panel, hidden=entry.is_hidden
            )
            self.add_command(line)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Before the name of a command none of our own flags was typed: nothing is to be converted.
        if ctx.resilient_parsing or (args and not args[0].startswith("-")):
            leave_as_typed(self, ctx)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        write_examples(formatter, _FIRST, ctx.info_name)
        formatter.write(f"\n  {self.help}\n")
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            if not entry.is_hidden:
                panels.setdefault(_panel(entry), []).append((name, entry.help))
        for title, rows in panels.items():
            write_table(formatter, title, rows)
        records = [one.get_help_record(ctx) for one in self.get_params(ctx)]
        write_table(formatter, "Options", [one for one in records if one is not None])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What lists several is called by the name of one, too."""
        named = cmd_name if cmd_name in COMMANDS else f"{cmd_name}s"
        return super().get_command(ctx, named if named in _NOUNS else cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, line, rest = super().resolve_command(ctx, args)
        if line is None or name is None:
            return name, line, rest
        name = str(line.name)
        found = COMMANDS[name].load(name)
        # From here on Ctrl-C is an exception again (see `muster.cli.entry`): commands clean up.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return name, found, rest
