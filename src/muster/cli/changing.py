"""muster submit, cancel, hold, release, wait: what changes something says what, and how to undo it.

Whoever runs these acts with the rights of their own kubeconfig; nothing goes through a server of
ours.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
import yaml

from muster.api import names
from muster.api.duration import BadDuration, Duration
from muster.base.log import Level, Log, MemorySink
from muster.cli.asking import Source
from muster.cli.completing import named
from muster.cli.explaining import evicted
from muster.cli.failing import failed
from muster.cli.naming import JOB_HELP, NAMESPACE_HELP, key_of, known_job
from muster.cli.objects import CannotChange, Cluster, Thing
from muster.cli.planning import read_file
from muster.cli.reading import Reading, context_namespace
from muster.cli.submission import Wish, job_manifest

T = TypeVar("T")
BROKEN_PLAN: Final = 6
TIMEOUT: Final = 124
_LOOK_S: Final = 1.0

Jobs = Annotated[list[str], typer.Argument(help=JOB_HELP, autocompletion=named("jobs"))]
Job = Annotated[str, typer.Argument(help=JOB_HELP, autocompletion=named("jobs"))]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help=NAMESPACE_HELP, autocompletion=named("namespaces"))
]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="The cluster; without it KUBECONFIG or ~/.kube/config.")
]
Context = Annotated[str, typer.Option(help="Of the kubeconfig.")]
ActAs = Annotated[str, typer.Option("--as", help="Act as this user.")]
Server = Annotated[
    str, typer.Option(help="Ask this muster web (http://host:port); or MUSTER_SERVER.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def hold(
    job: Job,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks.")] = "by muster hold",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    act_as: ActAs = "",
    server: Server = "",
    dry_run: DryRun = False,
) -> None:
    """Not now: the job is not started until it is released. What runs of it goes on."""
    asked = Reading("hold", Source(kubeconfig, server, context=context, act_as=act_as))
    key = key_of(asked, job, namespace)
    if not dry_run:
        _changed(asked, lambda cluster: cluster.annotate(key, names.ANNOTATION_HOLD, reason))
    typer.echo(f"{_would(dry_run)}held: {key}. Undo: muster release {key}")


def release(
    job: Job,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    act_as: ActAs = "",
    server: Server = "",
    dry_run: DryRun = False,
) -> None:
    """Take a job off its hold: it is started when it is its turn."""
    asked = Reading("release", Source(kubeconfig, server, context=context, act_as=act_as))
    key = key_of(asked, job, namespace)
    if not dry_run:
        _changed(asked, lambda cluster: cluster.annotate(key, names.ANNOTATION_HOLD, None))
    typer.echo(f"{_would(dry_run)}released: {key}. Undo: muster hold {key}")


def cancel(
    jobs: Jobs,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    act_as: ActAs = "",
    server: Server = "",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """End jobs: what owns their pods is deleted, or the pods where nothing owns them."""
    asked = Reading("cancel", Source(kubeconfig, server, context=context, act_as=act_as))
    keys = [key_of(asked, job, namespace) for job in jobs]
    if not dry_run:
        what = keys[0] if len(keys) == 1 else f"{len(keys)} jobs"
        _confirm(asked, f"End {what}? This cannot be undone.", yes)
    for key in keys:
        ended = _changed(asked, partial(Cluster.end, group=key, dry_run=dry_run))
        shown = ", ".join(map(str, ended)) or "nothing was left of it"
        typer.echo(f"{_would(dry_run)}cancelled: {key} ({shown})")


def wait(
    job: Job,
    until: Annotated[str, typer.Option("--for", help="started, ended or succeeded.")] = "started",
    timeout: Annotated[str, typer.Option(help="At most so long: 30m. 0: for ever.")] = "0s",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    act_as: ActAs = "",
    server: Server = "",
) -> None:
    """Come back when a job has started, or ended."""
    if until not in ("started", "ended", "succeeded"):
        raise typer.BadParameter(f"--for {until}: write started, ended or succeeded")
    try:
        within_s = Duration(timeout if timeout != "0" else "0s").seconds
    except BadDuration as problem:
        raise typer.BadParameter(f"--timeout: {problem}") from None
    asked = Reading("wait", Source(kubeconfig, server, context=context, act_as=act_as))
    key = _key_or_typed(asked, job, namespace)
    said = _changed(asked, lambda cluster: cluster.wait_for(key, until, within_s, _LOOK_S))
    if said is None:
        typer.echo(f"muster wait: {key} has not {until} after {timeout}", err=True)
        raise typer.Exit(TIMEOUT)
    text, is_well = said
    typer.echo(f"{key} {text}")
    if not is_well:
        raise typer.Exit(1)


def _key_or_typed(asked: Reading, job: str, namespace: str) -> str:
    """A job that ended is in no list any more: then it is what was typed."""
    found = known_job(asked, job, namespace)
    if found is not None:
        return str(found["key"])
    return job if "/" in job else f"{namespace or context_namespace(asked.source)}/{job}"


def submit(
    command: Annotated[list[str], typer.Argument(help="After --: what each pod runs.")] = [],  # noqa: B006
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Manifests, as for kubectl create.")
    ] = None,
    name: Annotated[str, typer.Option(help="Of the Job.")] = "",
    queue: Annotated[
        str, typer.Option("--queue", "-q", help="Who pays.", autocompletion=named("queues"))
    ] = "",
    pods: Annotated[int, typer.Option(min=1, help="How many.")] = 1,
    minimum: Annotated[
        int, typer.Option("--min", min=0, help="Start with so many; 0: with all.")
    ] = 0,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each pod.")] = 0,
    gpu_fraction: Annotated[float, typer.Option(help="In place of --gpus: a part of one.")] = 0.0,
    cpu: Annotated[str, typer.Option(help="Of each pod: 4, 500m.")] = "",
    memory: Annotated[str, typer.Option(help="Of each pod: 16Gi.")] = "",
    image: Annotated[str, typer.Option(help="What each pod runs in.")] = "",
    rack: Annotated[
        str, typer.Option(metavar="TOPOLOGY/LEVEL", help="All in one domain of that level.")
    ] = "",
    priority: Annotated[str, typer.Option(help="A priority class.")] = "",
    time: Annotated[str, typer.Option(help="How long it is expected to run: 4h.")] = "",
    plan: Annotated[str, typer.Option(help="Only if this plan (its token) still holds.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Come back when it has started.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="With --dry-run: yaml.")] = "yaml",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="Of objects that name none.",
            autocompletion=named("namespaces"),
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    act_as: ActAs = "",
    server: Server = "",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Start this: manifests, or a Job from flags. Says what was made and its place."""
    asked = Reading("submit", Source(kubeconfig, server, context=context, act_as=act_as))
    where = namespace or context_namespace(asked.source) or "default"
    wish = Wish(
        name=name,
        queue=queue,
        pods=pods,
        minimum=minimum or pods,
        gpus=gpus,
        gpu_fraction=gpu_fraction,
        cpu=cpu,
        memory=memory,
        image=image,
        rack=rack,
        priority=priority,
        time=time,
        command=tuple(command),
    )
    manifests = _described(wish) if file is None else _read(asked, file, wish)
    if dry_run:
        if output != "yaml":
            raise typer.BadParameter(f"-o {output}: --dry-run prints yaml")
        typer.echo(yaml.safe_dump_all(manifests, sort_keys=False).rstrip())
        return
    if plan:
        _check_plan(asked, manifests, where, plan, yes)
    made = _changed(asked, lambda cluster: cluster.create(manifests, where))
    _tell(asked, made)
    if wait:
        for thing in (one for one in made if one.starts):
            key = f"{thing.namespace}/{thing.name}"
            _changed(
                asked,
                partial(Cluster.wait_for, group=key, what="started", within_s=0.0, look_s=_LOOK_S),
            )
            typer.echo(f"{key} started")


def _tell(asked: Reading, made: list[Thing]) -> None:
    for thing in made:
        key = f"{thing.namespace}/{thing.name}"
        watch = f" Watch it: muster why {key}" if thing.starts else ""
        typer.echo(f"{key} created ({thing}).{watch}")


def _check_plan(
    asked: Reading, manifests: list[Any], namespace: str, token: str, yes: bool
) -> None:
    """Nothing is submitted where the plan would be another by now."""
    import msgspec

    from muster.cli.asking import NoAnswer

    question = {"manifest": manifests, "namespace": namespace, "token": token}
    try:
        found = asked.source.ask("plan", body=msgspec.json.encode(question))
    except NoAnswer as problem:
        typer.echo(f"muster submit: {problem} Nothing was submitted.", err=True)
        raise typer.Exit(BROKEN_PLAN) from None
    if found["evicts"]:
        _confirm(asked, f"This evicts {evicted(found['evicts'])}. Submit?", yes)


def _described(wish: Wish) -> list[Any]:
    if missing := wish.missing():
        raise typer.BadParameter(f"{', '.join(missing)}: write them, or -f FILE")
    return [job_manifest(wish)]


def _read(asked: Reading, file: Path, wish: Wish) -> list[Any]:
    if said := wish.flags():
        raise typer.BadParameter(f"{', '.join(said)}: write that in {file}, or leave out -f")
    try:
        found = [one for one in yaml.safe_load_all(read_file(asked, file)) if one is not None]
    except yaml.YAMLError as problem:
        raise asked.failed(f"{file}: is not YAML: {problem}") from None
    wrong = [one for one in found if not isinstance(one, dict) or "kind" not in one]
    if wrong or not found:
        raise asked.failed(f"{file}: holds no object with a kind: write a manifest")
    return found


def _confirm(asked: Reading, question: str, yes: bool) -> None:
    """Asks on a terminal; a script says --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise asked.failed(f"{question} Nobody is there to ask: write --yes.")
    if not typer.confirm(question):
        typer.echo("Nothing was done.", err=True)
        raise typer.Exit(1)


def _would(dry_run: bool) -> str:
    return "would be " if dry_run else ""


def _changed(asked: Reading, act: Callable[[Cluster], Awaitable[T]]) -> T:
    """Over a connection of its own, in the name of whoever asks."""
    from muster.base.clock import SystemClock
    from muster.cli.serving import Process, connected
    from muster.client.errors import ApiError, BadAccess, Unreachable

    source = asked.source

    async def over_connection() -> T:
        clock = SystemClock()
        process = Process(
            "cli", kubeconfig=source.kubeconfig, context=source.context, act_as=source.act_as
        )
        connection = connected(process, clock, Log("muster", MemorySink(), Level.ERROR))
        try:
            return await act(Cluster(connection, clock))
        finally:
            await connection.close()

    try:
        return asyncio.run(over_connection())
    except (ApiError, BadAccess, CannotChange, Unreachable) as problem:
        raise failed(asked.command, problem) from None
