"""muster submit, cancel, hold, release, wait: what changes something says what, and how to undo
it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from muster.api import names
from muster.api.duration import BadDuration, Duration
from muster.cli.acting import Acting, Done, DryRun, Job, Jobs, Trial, Yes, acting
from muster.cli.completing import named
from muster.cli.explaining import evicted
from muster.cli.naming import key_of, known_job
from muster.cli.objects import Cluster, Thing
from muster.cli.planning import read_file
from muster.cli.reading import context_namespace
from muster.cli.standing import Standing, stand_of
from muster.cli.submission import Wish, job_manifest

BROKEN_PLAN: Final = 6
TIMEOUT: Final = 124
_LOOK_S: Final = 1.0


@acting
def hold(
    acts: Acting,
    job: Job,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks.")] = "by muster hold",
    dry_run: DryRun = Trial.NONE,
) -> None:
    """Not now: the job is not started until it is released. What runs of it goes on."""
    _annotated(acts, job, reason, "held", "release", dry_run)


@acting
def release(acts: Acting, job: Job, dry_run: DryRun = Trial.NONE) -> None:
    """Take a job off its hold: it is started when it is its turn."""
    _annotated(acts, job, None, "released", "hold", dry_run)


def _annotated(acts: Acting, job: str, text: str | None, did: str, undo: str, trial: Trial) -> None:
    """With the text in the annotation by which jobs are held; None: without it."""
    key = key_of(acts.reading, job, acts.namespace)
    if trial is not Trial.CLIENT:
        acts.change(lambda cluster: cluster.annotate(key, names.ANNOTATION_HOLD, text), trial)
    done = Done(did, key, undo=f"muster {undo} {key}", dry_run=bool(trial))
    acts.tell([done], [f"{acts.would(trial)}{did}: {key}. Undo: {done.undo}"])


@acting
def cancel(acts: Acting, jobs: Jobs, dry_run: DryRun = Trial.NONE, yes: Yes = False) -> None:
    """End jobs: what owns their pods is deleted, or the pods where nothing owns them."""
    keys = [key_of(acts.reading, job, acts.namespace) for job in jobs]
    if not dry_run:
        what = keys[0] if len(keys) == 1 else f"{len(keys)} jobs"
        acts.confirm(f"End {what}? This cannot be undone.", yes)
    done, lines = [], []
    for key in keys:
        is_asked = dry_run is not Trial.CLIENT
        ended = acts.change(partial(Cluster.end, group=key, deletes=is_asked), dry_run)
        done.append(Done("cancelled", key, tuple(map(str, ended)), dry_run=bool(dry_run)))
        shown = ", ".join(done[-1].objects) or "nothing was left of it"
        lines.append(f"{acts.would(dry_run)}cancelled: {key} ({shown})")
    acts.tell(done, lines)


@acting
def wait(
    acts: Acting,
    job: Job,
    until: Annotated[str, typer.Option("--for", help="started, ended or succeeded.")] = "started",
    timeout: Annotated[str, typer.Option(help="At most so long: 30m. 0: for ever.")] = "0s",
) -> None:
    """Come back when a job has started, or ended."""
    if until not in ("started", "ended", "succeeded"):
        raise typer.BadParameter(f"--for {until}: write started, ended or succeeded")
    try:
        within_s = Duration(timeout if timeout != "0" else "0s").seconds
    except BadDuration as problem:
        raise typer.BadParameter(f"--timeout: {problem}") from None
    key = _key_or_typed(acts, job)
    said = acts.change(lambda cluster: cluster.wait_for(key, until, within_s, _LOOK_S))
    if said is None:
        typer.echo(f"muster wait: {key} has not {until} after {timeout}", err=True)
        raise typer.Exit(TIMEOUT)
    text, is_well = said
    acts.tell([Done(text, key)], [f"{key} {text}"])
    if not is_well:
        raise typer.Exit(1)


def _key_or_typed(acts: Acting, job: str) -> str:
    """A job that ended is in no list any more: then it is what was typed."""
    found = known_job(acts.reading, job, acts.namespace)
    if found is not None:
        return str(found["key"])
    return job if "/" in job else f"{acts.namespace or context_namespace(acts.source)}/{job}"


@acting
def submit(
    acts: Acting,
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
    dry_run: DryRun = Trial.NONE,
    yes: Yes = False,
) -> None:
    """Start this: manifests, or a Job from flags. Says what was made and its place."""
    where = acts.namespace or context_namespace(acts.source) or "default"
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
    manifests = _described(wish) if file is None else _read(acts, file, wish)
    if dry_run is Trial.CLIENT:
        typer.echo(_shown(manifests, acts.form))
        return
    if plan:
        _check_plan(acts, manifests, where, plan, yes or bool(dry_run))
    made = acts.change(lambda cluster: cluster.create(manifests, where), dry_run)
    if dry_run:
        _tell_trial(acts, made)
        return
    _tell(acts, made, stand_of(acts.reading, made))
    if wait:
        for thing in (one for one in made if one.starts):
            key = f"{thing.namespace}/{thing.name}"
            acts.change(
                partial(Cluster.wait_for, group=key, what="started", within_s=0.0, look_s=_LOOK_S)
            )
            typer.echo(f"{key} started", err=acts.form != "text")


def _shown(manifests: list[Any], form: str) -> str:
    """As kubectl create reads it."""
    if form == "json":
        import json

        listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
        return json.dumps(manifests[0] if len(manifests) == 1 else listed, indent=2)
    if form == "name":
        return "\n".join(f"{one['kind']} {one['metadata'].get('name', '')}" for one in manifests)
    text: str = yaml.safe_dump_all(manifests, sort_keys=False)
    return text.rstrip()


def _tell(acts: Acting, made: list[Thing], standing: Mapping[str, Standing]) -> None:
    done, lines = [], []
    for thing in made:
        undo = f"muster cancel {thing.key}" if thing.starts else ""
        found = standing.get(thing.key, Standing())
        done.append(
            Done("created", thing.key, (str(thing),), undo, place=found.place, start=found.start)
        )
        watch = f" Watch it: muster why {thing.key}" if thing.starts else ""
        lines.append(f"{thing.key} created ({thing}){found.text}.{watch}")
    acts.tell(done, lines)


def _tell_trial(acts: Acting, made: list[Thing]) -> None:
    done = [Done("created", one.key, (str(one),), dry_run=True) for one in made]
    acts.tell(
        done, [f"would be created: {one.key} ({one}). The API server agrees." for one in made]
    )


def _check_plan(acts: Acting, manifests: list[Any], namespace: str, token: str, yes: bool) -> None:
    """Nothing is submitted where the plan would be another by now."""
    import msgspec

    from muster.cli.asking import NoAnswer

    question = {"manifest": manifests, "namespace": namespace, "token": token}
    try:
        found = acts.source.ask("plan", body=msgspec.json.encode(question))
    except NoAnswer as problem:
        typer.echo(f"muster submit: {problem} Nothing was submitted.", err=True)
        raise typer.Exit(BROKEN_PLAN) from None
    if found["evicts"]:
        acts.confirm(f"This evicts {evicted(found['evicts'])}. Submit?", yes)


def _described(wish: Wish) -> list[Any]:
    if missing := wish.missing():
        raise typer.BadParameter(f"{', '.join(missing)}: write them, or -f FILE")
    return [job_manifest(wish)]


def _read(acts: Acting, file: Path, wish: Wish) -> list[Any]:
    if said := wish.flags():
        raise typer.BadParameter(f"{', '.join(said)}: write that in {file}, or leave out -f")
    try:
        found = [
            one for one in yaml.safe_load_all(read_file(acts.reading, file)) if one is not None
        ]
    except yaml.YAMLError as problem:
        raise acts.reading.failed(f"{file}: is not YAML: {problem}") from None
    wrong = [one for one in found if not isinstance(one, dict) or "kind" not in one]
    if wrong or not found:
        raise acts.reading.failed(f"{file}: holds no object with a kind: write a manifest")
    return found
