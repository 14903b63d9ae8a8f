"""muster install, muster uninstall: the product on any cluster that a kubeconfig names."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer
import yaml

from muster import __version__
from muster.api.codec import Unreadable, from_builtins
from muster.api.config import Config
from muster.api.names import DEFAULT
from muster.api.profiles import ProfileName
from muster.api.yaml_text import read_yaml
from muster.base.clock import SystemClock
from muster.base.log import Log, TextSink
from muster.base.rand import Rand
from muster.cli.failing import failed, unreadable
from muster.cli.installing import Installer, NotInTime, Refused
from muster.client.connection import Connection
from muster.client.errors import ApiError, BadAccess, Unreachable, described
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import load_access
from muster.client.live_access import LiveAccess
from muster.lab.volcano_kinds import definitions as other_kinds
from muster.services.operator.bootstrap import (
    Choices,
    defaults,
    definitions,
    operator_objects,
    removed,
)
from muster.services.operator.decide import usable_config
from muster.services.operator.objects import DEFINITION, Wanted
from muster.services.operator.settings import Release

_Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The cluster; without it KUBECONFIG or ~/.kube/config."),
]
_Namespace = Annotated[str, typer.Option(help="Where the services run.")]
_Config = Annotated[
    Path | None,
    typer.Option("--config", help="A Config as YAML; without it the one that is there, or none."),
]
_Repository = Annotated[str, typer.Option(help="Where the image is.")]
_Tag = Annotated[str, typer.Option(help="Its version.")]
_Replicas = Annotated[int, typer.Option(min=1, help="Replicas of the operator.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
_Diff = Annotated[bool, typer.Option("--diff", help="Show every change as a diff.")]
_Profile = Annotated[
    ProfileName,
    typer.Option(help="Whose users the first shard schedules for; their kinds are made too."),
]
_Wait = Annotated[bool, typer.Option("--wait", help="Until every service is ready.")]
_Timeout = Annotated[float, typer.Option(min=0, help="How long to wait, in seconds.")]
_Purge = Annotated[
    bool,
    typer.Option("--purge", help="Also remove the kinds and namespaces, with all that is in them."),
]


def install(
    kubeconfig: _Kubeconfig = None,
    namespace: _Namespace = DEFAULT.namespace,
    config: _Config = None,
    image_repository: _Repository = "",
    image_tag: _Tag = __version__,
    replicas: _Replicas = 1,
    profile: _Profile = ProfileName.MUSTER,
    dry_run: _DryRun = False,
    diff: _Diff = False,
    wait: _Wait = False,
    timeout: _Timeout = 300.0,
) -> None:
    """Install or upgrade: kinds, operator, a first Config, shard and queues."""
    given = _config_of(config, namespace)
    choices = Choices(Release(image_repository, image_tag), given, replicas)
    first = _first(given, config is not None, profile)
    wants = [*definitions(), *_kinds_of(profile), *operator_objects(choices), *first]

    async def work(installer: Installer) -> None:
        await installer.check(wants, ("get", "create", "patch"))
        steps = await installer.plan(wants)
        for step in steps:
            if dry_run:
                typer.echo(f"would {step.verb} {step.want}")
            if diff and step.verb != "keep":
                typer.echo(step.diff())
        if dry_run:
            return
        await installer.carry_out(steps)
        if wait:
            await installer.wait(choices.release, namespace, timeout)

    _run("install", kubeconfig, work)


def uninstall(
    kubeconfig: _Kubeconfig = None,
    namespace: _Namespace = DEFAULT.namespace,
    dry_run: _DryRun = False,
    purge: _Purge = False,
) -> None:
    """Remove the services, the Config and the shards. Queues, pod groups and running pods stay."""
    choices = Choices(config=_config_of(None, namespace))
    wants = removed(choices)

    async def work(installer: Installer) -> None:
        await installer.check(wants, ("get", "delete"))
        if dry_run:
            typer.echo(
                f"would remove Config, shards and operator, all services too, from {namespace}"
            )
            return
        await installer.uninstall(wants, namespace, purge=purge)

    _run("uninstall", kubeconfig, work)


def _kinds_of(profile: ProfileName) -> list[Wanted]:
    """Of another system; where its own are there already, they are left as they are."""
    if profile.speaks_kai:
        return []
    return [Wanted(DEFINITION, body, is_kept=True) for body in other_kinds(profile.value)]


def _first(config: Config, is_given: bool, profile: ProfileName) -> list[Wanted]:
    """What is the user's own is made where it is missing; a Config that is given is applied."""
    found = [*defaults(config, profile)]
    if is_given:
        found[0] = Wanted(found[0].kind, found[0].body)
    return found


def _config_of(path: Path | None, namespace: str) -> Config:
    plain = {"metadata": {"name": DEFAULT.config}, "spec": {}}
    if path is not None:
        try:
            plain = read_yaml(path.read_text())
        except (OSError, yaml.YAMLError, ValueError) as problem:
            raise typer.BadParameter(f"--config {path}: {unreadable(problem)}") from None
        if not isinstance(plain, dict):
            raise typer.BadParameter(f"--config {path}: write a Config as YAML")
    spec = plain.setdefault("spec", {})
    if spec.setdefault("namespace", namespace) != namespace:
        given = spec["namespace"]
        raise typer.BadParameter(f"--namespace {namespace}: the Config says {given}; write that")
    try:
        config = from_builtins(Config, plain)
    except Unreadable as problem:
        raise typer.BadParameter(f"--config {path}: {problem}") from None
    if problems := usable_config(config):
        raise typer.BadParameter("; ".join(str(one) for one in problems))
    return config


def _run(
    command: str, kubeconfig: Path | None, work: Callable[[Installer], Awaitable[None]]
) -> None:
    async def connected() -> None:
        clock = SystemClock()
        log = Log(f"muster-{command}", TextSink())
        access = LiveAccess(lambda: load_access(clock, os.environ, path=kubeconfig), clock, log)
        connection = Connection(
            HttpsTransport(access, clock),
            clock,
            Rand(int.from_bytes(os.urandom(6))),
            user_agent=f"muster-{command}",
        )
        try:
            await work(Installer(connection, clock, lambda text: typer.echo(text, err=True)))
        finally:
            await connection.close()

    try:
        asyncio.run(connected())
    except (Refused, NotInTime, BadAccess) as problem:
        raise failed(command, problem) from None
    except (ApiError, Unreachable) as problem:
        raise failed(command, described(problem)) from None
