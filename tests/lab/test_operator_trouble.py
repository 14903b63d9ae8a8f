"""The operator under faults, and from one release to another and back."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.lab.test_operator import CONFIG, HERE, OPERATOR, SHARD, Site, install, operator_service
from tests.support.lab import DEFINITION, DEPLOYMENT

from muster.api.codec import Status
from muster.api.crds import DEFINITIONS, manifest
from muster.api.names import (
    DEFAULT,
    DEFAULTS_CONFIG_MAP,
    SECRET_WEBHOOK_CA,
    SECRET_WEBHOOK_TLS,
)
from muster.base.clock import Clock
from muster.client.errors import Unreachable, described, status_error
from muster.client.transport import Request, Response, Transport
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.hosting import NAMESPACE, HostedService, Wrap, ensure
from muster.lab.virtual_loop import run_virtually
from muster.runtime.supervisor import Supervisor
from muster.services.operator import roles, wiring
from muster.services.operator.objects import MADE, OPTIONAL, SECRET
from muster.services.operator.settings import Release
from muster.sim.kubelet.nodes import NodeGroup


@dataclass(slots=True)
class _Striking:
    """Lets one write of the operator fail: before it arrives, or after it was done."""

    strikes: int
    after: bool
    seen: int = 0

    def wrap(self, who: str, transport: Transport, _: Clock) -> Transport:
        return _Struck(transport, self) if who == OPERATOR else transport


@dataclass(frozen=True, slots=True)
class _Struck:
    _inner: Transport
    _plan: _Striking = field(repr=False)

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        is_struck = False
        if request.method != "GET":
            self._plan.seen += 1
            is_struck = self._plan.seen == self._plan.strikes
        if is_struck and not self._plan.after:
            raise Unreachable("struck before it arrived")
        response = await self._inner.send(request, timeout_s)
        if is_struck:
            raise Unreachable("struck after it was done")
        return response

    async def close(self) -> None:
        await self._inner.close()


def on_a_bad_day(story: Callable[[Site], Awaitable[None]], wrap: Wrap) -> None:
    async def main(clock: Clock) -> None:
        plan = ClusterPlan(nodes=(NodeGroup("node", count=2),), wrap=wrap)
        async with Cluster(plan, clock=clock) as cluster:
            for definition in DEFINITIONS:
                await ensure(cluster.writer, DEFINITION, manifest(definition))
            await ensure(cluster.writer, NAMESPACE, {"metadata": {"name": HERE}})
            await story(Site(cluster, clock))

    run_virtually(main)


async def _contents(site: Site) -> dict[str, Any]:
    """Everything that belongs to the installation, as far as we decide it."""
    found: dict[str, Any] = {}
    for kind in MADE:
        if kind in OPTIONAL or kind is SECRET:
            continue
        for one in (await site.cluster.reader.list(kind)).objects:
            if one["metadata"].get("ownerReferences"):
                meta = one["metadata"]
                body = {key: value for key, value in one.items() if key not in ("status",)}
                body["metadata"] = {
                    "labels": meta.get("labels"),
                    "applied": (meta.get("annotations") or {}).get("kai.scheduler/applied-fields"),
                }
                text = json.dumps(body, sort_keys=True)
                found[f"{kind.kind} {meta.get('namespace', '')}/{meta['name']}"] = text
    return found


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answer lost"])
@pytest.mark.parametrize("strikes", [1, 2, 9, 25, 40, 60, 72])
def test_a_write_that_fails_is_made_up_for(strikes: int, after: bool) -> None:
    plan = _Striking(strikes, after)

    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await install(site)
        assert plan.seen > strikes, "the write was made"
        await site.cluster.settled()
        before = site.writes()
        await site.clock.sleep(600.0)
        assert site.writes() == before

    on_a_bad_day(story, plan.wrap)


@dataclass(frozen=True, slots=True)
class _Closed:
    """Never lets the operator write what has this in its path."""

    _inner: Transport
    _is_closed: Callable[[], bool] = lambda: True
    _path: str = "/networkpolicies"

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        is_write = request.method != "GET" and self._path in request.path
        if is_write and self._is_closed():
            raise Unreachable("struck")
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


def test_what_cannot_be_written_is_named_and_holds_up_nothing_else() -> None:
    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await site.create(CONFIG, "kai-config", spec={})
        await site.create(SHARD, "default", spec={})

        async def running() -> bool:
            return await site.get(DEPLOYMENT, "kai-scheduler-default") is not None

        await site.until(running)
        await site.clock.sleep(30.0)
        config = await site.get(CONFIG, "kai-config")
        assert config is not None
        conditions = {one["type"]: one for one in config["status"]["conditions"]}
        assert conditions["Deployed"]["status"] == "False"
        assert "NetworkPolicy kai-scheduler/binder" in conditions["Deployed"]["message"]
        assert conditions["Ready"]["status"] == "False"

    on_a_bad_day(story, lambda who, inner, _: _Closed(inner) if who == OPERATOR else inner)


def test_nothing_is_removed_for_an_owner_of_whom_something_could_not_be_written() -> None:
    """What replaces it may be what is missing."""
    is_closed = False

    def wrap(who: str, inner: Transport, _: Clock) -> Transport:
        return _Closed(inner, lambda: is_closed) if who == OPERATOR else inner

    async def story(site: Site) -> None:
        nonlocal is_closed
        await site.cluster.start(operator_service())
        await install(site)
        is_closed = True
        network = {"binder": {"metricsPort": 8090}}
        away = {"nodeScaleAdjuster": {"service": {"enabled": False}}}
        await site.patch(CONFIG, "kai-config", {"spec": {**network, **away}})

        async def told() -> bool:
            return "NetworkPolicy kai-scheduler/binder" in str(await site.get(CONFIG, "kai-config"))

        await site.until(told)
        await site.clock.sleep(60.0)
        assert await site.get(DEPLOYMENT, "node-scale-adjuster") is not None
        is_closed = False
        await site.until_ready(CONFIG, "kai-config")
        assert await site.get(DEPLOYMENT, "node-scale-adjuster") is None

    on_a_bad_day(story, wrap)


def test_no_certificate_is_there_without_the_authority_that_signed_it() -> None:
    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await site.create(CONFIG, "kai-config", spec={})

        async def told() -> bool:
            return f"Secret {HERE}/{SECRET_WEBHOOK_CA}" in str(await site.get(CONFIG, "kai-config"))

        await site.until(told)
        assert await site.get(SECRET, SECRET_WEBHOOK_TLS) is None

    def wrap(who: str, inner: Transport, _: Clock) -> Transport:
        path = f"/{SECRET_WEBHOOK_CA}"
        return _Closed(inner, _path=path) if who == OPERATOR else inner

    on_a_bad_day(story, wrap)


@dataclass(slots=True)
class _Failing:
    """While it is on, whatever the operator asks of what has this in its path raises."""

    path: str
    error: Exception
    is_on: bool = True
    raised: int = 0

    def wrap(self, who: str, inner: Transport, _: Clock) -> Transport:
        return _Failed(inner, self) if who == OPERATOR else inner


@dataclass(frozen=True, slots=True)
class _Failed:
    _inner: Transport
    _plan: _Failing

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if self._plan.is_on and self._plan.path in request.path:
            self._plan.raised += 1
            raise self._plan.error
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(
    "error",
    [KeyError("what nobody foresaw"), status_error(Status(code=500, message="no etcd"))],
    ids=["of ours", "of the server"],
)
def test_an_operator_that_cannot_look_says_so_and_looks_again(error: Exception) -> None:
    plan = _Failing(f"/{SECRET_WEBHOOK_CA}", error, is_on=False)

    async def story(site: Site) -> None:
        await site.cluster.start(operator_service())
        await install(site)
        plan.is_on = True
        await site.create(SHARD, "b", spec={"partitionLabelValue": "b"})

        async def told() -> bool:
            return described(error) in str(await site.get(CONFIG, "kai-config"))

        await site.until(told)
        for kind, name in ((CONFIG, "kai-config"), (SHARD, "b")):
            conditions = await site.conditions(kind, name)
            assert (conditions["Ready"], conditions["Deployed"]) == ("False", "False"), name
        assert (await site.conditions(SHARD, "default"))["Ready"] == "True", "it runs on"
        before = site.writes(), plan.raised
        await site.clock.sleep(3600.0)
        assert site.writes() == before[0], "the same is not said again"
        assert 10 < plan.raised - before[1] < 100, "it tries again, and not all the time"
        plan.is_on = False
        await site.until_ready(CONFIG, "kai-config")
        await site.until_ready(SHARD, "b")

    on_a_bad_day(story, plan.wrap)


def test_the_first_defaults_outlive_an_api_server_in_trouble() -> None:
    error = status_error(Status(code=500, message="no etcd"))
    plan = _Failing(f"/{DEFAULTS_CONFIG_MAP}", error)

    async def story(site: Site) -> None:
        def build(supervisor: Supervisor) -> None:
            release = Release("registry.example", "1.0")
            config = wiring.OperatorServiceConfig(release=release, makes_defaults=True)
            wiring.build(supervisor, config)

        rights = roles.rights(DEFAULT, makes_defaults=True)
        await site.cluster.start(HostedService(OPERATOR, build, rights))
        await site.clock.sleep(600.0)
        assert 5 < plan.raised < 20, "it tries again, and not all the time"
        assert await site.get(CONFIG, "kai-config") is None, "somebody may have removed it"
        plan.is_on = False

        async def made() -> bool:
            return await site.get(CONFIG, "kai-config") is not None

        await site.until(made)
        await site.until_ready(CONFIG, "kai-config")

    on_a_bad_day(story, plan.wrap)


def _service(tag: str) -> HostedService:
    def build(supervisor: Supervisor) -> None:
        release = Release("registry.example", tag)
        wiring.build(supervisor, wiring.OperatorServiceConfig(release=release))

    return HostedService(OPERATOR, build, roles.rights(DEFAULT))


async def _until_released(site: Site, tag: str) -> None:
    async def rolled() -> bool:
        for name in ("binder", "kai-scheduler-default"):
            found = await site.get(DEPLOYMENT, name)
            assert found is not None
            (container,) = found["spec"]["template"]["spec"]["containers"]
            if container["image"] != f"registry.example/muster:{tag}":
                return False
        return True

    await site.until(rolled, f"all run {tag}")
    await site.until_ready(CONFIG, "kai-config")
    await site.until_ready(SHARD, "default")


def test_an_upgrade_changes_images_in_place_and_going_back_leaves_no_trace() -> None:
    async def story(site: Site) -> None:
        await site.cluster.start(_service("1"))
        await install(site)
        first = await _contents(site)
        uids = {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in (await site.cluster.reader.list(DEPLOYMENT)).objects
        }
        for tag in ("2", "1"):
            await site.cluster.stop(OPERATOR)
            await site.cluster.start(_service(tag))
            await _until_released(site, tag)
        assert await _contents(site) == first
        assert uids == {
            one["metadata"]["name"]: one["metadata"]["uid"]
            for one in (await site.cluster.reader.list(DEPLOYMENT)).objects
        }

    on_a_bad_day(story, lambda _, transport, __: transport)
