"""muster install and uninstall on the laptop cluster: check first, write, wait, undo."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tests.lab.test_not_served import NotFoundPage
from tests.lab.test_operator import CONFIG, HERE, SHARD, Site
from tests.support.lab import DEFINITION, DEPLOYMENT, QUEUE
from tests.support.operated import container_of

from muster.api.config import Config, ConfigSpec
from muster.api.meta import Key, ObjectMeta
from muster.api.names import DEFAULT
from muster.api.roles import Rights
from muster.base.clock import Clock
from muster.base.rand import Rand
from muster.cli.installing import Installer, NotInTime, Refused
from muster.client.connection import Connection
from muster.client.transport import Request, Response, Transport
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.hosting import ACCOUNT, NAMESPACE, HostedService, Wrap, ensure, unwrapped
from muster.lab.virtual_loop import run_virtually
from muster.runtime.supervisor import Supervisor
from muster.services.operator import wiring
from muster.services.operator.bootstrap import (
    Choices,
    defaults,
    definitions,
    operator_objects,
    removed,
)
from muster.services.operator.objects import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    PRIORITY_CLASS,
    Wanted,
)
from muster.services.operator.settings import Release
from muster.services.operator.status import unavailability
from muster.sim.kubelet.nodes import NodeGroup

GIVEN = Config(metadata=ObjectMeta(name="kai-config"), spec=ConfigSpec(namespace=HERE))
CHOICES = Choices(Release("registry.example", "1.0"), GIVEN)
INSTALLS = ("get", "create", "patch")


def everything(choices: Choices = CHOICES) -> list[Wanted]:
    return [*definitions(), *operator_objects(choices), *defaults(choices.config)]


@dataclass(slots=True)
class Desk:
    """Somebody with a kubeconfig."""

    site: Site
    installer: Installer
    said: list[str]

    async def install(self, wants: Sequence[Wanted] = ()) -> None:
        chosen = wants or everything()
        await self.installer.check(chosen, INSTALLS)
        await self.installer.carry_out(await self.installer.plan(chosen))

    def stored_writes(self) -> list[str]:
        """What was asked of the server beside questions."""
        return [
            line.path
            for line in self.site.cluster.write_log
            if line.who == "desk" and "accessreviews" not in line.path
        ]


def at_the_desk(
    story: Callable[[Desk], Awaitable[None]], *, wrap: Wrap = unwrapped, token_of: str = ""
) -> None:
    async def main(clock: Clock) -> None:
        plan = ClusterPlan(nodes=(NodeGroup("node", count=2),))
        async with Cluster(plan, clock=clock) as cluster:
            token = ""
            if token_of:
                await ensure(cluster.writer, ACCOUNT, {"metadata": {"name": token_of}}, "default")
                account = await cluster.reader.get(ACCOUNT, Key("default", token_of))
                token = cluster.server.tokens.issue(account, clock.now_s(), 3600)
            transport = wrap("desk", cluster.transport("desk", token), clock)
            connection = Connection(transport, clock, Rand(1))
            said: list[str] = []
            await story(Desk(Site(cluster, clock), Installer(connection, clock, said.append), said))

    run_virtually(main)


async def _run_operator(
    site: Site, build: Callable[[Supervisor], None] | None = None
) -> asyncio.Task[None]:
    """Stands in for the pod that the Deployment would start, and for kube-scheduler.

    It has the account that was installed, and what that one may do.
    """
    await site.cluster.start(HostedService("muster-operator", build or _build, Rights()))

    async def place() -> None:
        while True:
            await site.place_pods()
            await site.clock.sleep(1.0)

    return asyncio.create_task(place())


def _build(supervisor: Supervisor) -> None:
    wiring.build(supervisor, wiring.OperatorServiceConfig())


def test_an_empty_cluster_gets_the_product_and_a_second_run_changes_nothing() -> None:
    async def story(desk: Desk) -> None:
        await desk.install()
        placing = await _run_operator(desk.site)
        await desk.installer.wait(CHOICES.release, HERE, 300.0)
        placing.cancel()
        assert desk.said[-1] == "ready"
        assert any("admission" in text for text in desk.said), "what is missing is said"
        steps = await desk.installer.plan(everything())
        assert {step.verb for step in steps} == {"keep"}
        operator = await desk.site.get(DEPLOYMENT, "muster-operator")
        assert operator is not None
        (container,) = operator["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "registry.example/muster:1.0"

    at_the_desk(story)


def test_an_upgrade_says_what_it_would_change_before_it_does() -> None:
    async def story(desk: Desk) -> None:
        await desk.install()
        newer = Choices(Release("registry.example", "2.0"), GIVEN)
        steps = await desk.installer.plan(everything(newer))
        changed = [step for step in steps if step.verb == "change"]
        assert [str(step.want) for step in changed] == [f"Deployment {HERE}/muster-operator"]
        assert "+        image: registry.example/muster:2.0" in changed[0].diff()
        operator = await desk.site.get(DEPLOYMENT, "muster-operator")
        assert "muster:1.0" in json.dumps(operator), "asking changed nothing"
        await desk.installer.carry_out(steps)
        assert "muster:2.0" in json.dumps(await desk.site.get(DEPLOYMENT, "muster-operator"))

    at_the_desk(story)


def test_waiting_for_an_upgrade_ends_when_every_service_runs_the_new_image() -> None:
    """Config was ready before, and says so until the operator looks."""

    async def story(desk: Desk) -> None:
        await desk.install()
        placing = await _run_operator(desk.site)
        await desk.installer.wait(CHOICES.release, HERE, 300.0)
        for tag in ("2.0", "1.0"):
            other = Choices(Release("registry.example", tag), GIVEN)
            steps = await desk.installer.plan(everything(other))
            await desk.installer.carry_out(steps)
            await desk.installer.wait(other.release, HERE, 300.0)
            deployments = (await desk.site.cluster.reader.list(DEPLOYMENT)).objects
            images = {container_of(one)["image"] for one in deployments}
            assert images == {f"registry.example/muster:{tag}"}
            assert [text for one in deployments if (text := unavailability(one))] == []
        placing.cancel()

    at_the_desk(story)


def test_a_config_that_is_there_is_left_alone() -> None:
    async def story(desk: Desk) -> None:
        await desk.install()
        await desk.site.patch(CONFIG, "kai-config", {"spec": {"binder": {"replicas": 3}}})
        await desk.install()
        config = await desk.site.get(CONFIG, "kai-config")
        assert config is not None
        assert config["spec"]["binder"]["replicas"] == 3

    at_the_desk(story)


@dataclass(frozen=True, slots=True)
class _Old:
    """A server that says it is an older one."""

    _inner: Transport

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if request.path == "/version":
            return _Answer()
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


class _Answer:
    def __init__(self) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        return b'{"major": "1", "minor": "32+"}'

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield await self.read()

    async def close(self) -> None:
        pass


def test_a_second_installation_in_another_namespace_is_refused_before_anything_is_written() -> None:
    """It would take the rights of the first operator, which would then do nothing."""

    async def story(desk: Desk) -> None:
        await desk.install()
        before = desk.stored_writes()
        spec = ConfigSpec(namespace="elsewhere")
        given = Config(metadata=ObjectMeta(name="kai-config"), spec=spec)
        second = everything(Choices(Release("registry.example", "1.0"), given))
        with pytest.raises(Refused, match=f"in namespace {HERE}: say so"):
            await desk.install(second)
        with pytest.raises(Refused, match=f"--namespace {HERE}"):
            await desk.installer.check(removed(Choices(config=given)), ("get", "delete"))
        assert desk.stored_writes() == before

    at_the_desk(story)


def test_a_kubernetes_that_is_too_old_is_refused_before_anything_is_written() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(
            Refused, match=r"Kubernetes 1\.32 is too old: upgrade to 1\.33 or later"
        ):
            await desk.install()
        assert desk.stored_writes() == []

    at_the_desk(story, wrap=lambda _, transport, __: _Old(transport))


@dataclass(slots=True)
class _Late:
    """A server that serves kinds only some requests after their CRDs are established."""

    _inner: Transport
    refuses: str = "PATCH"
    refused: Counter[str] = field(default_factory=Counter)

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        is_ours = request.path.startswith(("/apis/kai.scheduler/", "/apis/scheduling.run.ai/"))
        if is_ours and request.method == self.refuses and self.refused[request.path] < 3:
            self.refused[request.path] += 1
            return NotFoundPage()
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


def test_kinds_that_are_not_served_yet_are_waited_for() -> None:
    server: list[_Late] = []

    def late(_: str, transport: Transport, __: Clock) -> Transport:
        server.append(_Late(transport))
        return server[0]

    async def story(desk: Desk) -> None:
        await desk.install()
        assert len(server[0].refused) == 4, "Config, shard, and two queues"
        for kind, name in ((CONFIG, "kai-config"), (SHARD, "default"), (QUEUE, "default-queue")):
            assert await desk.site.get(kind, name) is not None

    at_the_desk(story, wrap=late)


def test_waiting_outlives_an_api_server_that_does_not_serve_the_kinds_yet() -> None:
    """Of several behind one address: the next request may be another's."""
    server: list[_Late] = []

    def late(_: str, transport: Transport, __: Clock) -> Transport:
        server.append(_Late(transport))
        return server[0]

    async def story(desk: Desk) -> None:
        await desk.install()
        placing = await _run_operator(desk.site)
        server[0].refuses = "GET"
        server[0].refused.clear()
        await desk.installer.wait(CHOICES.release, HERE, 300.0)
        placing.cancel()
        assert {*server[0].refused.values()} == {3}
        assert any("404" in text for text in desk.said), "what is in the way is said"
        assert desk.said[-1] == "ready"

    at_the_desk(story, wrap=late)


def test_missing_rights_are_listed_before_anything_is_written() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(Refused) as refused:
            await desk.install()
        text = str(refused.value)
        assert "you may not create customresourcedefinitions.apiextensions.k8s.io" in text
        assert f"you may not create deployments.apps in namespace {HERE}" in text
        assert "you may not escalate clusterroles.rbac.authorization.k8s.io" in text
        assert desk.stored_writes() == []

    at_the_desk(story, token_of="nobody")


def test_who_may_write_roles_and_not_bind_them_is_told_before_anything_is_written() -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": [*INSTALLS, "escalate"]}]
    subject = {"kind": "ServiceAccount", "name": "almost", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "almost"}

    async def story(desk: Desk) -> None:
        await desk.site.create(CLUSTER_ROLE, "almost", rules=rules)
        await desk.site.create(CLUSTER_ROLE_BINDING, "almost", subjects=[subject], roleRef=role)
        with pytest.raises(Refused) as refused:
            await desk.install()
        assert str(refused.value).splitlines() == [
            f"you may not bind {roles}.rbac.authorization.k8s.io: ask an administrator"
            for roles in ("clusterroles", "roles")
        ]
        assert desk.stored_writes() == []

    at_the_desk(story, token_of="almost")


def test_what_helm_installed_is_left_to_helm() -> None:
    async def story(desk: Desk) -> None:
        await desk.install()
        by_helm = {
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "mine"},
        }
        await desk.site.patch(DEPLOYMENT, "muster-operator", {"metadata": by_helm})
        before = desk.stored_writes()
        with pytest.raises(Refused, match="helm upgrade mine"):
            await desk.install()
        assert desk.stored_writes() == before
        await desk.installer.check(removed(CHOICES), ("get", "delete"))

    at_the_desk(story)


def test_waiting_ends_with_what_is_missing() -> None:
    async def story(desk: Desk) -> None:
        await desk.install()
        with pytest.raises(NotInTime, match="the operator has not looked at it yet"):
            await desk.installer.wait(CHOICES.release, HERE, 10.0)

    at_the_desk(story)


@pytest.mark.parametrize("purge", [False, True])
def test_uninstalling_removes_what_was_made_and_nothing_else(purge: bool) -> None:
    async def story(desk: Desk) -> None:
        site = desk.site
        await ensure(site.cluster.writer, NAMESPACE, {"metadata": {"name": HERE}})
        await site.create(CONFIG_MAP, "foreign", HERE, data={"a": "b"})
        await desk.install()
        placing = await _run_operator(site)
        await desk.installer.wait(CHOICES.release, HERE, 300.0)
        await site.cluster.stop("muster-operator")
        before = len(desk.stored_writes())
        await desk.installer.uninstall(removed(CHOICES), HERE, purge=purge)
        gone = desk.stored_writes()[before:]
        hooks = [at for at, path in enumerate(gone) if "webhookconfigurations/" in path]
        (config,) = [at for at, path in enumerate(gone) if path.endswith("/configs/kai-config")]
        assert hooks
        assert max(hooks) < config, "nobody is asked who has gone"
        placing.cancel()
        await site.clock.sleep(60.0)
        assert await site.get(DEPLOYMENT, "muster-operator") is None
        assert await site.get(PRIORITY_CLASS, "train") is not None
        definitions_left = (await site.cluster.reader.list(DEFINITION)).objects
        assert bool(definitions_left) != purge
        if not purge:
            assert await site.owned() == set()
            assert await site.get(CONFIG, "kai-config") is None
            assert await site.get(SHARD, "default") is None
            assert await site.get(QUEUE, "default-queue") is not None
            assert await site.get(CONFIG_MAP, "foreign") is not None
            assert await site.get(NAMESPACE, DEFAULT.reservation_namespace) is not None

    at_the_desk(story)


def test_uninstalling_ends_with_what_does_not_go_and_goes_on_when_it_is_run_again() -> None:
    async def story(desk: Desk) -> None:
        await desk.install()
        placing = await _run_operator(desk.site)
        await desk.installer.wait(CHOICES.release, HERE, 300.0)
        await desk.site.cluster.stop("muster-operator")
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await desk.site.patch(DEPLOYMENT, "binder", held)
        with pytest.raises(NotInTime, match=r"still there after 300 s: binder: .*finalizers"):
            await desk.installer.uninstall(removed(CHOICES), HERE, purge=False)
        waits = [text for text in desk.said if "the end of" in text]
        assert len(waits) == len({*waits}), "nothing is said again and again"
        await desk.site.patch(DEPLOYMENT, "binder", {"metadata": {"finalizers": None}})
        await desk.installer.uninstall(removed(CHOICES), HERE, purge=False)
        placing.cancel()
        assert await desk.site.get(DEPLOYMENT, "binder") is None

    at_the_desk(story)


def test_who_installs_by_files_gets_the_product_again_after_it_was_removed() -> None:
    files = [*definitions(), *operator_objects(replace(CHOICES, makes_defaults=True))]

    async def story(desk: Desk) -> None:
        async def made() -> bool:
            return await desk.site.get(SHARD, "default") is not None

        for _ in range(2):
            await desk.install(files)
            placing = await _run_operator(desk.site, _build_with_defaults)
            await desk.site.until(made, "the defaults are made")
            await desk.site.until_ready(SHARD, "default")
            await desk.site.cluster.stop("muster-operator")
            await desk.installer.uninstall(removed(CHOICES), HERE, purge=False)
            placing.cancel()
            assert await desk.site.get(CONFIG, "kai-config") is None

    at_the_desk(story)


def _build_with_defaults(supervisor: Supervisor) -> None:
    wiring.build(supervisor, wiring.OperatorServiceConfig(makes_defaults=True))
