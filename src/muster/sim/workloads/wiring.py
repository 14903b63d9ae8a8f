"""build(supervisor, writer): every controller of the simulated world, in one function."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.client.informer import Informer
from muster.client.kinds import Plain, header
from muster.client.write import Writer
from muster.runtime.controller import Controller, Pace, own_key
from muster.runtime.reconciler import Result
from muster.runtime.supervisor import Supervisor
from muster.sim.workloads.actions import ActionExecutor
from muster.sim.workloads.objects import (
    BUDGET,
    CLAIM,
    CRON_JOB,
    DAEMON_SET,
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
    controller_of,
)
from muster.sim.workloads.plans import COUNTED, Plan, Plans
from muster.sim.workloads.telling import Teller

# The names of all controllers; `build` can leave some out.
CONTROLLERS: Final = (
    "replicasets",
    "deployments",
    "statefulsets",
    "jobs",
    "cronjobs",
    "budgets",
    "quotas",
    "nodes",
    "volumes",
    "podclaims",
    "deviceclaims",
)
_PACE: Final = Pace(workers=4)


@dataclass(frozen=True, slots=True)
class Planned:
    """A reconciler that executes a plan."""

    plan: Callable[[Key], Plan]
    executor: ActionExecutor

    async def reconcile(self, key: Key) -> Result:
        actions, again_s = self.plan(key)
        await self.executor.do(actions)
        return Result(again_s)


def build(
    supervisor: Supervisor,
    writer: Writer,
    only: Collection[str] = CONTROLLERS,
    schedulers: Sequence[str] = (),
) -> None:
    """Add the named controllers to the supervisor. Who has a recorder hears of pods and Jobs; pods
    without a scheduler are told of the `schedulers` that there are.
    """
    unknown = sorted(set(only) - set(CONTROLLERS))
    if unknown:
        known = ", ".join(CONTROLLERS)
        raise ValueError(f"unknown controllers: {', '.join(unknown)}; there are {known}")
    plans = Plans(supervisor, supervisor.clock)
    executor = ActionExecutor(writer, supervisor.log, plans.copies, supervisor.recorder)
    builder = _Builder(supervisor, plans, executor)
    for name in CONTROLLERS:
        if name in only:
            getattr(builder, name)()
    if supervisor.recorder is not None:
        teller = Teller(supervisor.recorder, tuple(schedulers))
        teller.listen(plans.pods, plans.copy_of(JOB), plans.copy_of(DAEMON_SET))


@dataclass(frozen=True, slots=True)
class _Builder:
    """One method per controller: what it watches, and whose keys that is about."""

    supervisor: Supervisor
    plans: Plans
    executor: ActionExecutor

    def replicasets(self) -> None:
        controller = self._controller("replicasets", self.plans.replica_set, REPLICA_SET)
        controller.watch(self.plans.pods, _owner("ReplicaSet"))

    def deployments(self) -> None:
        controller = self._controller("deployments", self.plans.deployment, DEPLOYMENT)
        controller.watch(self._copy(REPLICA_SET), _owner("Deployment"))

    def statefulsets(self) -> None:
        controller = self._controller("statefulsets", self.plans.stateful_set, STATEFUL_SET)
        controller.watch(self.plans.pods, _owner("StatefulSet"))

    def jobs(self) -> None:
        controller = self._controller("jobs", self.plans.job, JOB)
        controller.watch(self.plans.pods, _owner("Job"))

    def cronjobs(self) -> None:
        controller = self._controller("cronjobs", self.plans.cron_job, CRON_JOB)
        controller.watch(self._copy(JOB), _owner("CronJob"))

    def budgets(self) -> None:
        controller = self._controller("budgets", self.plans.budget, BUDGET)
        for kind in (POD, REPLICA_SET, STATEFUL_SET):
            controller.watch(self._copy(kind), self._budgets_of)

    def quotas(self) -> None:
        controller = self._controller("quotas", self.plans.quota, QUOTA)
        for kind in (POD, *COUNTED):
            controller.watch(self._copy(kind), self._quotas_of)

    def nodes(self) -> None:
        controller = self._controller("nodes", self.plans.node, NODE)
        controller.watch(self.plans.pods, _own_node, _node_changed)
        controller.watch(self._copy(LEASE), _lease_node, self._lease_matters)

    def volumes(self) -> None:
        claims = self._controller("claims", self.plans.claim, CLAIM)
        claims.watch(self._copy(VOLUME), self._claims_of_volume)
        claims.watch(self._copy(STORAGE_CLASS), lambda _: self._unbound_claims())
        volumes = self._controller("volumes", self.plans.volume, VOLUME)
        volumes.watch(self._copy(CLAIM), self._volumes_of_claim)

    def podclaims(self) -> None:
        controller = self._controller("podclaims", self.plans.pod_claims)
        controller.watch(self.plans.pods, own_key, _wants_claims)
        controller.watch(self._copy(RESOURCE_CLAIM), _owner("Pod"))
        controller.watch(self._copy(RESOURCE_CLAIM_TEMPLATE), self._waiting_pods)

    def deviceclaims(self) -> None:
        controller = self._controller("deviceclaims", self.plans.device_claim, RESOURCE_CLAIM)
        controller.watch(self.plans.pods, self._claims_of_pod, _wants_claims)

    def _controller(
        self, name: str, plan: Callable[[Key], Plan], kind: Kind[Plain] | None = None
    ) -> Controller[Key]:
        controller = self.supervisor.controller(name, Planned(plan, self.executor), _PACE)
        if kind is not None:
            controller.watch(self._copy(kind), own_key)
        return controller

    def _copy(self, kind: Kind[Plain]) -> Informer[Plain]:
        return self.plans.copy_of(kind)

    def _budgets_of(self, obj: Plain) -> Iterable[Key]:
        namespace = header(obj).key.namespace
        return [header(each).key for each in self.plans.budgets_by_namespace.get(namespace)]

    def _quotas_of(self, obj: Plain) -> Iterable[Key]:
        namespace = header(obj).key.namespace
        return [header(each).key for each in self.plans.quotas_by_namespace.get(namespace)]

    def _lease_matters(self, old: Plain | None, new: Plain | None) -> bool:
        """A beat of a healthy node changes nothing: a timer watches over the next one."""
        lease = new if new is not None else old
        return old is None or new is None or not self.plans.is_ready(header(lease).key.name)

    def _claims_of_volume(self, volume: Plain) -> Iterable[Key]:
        reference = volume["spec"].get("claimRef")
        if reference:
            return (Key(reference.get("namespace", ""), reference.get("name", "")),)
        return self._unbound_claims()

    def _volumes_of_claim(self, claim: Plain) -> Iterable[Key]:
        """The one that it has, and those that were chosen for it."""
        key, own = header(claim).key, claim["spec"].get("volumeName")
        there = self._copy(VOLUME).objects.items()
        references = [(volume, one["spec"].get("claimRef") or {}) for volume, one in there]
        chosen = [
            volume
            for volume, to in references
            if (to.get("namespace"), to.get("name")) == (key.namespace, key.name)
        ]
        return [*chosen, Key("", str(own))] if own else chosen

    def _unbound_claims(self) -> Iterable[Key]:
        there = self._copy(CLAIM).objects
        return [key for key, claim in there.items() if not claim["spec"].get("volumeName")]

    def _claims_of_pod(self, pod: Plain) -> Iterable[Key]:
        uid = pod["metadata"]["uid"]
        owned = self.plans.by_owner[RESOURCE_CLAIM.full_name].get(uid)
        return [header(one).key for one in (*self.plans.claims_by_user.get(uid), *owned)]

    def _waiting_pods(self, template: Plain) -> Iterable[Key]:
        pods = self.plans.pods_by_namespace.get(header(template).key.namespace)
        return [header(pod).key for pod in pods if pod["spec"].get("resourceClaims")]


def _owner(kind: str) -> Callable[[Plain], Iterable[Key]]:
    """For `watch`: the controller that made an object, if it is of this kind."""

    def keys(obj: Plain) -> Iterable[Key]:
        owner = controller_of(obj)
        if owner is None or owner.get("kind") != kind:
            return ()
        return (Key(header(obj).key.namespace, str(owner["name"])),)

    return keys


def _own_node(pod: Plain) -> Iterable[Key]:
    name = pod["spec"].get("nodeName")
    return (Key("", str(name)),) if name else ()


def _node_changed(old: Plain | None, new: Plain | None) -> bool:
    """Only a pod that came to a node, or changed what it tolerates, matters to the node."""
    if old is None or new is None:
        return new is not None
    fields = ("nodeName", "tolerations")
    return any(old["spec"].get(name) != new["spec"].get(name) for name in fields)


def _lease_node(lease: Plain) -> Iterable[Key]:
    key = header(lease).key
    return (Key("", key.name),) if key.namespace == "kube-node-lease" else ()


def _wants_claims(old: Plain | None, new: Plain | None) -> bool:
    spec = (new or old or {}).get("spec") or {}
    ephemeral = any(each.get("ephemeral") for each in spec.get("volumes") or ())
    return bool(spec.get("resourceClaims")) or ephemeral
