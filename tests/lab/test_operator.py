"""The operator on the laptop cluster, with its own account and no more rights than it has."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.lab import DEFINITION, DEPLOYMENT, POD, QUEUE

from muster.api.crds import DEFINITIONS, manifest
from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.base.clock import Clock
from muster.client.errors import NotFound
from muster.client.kinds import Plain, plain_kind
from muster.client.write import PatchType
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.hosting import NAMESPACE, HostedService, ensure
from muster.lab.virtual_loop import run_virtually
from muster.runtime.supervisor import Supervisor
from muster.services.operator import roles, wiring
from muster.services.operator.objects import (
    ACCOUNT,
    CONFIG_MAP,
    MADE,
    OPTIONAL,
    PRIORITY_CLASS,
    ROLE,
    SECRET,
    SERVICE,
    SERVICE_MONITOR,
    VALIDATING,
)
from muster.services.operator.settings import Release
from muster.sim.kubelet.nodes import NodeGroup

CONFIG = plain_kind("kai.scheduler", "v1", "Config", "configs", namespaced=False)
SHARD = plain_kind("kai.scheduler", "v1", "SchedulingShard", "schedulingshards", namespaced=False)
HERE = DEFAULT.namespace
OPERATOR = "operator"


@dataclass(slots=True)
class Site:
    """A cluster with an operator."""

    cluster: Cluster
    clock: Clock

    async def create(self, kind: Any, name: str, namespace: str = "", **fields: Any) -> Plain:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        made: Plain = await self.cluster.writer.create(kind, {**body, **fields}, namespace)
        return made

    async def get(self, kind: Any, name: str, namespace: str = HERE) -> Plain | None:
        key = Key(namespace if kind.namespaced else "", name)
        try:
            found: Plain = await self.cluster.reader.get(kind, key)
        except NotFound:
            return None
        return found

    async def patch(self, kind: Any, name: str, patch: Mapping[str, Any]) -> None:
        key = Key(HERE if kind.namespaced else "", name)
        await self.cluster.writer.patch(kind, key, patch, PatchType.MERGE)

    async def delete(self, kind: Any, name: str) -> None:
        await self.cluster.writer.delete(kind, Key(HERE if kind.namespaced else "", name))

    async def until(self, so: Callable[[], Awaitable[bool]], why: str = "") -> None:
        """Wait until something is so, while pods find their nodes."""
        for _ in range(300):
            await self.place_pods()
            if await so():
                return
            await self.clock.sleep(1.0)
        raise AssertionError(f"not so within 300 s: {why or so}")

    async def until_ready(self, kind: Any, name: str) -> None:
        async def ready() -> bool:
            found = await self.get(kind, name) or {}
            listed = (found.get("status") or {}).get("conditions", ())
            generation = found["metadata"]["generation"]
            return ("Ready", "True", generation) in [
                (one["type"], one["status"], one["observedGeneration"]) for one in listed
            ]

        await self.until(ready, f"{kind.kind} {name} is ready")

    async def conditions(self, kind: Any, name: str) -> dict[str, str]:
        found = await self.get(kind, name) or {}
        listed = (found.get("status") or {}).get("conditions", ())
        return {one["type"]: one["status"] for one in listed}

    def writes(self) -> int:
        return sum(line.who == OPERATOR for line in self.cluster.write_log)

    async def owned(self) -> set[str]:
        """Everything that belongs to Config or a shard."""
        return {name for name, owners in (await self.there()).items() if owners & _OWNERS}

    async def there(self) -> dict[str, set[str]]:
        """Everything of the kinds that the operator makes, and the kinds of its owners."""
        return {
            f"{kind.kind} {one['metadata']['name']}": {
                each["kind"] for each in one["metadata"].get("ownerReferences", ())
            }
            for kind in MADE
            if kind not in OPTIONAL
            for one in (await self.cluster.reader.list(kind)).objects
        }

    async def place_pods(self) -> None:
        """What kube-scheduler would do."""
        for pod in (await self.cluster.reader.list(POD)).objects:
            is_ours = pod["spec"]["schedulerName"] == "default-scheduler"
            if is_ours and not pod["spec"].get("nodeName"):
                meta = pod["metadata"]
                await self.cluster.writer.bind(Key(meta["namespace"], meta["name"]), "node-0")


def operator_service() -> HostedService:
    return HostedService(OPERATOR, build_operator, roles.rights(DEFAULT))


def build_operator(supervisor: Supervisor) -> None:
    release = Release("registry.example", "1.0")
    wiring.build(supervisor, wiring.OperatorServiceConfig(release=release))


def on_site(story: Callable[[Site], Awaitable[None]], *, starts: bool = True) -> None:
    async def main(clock: Clock) -> None:
        plan = ClusterPlan(nodes=(NodeGroup("node", count=2),))
        async with Cluster(plan, clock=clock) as cluster:
            for definition in DEFINITIONS:
                await ensure(cluster.writer, DEFINITION, manifest(definition))
            await ensure(cluster.writer, NAMESPACE, {"metadata": {"name": HERE}})
            site = Site(cluster, clock)
            if starts:
                await cluster.start(operator_service())
            await story(site)

    run_virtually(main)


_OWNERS = {"Config", "SchedulingShard"}


async def install(site: Site, **spec: Any) -> None:
    await site.create(CONFIG, "kai-config", spec=spec)
    await site.create(SHARD, "default", spec={})
    await site.until_ready(CONFIG, "kai-config")
    await site.until_ready(SHARD, "default")


@pytest.mark.row(80)
def test_config_and_a_shard_become_a_product_and_then_nothing_is_written() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.cluster.settled()
        before = site.writes()
        await site.clock.sleep(3600.0)
        assert site.writes() == before
        assert (await site.conditions(CONFIG, "kai-config"))["Reconciling"] == "False"

    on_site(story)


def test_an_operator_that_starts_anew_finds_nothing_to_write() -> None:
    async def story(site: Site) -> None:
        await install(site, binder={"service": {"resources": {"limits": {"cpu": "1000m"}}}})
        await site.cluster.settled()
        before = site.writes()
        await site.cluster.kill(OPERATOR)
        await site.cluster.start(operator_service())
        await site.clock.sleep(600.0)
        assert site.writes() == before

    on_site(story)


def test_webhooks_are_registered_only_once_somebody_answers_them() -> None:
    async def story(site: Site) -> None:
        await site.create(CONFIG, "kai-config", spec={})
        await site.clock.sleep(60.0)  # No pod has a node yet.
        assert await site.get(DEPLOYMENT, "admission") is not None
        assert await site.get(VALIDATING, "validating-kai-admission") is None
        conditions = await site.conditions(CONFIG, "kai-config")
        assert (conditions["Deployed"], conditions["Ready"]) == ("False", "False")
        await site.until_ready(CONFIG, "kai-config")
        hooks = await site.get(VALIDATING, "validating-kai-admission")
        secret = await site.get(SECRET, "kai-admission-webhook-ca")
        assert hooks is not None
        assert secret is not None
        assert hooks["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]

    on_site(story)


def test_what_somebody_changes_by_hand_is_set_right() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.patch(DEPLOYMENT, "binder", {"spec": {"replicas": 5}})
        await site.delete(SERVICE, "admission")
        await site.delete(DEPLOYMENT, "pod-grouper")

        async def right() -> bool:
            binder = await site.get(DEPLOYMENT, "binder")
            others = await site.get(SERVICE, "admission"), await site.get(DEPLOYMENT, "pod-grouper")
            return binder is not None and binder["spec"]["replicas"] == 1 and all(others)

        await site.until(right)
        await site.until_ready(CONFIG, "kai-config")

    on_site(story)


@pytest.mark.row(110)
def test_a_shard_comes_and_goes_with_its_scheduler_and_nothing_else() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.create(SERVICE, "neighbour", HERE, spec={"ports": [{"port": 1}]})
        await site.cluster.settled()
        before = await site.owned()
        await site.create(SHARD, "a100", spec={"partitionLabelValue": "a100"})
        await site.until_ready(SHARD, "a100")
        assert {
            "Deployment kai-scheduler-a100",
            "ConfigMap kai-scheduler-a100",
            "Service kai-scheduler-a100",
        } <= await site.owned() - before
        role = await site.get(ROLE, "muster-scheduler")
        assert role is not None
        assert "kai-scheduler-a100" in str(role["rules"])
        await site.delete(SHARD, "a100")

        async def gone() -> bool:
            return await site.owned() == before

        await site.until(gone)
        assert await site.get(SERVICE, "neighbour") is not None

    on_site(story)


@pytest.mark.row(110)
def test_a_service_that_is_switched_off_is_removed_and_comes_back() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.create(CONFIG_MAP, "foreign", HERE, data={"a": "b"})
        off = {"spec": {"admission": {"service": {"enabled": False}}}}
        await site.patch(CONFIG, "kai-config", off)

        async def gone() -> bool:
            hooks = await site.get(VALIDATING, "validating-kai-admission")
            return hooks is None and await site.get(DEPLOYMENT, "admission") is None

        await site.until(gone)
        await site.patch(CONFIG, "kai-config", {"spec": {"admission": None}})
        await site.until_ready(CONFIG, "kai-config")
        assert await site.get(DEPLOYMENT, "admission") is not None
        assert await site.get(CONFIG_MAP, "foreign") is not None

    on_site(story)


def test_a_setting_that_is_taken_back_is_taken_back_everywhere() -> None:
    async def story(site: Site) -> None:
        await install(site, **{"global": {"nodeSelector": {"disk": "ssd"}}})
        await site.patch(CONFIG, "kai-config", {"spec": {"global": None}})

        async def plain() -> bool:
            binder = await site.get(DEPLOYMENT, "binder")
            assert binder is not None
            return "nodeSelector" not in binder["spec"]["template"]["spec"]

        await site.until(plain)
        await site.until_ready(CONFIG, "kai-config")

    on_site(story)


def test_a_shard_that_cannot_be_used_says_so_and_its_scheduler_runs_on() -> None:
    async def story(site: Site) -> None:
        await install(site)
        bad = {"spec": {"queueDepthPerAction": {"guess": 3}}}
        await site.patch(SHARD, "default", bad)

        async def told() -> bool:
            return (await site.conditions(SHARD, "default"))["Deployed"] == "False"

        await site.until(told)
        shard = await site.get(SHARD, "default")
        assert shard is not None
        assert "spec.queueDepthPerAction[guess]" in str(shard["status"])
        assert await site.get(DEPLOYMENT, "kai-scheduler-default") is not None
        await site.patch(SHARD, "default", {"spec": {"queueDepthPerAction": None}})
        await site.until_ready(SHARD, "default")

    on_site(story)


def test_a_shard_of_an_unknown_profile_says_so_and_holds_nobody_up() -> None:
    async def story(site: Site) -> None:
        await install(site)
        spec = {"partitionLabelValue": "b", "args": {"profile": "nosuch"}}
        await site.create(SHARD, "b", spec=spec)

        async def told() -> bool:
            return "spec.args[profile]" in str(await site.get(SHARD, "b"))

        await site.until(told)
        await site.create(SHARD, "c", spec={"partitionLabelValue": "c"})
        await site.until_ready(SHARD, "c")
        assert await site.get(DEPLOYMENT, "kai-scheduler-b") is None

    on_site(story)


def test_of_two_shards_with_one_pool_the_younger_says_so_and_has_it_after_the_older() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.create(SHARD, "older", spec={"partitionLabelValue": "b"})
        await site.until_ready(SHARD, "older")
        await site.create(SHARD, "a-younger", spec={"partitionLabelValue": "b"})
        await site.until(lambda: _says(site, "a-younger", "the same nodes as shard older"))
        assert await site.get(DEPLOYMENT, "kai-scheduler-a-younger") is None
        assert (await site.conditions(SHARD, "older"))["Ready"] == "True"
        await site.delete(SHARD, "older")
        await site.until_ready(SHARD, "a-younger")

        async def gone() -> bool:
            return await site.get(DEPLOYMENT, "kai-scheduler-older") is None

        await site.until(gone)

    on_site(story)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"kValue": -1}, "spec.kValue"),
        ({"queueDepthPerAction": {"reclaim": -1}}, "spec.queueDepthPerAction[reclaim]"),
        ({"args": {"burst": "-1"}}, "spec.args[burst]"),
        ({"args": {"journal-size-max-bytes": "-1"}}, "spec.args[journal-size-max-bytes]"),
        ({"goMemLimit": "-1Gi"}, "spec.goMemLimit"),
        (
            {"scenarioSearchBudgets": {"maxJobSearchDuration": "-1s"}},
            "spec.scenarioSearchBudgets.maxJobSearchDuration",
        ),
    ],
    ids=str,
)
def test_a_number_below_what_can_be_is_named_and_what_runs_goes_on(spec: Plain, field: str) -> None:
    async def story(site: Site) -> None:
        await install(site)
        before = await site.owned()
        await site.patch(SHARD, "default", {"spec": spec})
        await site.until(lambda: _says(site, "default", field))
        assert await site.owned() == before

    on_site(story)


def test_without_a_config_no_shard_says_that_it_is_ready() -> None:
    async def story(site: Site) -> None:
        await site.create(SHARD, "default", spec={})
        await site.until(lambda: _says(site, "default", "there is no Config kai-config"))
        await site.create(CONFIG, "kai-config", spec={})
        await site.until_ready(SHARD, "default")
        await site.delete(CONFIG, "kai-config")
        await site.until(lambda: _says(site, "default", "there is no Config kai-config"))
        assert (await site.conditions(SHARD, "default"))["Ready"] == "False"
        before = site.writes()
        await site.clock.sleep(3600.0)
        assert site.writes() == before

    on_site(story)


def test_beside_a_config_that_cannot_be_used_a_new_shard_says_what_it_waits_for() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.patch(CONFIG, "kai-config", {"spec": {"global": {"replicaCount": -1}}})
        await site.create(SHARD, "b", spec={"partitionLabelValue": "b"})
        await site.until(lambda: _says(site, "b", "Config kai-config cannot be used"))
        assert (await site.conditions(SHARD, "default"))["Ready"] == "True", "it runs on"
        await site.patch(CONFIG, "kai-config", {"spec": {"global": None}})
        await site.until_ready(SHARD, "b")

    on_site(story)


async def _says(site: Site, shard: str, text: str) -> bool:
    found = await site.get(SHARD, shard)
    return text in str((found or {}).get("status"))


def test_a_config_that_cannot_be_used_changes_nothing() -> None:
    async def story(site: Site) -> None:
        await install(site)
        before = await site.owned()
        await site.patch(CONFIG, "kai-config", {"spec": {"binder": {"metricsPort": 0}}})

        async def told() -> bool:
            return (await site.conditions(CONFIG, "kai-config"))["Ready"] == "False"

        await site.until(told)
        assert await site.owned() == before
        await site.patch(CONFIG, "kai-config", {"spec": {"binder": None}})
        await site.until_ready(CONFIG, "kai-config")

    on_site(story)


@pytest.mark.row(110)
def test_a_config_that_nobody_reads_says_so_once() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.create(CONFIG, "another", spec={"namespace": "elsewhere"})

        async def told() -> bool:
            found = await site.get(CONFIG, "another")
            return "only kai-config is read" in str((found or {}).get("status"))

        await site.until(told)
        assert (await site.conditions(CONFIG, "another"))["Ready"] == "False"
        await site.until_ready(CONFIG, "kai-config")
        before = site.writes()
        await site.clock.sleep(3600.0)
        assert site.writes() == before

    on_site(story)


def test_what_config_made_goes_with_it_and_what_others_need_stays() -> None:
    async def story(site: Site) -> None:
        before = {*await site.there()}
        await install(site)
        assert {"Deployment binder", "Deployment kai-scheduler-default"} <= await site.owned()
        await site.delete(SHARD, "default")
        await site.delete(CONFIG, "kai-config")

        async def gone() -> bool:
            return not await site.owned()

        await site.until(gone)
        assert {*await site.there()} == before, "whatever it belonged to"
        assert await site.get(NAMESPACE, DEFAULT.reservation_namespace) is not None
        assert await site.get(PRIORITY_CLASS, "train") is not None

    on_site(story)


def test_a_certificate_that_was_lost_is_issued_anew() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.clock.sleep(60.0)  # Nothing is under way any more that would see it by chance.
        first = await site.get(SECRET, "kai-admission-webhook-tls-secret")
        await site.delete(SECRET, "kai-admission-webhook-tls-secret")

        async def back() -> bool:
            return await site.get(SECRET, "kai-admission-webhook-tls-secret") is not None

        await site.clock.sleep(300.0)
        await site.until(back)
        second = await site.get(SECRET, "kai-admission-webhook-tls-secret")
        assert first is not None
        assert second is not None
        assert first["data"]["tls.crt"] != second["data"]["tls.crt"]
        assert b"PRIVATE KEY" in base64.b64decode(second["data"]["tls.key"])

    on_site(story)


def test_kinds_of_others_are_made_when_the_cluster_comes_to_serve_them() -> None:
    async def story(site: Site) -> None:
        await install(site)
        await site.clock.sleep(60.0)  # Nothing is under way any more that would see it by chance.
        await ensure(site.cluster.writer, DEFINITION, _definition(SERVICE_MONITOR))
        await site.clock.sleep(600.0)
        assert await site.get(SERVICE_MONITOR, "queue-controller") is not None

    on_site(story)


def _definition(kind: Any) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "metadata": {"name": kind.full_name},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": kind.plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def test_the_first_config_shard_and_queues_are_made_once_and_never_again() -> None:
    async def story(site: Site) -> None:
        def build(supervisor: Supervisor) -> None:
            release = Release("registry.example", "1.0")
            config = wiring.OperatorServiceConfig(release=release, makes_defaults=True)
            wiring.build(supervisor, config)

        service = HostedService(OPERATOR, build, roles.rights(DEFAULT, makes_defaults=True))
        await site.cluster.start(service)

        async def made() -> bool:
            return await site.get(CONFIG, "kai-config") is not None

        await site.until(made)
        await site.until_ready(CONFIG, "kai-config")
        await site.until_ready(SHARD, "default")
        assert await site.get(QUEUE, "default-queue") is not None
        await site.delete(SHARD, "default")
        await site.delete(CONFIG, "kai-config")
        await site.cluster.kill(OPERATOR)
        await site.cluster.start(service)
        await site.clock.sleep(60.0)
        assert await site.get(CONFIG, "kai-config") is None, "somebody removed it on purpose"
        assert await site.get(SHARD, "default") is None

    on_site(story, starts=False)


def test_what_kais_operator_left_is_taken_over_in_place() -> None:
    async def story(site: Site) -> None:
        config = await site.create(CONFIG, "kai-config", spec=_kais_config())
        await site.create(SHARD, "default", spec={})
        kept = await _leave_as_kai(site, config)
        await site.cluster.start(operator_service())
        await site.until_ready(CONFIG, "kai-config")
        await site.until_ready(SHARD, "default")
        binder = await site.get(DEPLOYMENT, "binder")
        assert binder is not None
        assert binder["metadata"]["uid"] == kept["binder"], "changed in place, not made anew"
        (container,) = binder["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "registry.example/muster:1.0"
        assert "env" not in container
        assert binder["spec"]["strategy"]["type"] == "RollingUpdate"
        hooks = await site.get(VALIDATING, "kai-queue-validation-v2")
        assert hooks is not None
        assert hooks["metadata"]["uid"] == kept["hooks"]
        assert hooks["webhooks"][0]["clientConfig"]["service"]["name"] == "admission"
        # Of several API servers one may not have heard yet whom it is to ask now.
        assert min(_written_s(site, _ASKED_BEFORE)) - max(_written_s(site, _HOOKS)) >= 10.0
        assert await site.get(DEPLOYMENT, "numa-placement-exporter") is None, "ours has none"
        account = await site.get(ACCOUNT, "binder")
        assert account is not None
        assert account["metadata"]["uid"] == kept["account"], "tokens of running pods stay good"

    on_site(story, starts=False)


_HOOKS = "validatingwebhookconfigurations/kai-queue"
_ASKED_BEFORE = "deployments/queue-controller"


def _written_s(site: Site, name: str) -> list[float]:
    """When the operator wrote what is called so."""
    return [
        line.at_s for line in site.cluster.write_log if line.who == OPERATOR and name in line.path
    ]


@pytest.mark.parametrize("pause_s", [0.0, 3.0])
def test_who_kais_webhooks_asked_outlives_an_operator_that_ends_while_they_move(
    pause_s: float,
) -> None:
    async def story(site: Site) -> None:
        config = await site.create(CONFIG, "kai-config", spec=_kais_config())
        await site.create(SHARD, "default", spec={})
        await _leave_as_kai(site, config)
        await site.cluster.start(operator_service())

        async def moved() -> bool:
            hooks = await site.get(VALIDATING, "kai-queue-validation-v2")
            assert hooks is not None
            client = hooks["webhooks"][0]["clientConfig"]
            return bool(client["service"]["name"] == "admission")

        await site.until(moved)
        await site.cluster.kill(OPERATOR)
        await site.clock.sleep(pause_s)
        await site.cluster.start(operator_service())
        await site.until_ready(CONFIG, "kai-config")
        assert min(_written_s(site, _ASKED_BEFORE)) - max(_written_s(site, _HOOKS)) >= 10.0

    on_site(story, starts=False)


def _kais_config() -> dict[str, Any]:
    image = {"repository": "elsewhere/kai", "name": "binder", "tag": "v0.17.0"}
    return {"namespace": HERE, "binder": {"service": {"enabled": True, "image": image}}}


async def _leave_as_kai(site: Site, config: Plain) -> dict[str, str]:
    owner = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "name": "kai-config",
        "uid": config["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    uids = {}
    for name in ("binder", "numa-placement-exporter", "queue-controller"):
        app = {"app": name}
        container = {
            "name": name,
            "image": f"elsewhere/kai/{name}:v0.17.0",
            "args": ["--old"],
            "env": [{"name": "GOGC", "value": "400"}],
        }
        spec = {
            "selector": {"matchLabels": app},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": app}, "spec": {"containers": [container]}},
        }
        meta = {"name": name, "labels": app, "ownerReferences": [owner]}
        made = await site.create(DEPLOYMENT, name, HERE, metadata=meta, spec=spec)
        uids[name] = made["metadata"]["uid"]
    meta = {"name": "binder", "ownerReferences": [owner]}
    account = await site.create(ACCOUNT, "binder", HERE, metadata=meta)
    hook = {
        "name": "queue-validation.kai.scheduler",
        "clientConfig": {"service": {"name": "queue-controller", "namespace": HERE}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    meta = {"name": "kai-queue-validation-v2", "ownerReferences": [owner]}
    hooks = await site.create(VALIDATING, "", metadata=meta, webhooks=[hook])
    return {
        "binder": uids["binder"],
        "account": account["metadata"]["uid"],
        "hooks": hooks["metadata"]["uid"],
    }
