"""The operator where somebody else writes the same objects, or keeps it from writing them."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.lab.test_operator import (
    CONFIG,
    HERE,
    OPERATOR,
    SHARD,
    Site,
    install,
    on_site,
    operator_service,
)
from tests.lab.test_operator_trouble import on_a_bad_day
from tests.support.lab import DEFINITION, DEPLOYMENT

from muster.api.codec import Status
from muster.api.crds import DEFINITIONS, manifest
from muster.api.names import (
    DEFAULT,
    OPERATOR_DEPLOYMENT,
    SECRET_WEBHOOK_CA,
    SECRET_WEBHOOK_TLS,
)
from muster.base.clock import Clock
from muster.base.log import Level, Log
from muster.client.errors import status_error
from muster.client.transport import Request, Response, Transport
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.hosting import NAMESPACE, HostedService, ensure
from muster.lab.virtual_loop import run_virtually
from muster.services.operator import roles, wiring
from muster.services.operator.certificates import Certificates, renewed
from muster.services.operator.objects import SECRET, SERVICE, VALIDATING
from muster.sim.kubelet.nodes import NodeGroup


async def _keep_at(site: Site, seconds: int, act: Callable[[], Awaitable[None]]) -> None:
    for _ in range(seconds):
        await act()
        await site.clock.sleep(1.0)


async def _message(site: Site, kind: Any, name: str) -> str:
    found = await site.get(kind, name) or {}
    listed = (found.get("status") or {}).get("conditions", ())
    (message,) = [one["message"] for one in listed if one["type"] == "Deployed"]
    return str(message)


def _writes_to(site: Site, path: str) -> int:
    return sum(line.who == OPERATOR and path in line.path for line in site.cluster.write_log)


def test_who_changes_an_object_again_and_again_is_named_and_holds_up_nothing_else() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.cluster.settled()

        async def scale() -> None:
            await site.patch(DEPLOYMENT, "binder", {"spec": {"replicas": 5}})

        before = site.writes(), _writes_to(site, "deployments/binder")
        await _keep_at(site, 40, scale)
        assert _writes_to(site, "deployments/binder") - before[1] < 10
        assert site.writes() - before[0] < 60, "nor does it say something new all the time"
        told = await _message(site, CONFIG, "kai-config")
        assert "Deployment kai-scheduler/binder: somebody changes spec.replicas again" in told
        await site.create(SHARD, "b", spec={"partitionLabelValue": "b"})
        await _keep_at(site, 20, scale)
        assert await site.get(DEPLOYMENT, "kai-scheduler-b") is not None
        await site.until_ready(CONFIG, "kai-config")
        binder = await site.get(DEPLOYMENT, "binder")
        assert binder is not None
        assert binder["spec"]["replicas"] == 1

    on_site(story)


def test_who_removes_an_object_again_and_again_is_named_and_gives_in_at_last() -> None:
    async def story(site: Site) -> None:
        await install(site)

        async def remove() -> None:
            if await site.get(SERVICE, "admission") is not None:
                await site.delete(SERVICE, "admission")

        before = _writes_to(site, "services/admission")
        await _keep_at(site, 40, remove)
        assert _writes_to(site, "services/admission") - before < 10
        told = await _message(site, CONFIG, "kai-config")
        assert "Service kai-scheduler/admission: somebody removes it again" in told
        await site.until_ready(CONFIG, "kai-config")
        assert await site.get(SERVICE, "admission") is not None

    on_site(story)


@pytest.mark.parametrize("kind", [CONFIG, SHARD], ids=["Config", "shard"])
def test_an_owner_that_is_on_its_way_out_has_nothing_made_for_it_any_more(kind: Any) -> None:
    """Who deletes in the foreground waits until all that belonged to it is gone."""
    name, made = ("kai-config", "binder") if kind is CONFIG else ("b", "kai-scheduler-b")

    async def story(site: Site) -> None:
        await install(site)
        await site.create(SHARD, "b", spec={"partitionLabelValue": "b"})
        await site.until_ready(SHARD, "b")
        await site.patch(kind, name, {"metadata": {"finalizers": ["example.com/wait"]}})
        await site.delete(kind, name)
        await site.delete(DEPLOYMENT, made)
        await site.clock.sleep(600.0)
        assert await site.get(DEPLOYMENT, made) is None
        await site.patch(kind, name, {"metadata": {"finalizers": None}})
        await site.clock.sleep(10.0)
        assert await site.get(kind, name) is None

    on_site(story)


def test_what_somebody_ties_to_config_is_not_the_operators_to_remove() -> None:
    """It goes with Config, by the rules of Kubernetes, and not before."""

    async def story(site: Site) -> None:
        await install(site)
        config = await site.get(CONFIG, "kai-config")
        assert config is not None
        owner = {
            "apiVersion": config["apiVersion"],
            "kind": config["kind"],
            "name": "kai-config",
            "uid": config["metadata"]["uid"],
        }
        meta = {"name": "mine", "ownerReferences": [owner]}
        await site.create(SERVICE, "", HERE, metadata=meta, spec={"ports": [{"port": 1}]})
        await site.clock.sleep(600.0)
        assert await site.get(SERVICE, "mine") is not None

    on_site(story)


def test_a_config_for_another_namespace_says_where_the_operator_is_and_makes_nothing() -> None:
    async def story(site: Site) -> None:
        before = {*await site.there()}
        await site.create(CONFIG, "kai-config", spec={"namespace": "elsewhere"})
        await site.clock.sleep(60.0)
        told = await _message(site, CONFIG, "kai-config")
        assert "spec.namespace: elsewhere is not where the operator is: write kai-scheduler" in told
        assert {*await site.there()} == before

    on_site(story)


def test_services_run_from_the_image_that_the_operator_itself_runs_from() -> None:
    """One change upgrades everything: that of the operator's own Deployment."""

    def service() -> HostedService:
        config = wiring.OperatorServiceConfig()
        return HostedService(
            OPERATOR, lambda supervisor: wiring.build(supervisor, config), roles.rights(DEFAULT)
        )

    async def story(site: Site) -> None:
        app = {"app": OPERATOR_DEPLOYMENT}
        template = {"metadata": {"labels": app}, "spec": {"containers": [_operator("7")]}}
        spec = {"selector": {"matchLabels": app}, "template": template}
        meta = {"name": OPERATOR_DEPLOYMENT, "labels": _OURS}
        await site.create(DEPLOYMENT, "", HERE, metadata=meta, spec=spec)
        await site.cluster.start(service())
        await install(site)
        await site.patch(
            DEPLOYMENT,
            OPERATOR_DEPLOYMENT,
            {"spec": {"template": {"spec": {"containers": [_operator("8")]}}}},
        )
        for name in ("binder", "kai-scheduler-default"):

            async def rolled(name: str = name) -> bool:
                found = await site.get(DEPLOYMENT, name)
                return "'registry.example/mine/muster:8'" in str(found)

            await site.until(rolled)

    on_site(story, starts=False)


_OURS = {"app.kubernetes.io/managed-by": "kai-operator"}


def _operator(tag: str) -> dict[str, str]:
    return {"name": "operator", "image": f"registry.example/mine/muster:{tag}"}


def test_what_changes_in_a_hurry_is_looked_at_together() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.cluster.settled()
        before = site.writes()
        for replicas in range(2, 18):
            await site.patch(DEPLOYMENT, "binder", {"spec": {"replicas": replicas}})
            await site.clock.sleep(0.01)
        await site.clock.sleep(5.0)
        assert site.writes() - before < 12

    on_site(story)


def test_a_shard_is_ready_when_its_scheduler_is() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.create(SHARD, "b", spec={"partitionLabelValue": "b"})
        await site.clock.sleep(60.0)  # Its pod has no node yet.
        conditions = await site.conditions(SHARD, "b")
        assert (conditions["Deployed"], conditions["Ready"]) == ("True", "False")
        assert "kai-scheduler-b: 0 of 1 pods ready" in str(await site.get(SHARD, "b"))
        assert (await site.conditions(SHARD, "default"))["Ready"] == "True"
        await site.until_ready(SHARD, "b")

    on_site(story)


_HOSTS = ["admission.kai-scheduler.svc", "admission.kai-scheduler.svc.cluster.local"]
_SEVEN_YEARS_S = 7 * 365 * 86400.0


def test_who_asks_trusts_the_next_authority_and_the_one_before() -> None:
    async def story(site: Site) -> None:
        old = renewed(Certificates(), _HOSTS, site.clock.now_s() - _SEVEN_YEARS_S)
        contents = {
            SECRET_WEBHOOK_CA: {
                "tls.crt": old.authority,
                "tls.key": old.authority_key,
                "ca.crt": old.trusted,
            },
            SECRET_WEBHOOK_TLS: {"tls.crt": old.serving, "tls.key": old.serving_key},
        }
        for name, files in contents.items():
            data = {key: base64.b64encode(text).decode() for key, text in files.items()}
            await site.create(SECRET, name, HERE, data=data)
        await site.cluster.start(operator_service())
        await install(site)
        hooks = await site.get(VALIDATING, "validating-kai-admission")
        assert hooks is not None
        trusted = base64.b64decode(hooks["webhooks"][0]["clientConfig"]["caBundle"])
        assert old.authority in trusted
        assert trusted.count(b"BEGIN CERTIFICATE") == 2

    on_site(story, starts=False)


@dataclass(slots=True)
class _Heard:
    """All that anybody logs."""

    texts: list[str] = field(default_factory=list)

    def write(self, _: Level, __: str, message: str, fields: Mapping[str, object]) -> None:
        self.texts.append(f"{message} {fields}")


def test_no_secret_is_logged_when_it_is_made_or_set_right() -> None:
    heard = _Heard()

    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await install(site)
        await site.patch(SECRET, SECRET_WEBHOOK_TLS, {"data": {"tls.key": "AAAA"}})
        await site.clock.sleep(600.0)
        secret = await site.get(SECRET, SECRET_WEBHOOK_TLS)
        assert secret is not None
        assert secret["data"]["tls.key"] != "AAAA"
        said = [text for text in heard.texts if SECRET_WEBHOOK_TLS in text]
        assert any("changed" in text and "data.tls.key" in text for text in said), said
        for value in secret["data"].values():
            assert not any(value[:40] in text for text in heard.texts)

    async def main(clock: Clock) -> None:
        plan = ClusterPlan(nodes=(NodeGroup("node", count=2),))
        async with Cluster(plan, clock=clock, log=Log("lab", heard, Level.DEBUG)) as cluster:
            for definition in DEFINITIONS:
                await ensure(cluster.writer, DEFINITION, manifest(definition))
            await ensure(cluster.writer, NAMESPACE, {"metadata": {"name": HERE}})
            await story(Site(cluster, clock))

    run_virtually(main)


@dataclass(slots=True)
class _Refusing:
    """While it is on, the API server answers the operator so, whatever it asks."""

    error: Status
    path: str = ""
    is_on: bool = False
    asked: int = 0

    def wrap(self, who: str, inner: Transport, _: Clock) -> Transport:
        return _Refused(inner, self) if who == OPERATOR else inner


@dataclass(frozen=True, slots=True)
class _Refused:
    _inner: Transport
    _plan: _Refusing

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        is_meant = request.method != "GET" or not self._plan.path
        if self._plan.is_on and is_meant and self._plan.path in request.path:
            self._plan.asked += 1
            raise status_error(self._plan.error)
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(
    "error",
    [
        Status(code=429, reason="TooManyRequests", message="too many requests"),
        Status(code=500, reason="InternalError", message="no etcd"),
    ],
    ids=["429", "500"],
)
def test_ten_minutes_of_an_api_server_that_answers_nobody_are_made_up_for(error: Status) -> None:
    plan = _Refusing(error)

    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await install(site)
        await site.cluster.settled()
        plan.is_on = True
        await site.patch(CONFIG, "kai-config", {"spec": {"binder": {"metricsPort": 8090}}})
        await site.delete(SERVICE, "binder")
        await site.clock.sleep(600.0)
        assert plan.asked < 3000, "of each of two dozen kinds, once in a while"
        plan.is_on = False

        async def followed() -> bool:
            service = await site.get(SERVICE, "binder")
            return service is not None and service["spec"]["ports"][0]["port"] == 8090

        await site.until(followed)
        await site.until_ready(CONFIG, "kai-config")

    on_a_bad_day(story, plan.wrap)


@pytest.mark.parametrize(
    "text",
    [
        "exceeded quota: all, requested: count/deployments.apps=1, used: count/deployments.apps=0",
        "unable to create new content in namespace kai-scheduler because it is being terminated",
    ],
    ids=["quota", "terminating"],
)
def test_what_a_namespace_does_not_take_is_said_and_tried_again(text: str) -> None:
    plan = _Refusing(Status(code=403, reason="Forbidden", message=text), "/deployments", True)

    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await site.create(CONFIG, "kai-config", spec={})
        await site.create(SHARD, "default", spec={})
        await site.clock.sleep(60.0)
        for kind, name in ((CONFIG, "kai-config"), (SHARD, "default")):
            assert text in await _message(site, kind, name)
        assert await site.get(SERVICE, "binder") is not None, "what it takes is there"
        before = site.writes()
        await site.clock.sleep(600.0)
        assert site.writes() == before, "the same is not said again"
        plan.is_on = False
        await site.clock.sleep(30.0)
        assert await site.get(DEPLOYMENT, "binder") is not None, "it is tried again soon"
        await site.until_ready(CONFIG, "kai-config")

    on_a_bad_day(story, plan.wrap)
