"""What there is to do for a key: the objects gathered from the local copies, and the decision."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.informer import Informer
from muster.client.kinds import Plain, header
from muster.runtime.supervisor import Supervisor
from muster.sim.amounts import texts
from muster.sim.quota import used_by
from muster.sim.workloads import (
    budgets,
    claims,
    cronjobs,
    deployments,
    jobs,
    nodes,
    replicasets,
    statefulsets,
    volumes,
)
from muster.sim.workloads.actions import Action, status_patch
from muster.sim.workloads.objects import (
    BUDGET,
    CLAIM,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    LEASE,
    NODE,
    POD,
    QUOTA,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME,
    condition_of,
    controller_of,
)

Plan = tuple[list[Action], float | None]

LEASE_NAMESPACE: Final = "kube-node-lease"
# What quotas count, beside pods.
COUNTED: Final = (CLAIM, JOB, CRON_JOB, DEPLOYMENT, STATEFUL_SET, REPLICA_SET)
_NOTHING: Final[Plan] = ([], None)


class Plans:
    """Informers of every kind that the controllers read, and one method for each controller."""

    def __init__(self, supervisor: Supervisor, clock: Clock) -> None:
        self._clock = clock
        self._copies: dict[str, Informer[Plain]] = {}
        self._supervisor = supervisor
        self.pods = self.copy_of(POD)
        self.by_owner = {
            kind.full_name: self.copy_of(kind).add_index(_owner_uids)
            for kind in (POD, REPLICA_SET, JOB, RESOURCE_CLAIM)
        }
        self.claims_by_user = self.copy_of(RESOURCE_CLAIM).add_index(_user_uids)
        self.pods_by_node = self.pods.add_index(_node_names)
        self.pods_by_namespace = self.pods.add_index(_namespaces)
        self.budgets_by_namespace = self.copy_of(BUDGET).add_index(_namespaces)
        self.quotas_by_namespace = self.copy_of(QUOTA).add_index(_namespaces)
        for kind in (NODE, LEASE, STORAGE_CLASS, VOLUME, RESOURCE_CLAIM_TEMPLATE, *COUNTED):
            self.copy_of(kind)

    def copy_of(self, kind: Kind[Plain]) -> Informer[Plain]:
        if kind.full_name not in self._copies:
            self._copies[kind.full_name] = self._supervisor.informer(kind)
        return self._copies[kind.full_name]

    @property
    def copies(self) -> Mapping[str, Informer[Plain]]:
        return self._copies

    def replica_set(self, key: Key) -> Plan:
        found = self.copy_of(REPLICA_SET).get(key)
        if found is None:
            return _NOTHING
        return replicasets.decide(found, self._owned(POD, found), self._now_s)

    def deployment(self, key: Key) -> Plan:
        found = self.copy_of(DEPLOYMENT).get(key)
        if found is None:
            return _NOTHING
        return deployments.decide(found, self._owned(REPLICA_SET, found), self._now_s), None

    def stateful_set(self, key: Key) -> Plan:
        found = self.copy_of(STATEFUL_SET).get(key)
        if found is None:
            return _NOTHING
        there = self.copy_of(CLAIM).objects
        return statefulsets.decide(found, self._owned(POD, found), there, self._now_s)

    def job(self, key: Key) -> Plan:
        found = self.copy_of(JOB).get(key)
        if found is None:
            return _NOTHING
        return jobs.decide(found, self._owned(POD, found), self._now_s)

    def cron_job(self, key: Key) -> Plan:
        found = self.copy_of(CRON_JOB).get(key)
        if found is None:
            return _NOTHING
        return cronjobs.decide(found, self._owned(JOB, found), self._now_s)

    def budget(self, key: Key) -> Plan:
        found = self.copy_of(BUDGET).get(key)
        if found is None:
            return _NOTHING
        pods = self.pods_by_namespace.get(key.namespace)
        covered = [pod for pod in pods if budgets.covers(found, pod)]
        return budgets.decide(found, covered, self._expected(covered), self._now_s), None

    def quota(self, key: Key) -> Plan:
        found = self.copy_of(QUOTA).get(key)
        if found is None:
            return _NOTHING
        objects = [("pods", pod) for pod in self.pods_by_namespace.get(key.namespace)]
        for kind in COUNTED:
            there = self.copy_of(kind).objects.values()
            same = (obj for obj in there if obj["metadata"]["namespace"] == key.namespace)
            objects += [(kind.full_name, obj) for obj in same]
        hard = (found.get("spec") or {}).get("hard") or {}
        status = {"hard": dict(hard), "used": texts(used_by(found, objects))}
        return status_patch(QUOTA, found, status), None

    def node(self, key: Key) -> Plan:
        found = self.copy_of(NODE).get(key)
        pods = self.pods_by_node.get(key.name)
        if found is None:
            return nodes.orphans(pods, frozenset()), None
        lease = self.copy_of(LEASE).get(Key(LEASE_NAMESPACE, key.name))
        return nodes.decide(found, lease, pods, self._now_s)

    def claim(self, key: Key) -> Plan:
        found = self.copy_of(CLAIM).get(key)
        if found is None:
            return _NOTHING
        class_name = found["spec"].get("storageClassName") or ""
        storage_class = self.copy_of(STORAGE_CLASS).get(Key("", class_name))
        there = list(self.copy_of(VOLUME).objects.values())
        return volumes.decide_claim(found, there, storage_class), None

    def volume(self, key: Key) -> Plan:
        found = self.copy_of(VOLUME).get(key)
        if found is None:
            return _NOTHING
        there: Mapping[Any, Plain] = self.copy_of(CLAIM).objects
        return volumes.decide_volume(found, there), None

    def pod_claims(self, key: Key) -> Plan:
        pod = self.pods.get(key)
        if pod is None:
            return _NOTHING
        templates = self.copy_of(RESOURCE_CLAIM_TEMPLATE).objects
        own = self._owned(RESOURCE_CLAIM, pod)
        return claims.decide(pod, templates, own, self.copy_of(CLAIM).objects), None

    def device_claim(self, key: Key) -> Plan:
        found = self.copy_of(RESOURCE_CLAIM).get(key)
        if found is None:
            return _NOTHING
        return claims.decide_claim(found, self.pods.objects), None

    def is_ready(self, node: str) -> bool:
        found = self.copy_of(NODE).get(Key("", node))
        return found is not None and condition_of(found, "Ready").get("status") == "True"

    @property
    def _now_s(self) -> float:
        return self._clock.now_s()

    def _owned(self, kind: Kind[Plain], owner: Plain) -> list[Plain]:
        return self.by_owner[kind.full_name].get(owner["metadata"]["uid"])

    def _expected(self, pods: Iterable[Plain]) -> int:
        """How many pods the controllers of these pods want in all."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                wanted[pod["metadata"]["uid"]] = 1
            elif owner["uid"] not in wanted:
                wanted[owner["uid"]] = self._replicas(pod["metadata"]["namespace"], owner)
        return sum(wanted.values())

    def _replicas(self, namespace: str, owner: Mapping[str, Any]) -> int:
        kind = _SCALED.get(str(owner["kind"]))
        found = self.copy_of(kind).get(Key(namespace, str(owner["name"]))) if kind else None
        spec = (found or {}).get("spec") or {}
        count = spec.get("parallelism" if kind is JOB else "replicas")
        return 1 if count is None else int(count)


_SCALED: Final = {"ReplicaSet": REPLICA_SET, "StatefulSet": STATEFUL_SET, "Job": JOB}


def _owner_uids(obj: Plain) -> Iterable[str]:
    owner = controller_of(obj)
    return (str(owner["uid"]),) if owner is not None else ()


def _node_names(pod: Plain) -> Iterable[str]:
    name = pod["spec"].get("nodeName")
    return (str(name),) if name else ()


def _namespaces(obj: Plain) -> Iterable[str]:
    return (header(obj).key.namespace,)


def _user_uids(claim: Plain) -> Iterable[str]:
    return [one["uid"] for one in (claim.get("status") or {}).get("reservedFor") or ()]
