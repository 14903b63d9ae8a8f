"""What stands for a pod group where nobody made one, as kube-batch has it.

A disruption budget that has a controller makes a job of that controller's pods; since 0.3 pods that
name no group are given one by their controller, or each its own. These groups are nowhere but
here: the cache follows them among the real ones, and a real one of that name takes their place.
"""

from muster.api import kinds
from muster.api.coordination import PodDisruptionBudget
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.names import ANNOTATION_POD_GROUP
from muster.api.podgroup import PodGroup
from muster.client.derived import Derived
from muster.client.informer import Index, Informer
from muster.model.batch_build import group_key
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.batch_objects import Reading


def with_stand_ins(
    supervisor: Supervisor, reading: Reading, groups: Informer[PodGroup], pods: Informer[Pod]
) -> Informer[PodGroup]:
    """All groups: those that exist, and those that something stands for."""
    log = supervisor.log.child("groups")
    made: Derived[PodGroup] = Derived(supervisor.reader, groups.kind, log)
    budgets = supervisor.informer(kinds.POD_DISRUPTION_BUDGET)
    StandIns(made, groups, pods, budgets if reading.budgets_are_jobs else None, reading)
    return made


class StandIns:
    """Keeps them up to date."""

    def __init__(
        self,
        made: Derived[PodGroup],
        groups: Informer[PodGroup],
        pods: Informer[Pod],
        budgets: Informer[PodDisruptionBudget] | None,
        reading: Reading,
    ) -> None:
        self._made = made
        self._groups = groups
        self._reading = reading
        self._bare: Index[Pod, Key] = pods.add_index(_bare_key)
        self._budgets: Index[PodDisruptionBudget, Key] | None = None
        if budgets is not None:
            self._budgets = budgets.add_index(_budget_key)
            budgets.add_handler(self._budget_changed)
        groups.add_handler(self._group_changed)
        pods.add_handler(self._pod_changed)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if (found := new or old) is not None:
            self._refresh(found.key)

    def _budget_changed(
        self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None
    ) -> None:
        for key in {key for one in (old, new) if one is not None for key in _budget_key(one)}:
            self._refresh(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for key in {key for one in (old, new) if one is not None for key in _bare_key(one)}:
            if self._made.get(key) is None or not self._bare.get(key):
                self._refresh(key)

    def _refresh(self, key: Key) -> None:
        self._made.put(key, self._found(key))

    def _found(self, key: Key) -> PodGroup | None:
        if (real := self._groups.get(key)) is not None:
            return real
        if self._budgets is not None and (budgets := self._budgets.get(key)):
            first = min(budgets, key=lambda one: one.metadata.name)
            return self._reading.group_of_budget(first, key.name)
        if self._reading.groups_bare_pods and (pods := self._bare.get(key)):
            return self._reading.group_of_pod(pods[0], key.name)
        return None


def _bare_key(pod: Pod) -> tuple[Key, ...]:
    """What stands for the pod's group; nothing where it names one itself."""
    name = pod.metadata.annotations.get(ANNOTATION_POD_GROUP, "")
    return (Key(pod.metadata.namespace, name),) if name and not group_key(pod) else ()


def _budget_key(budget: PodDisruptionBudget) -> tuple[Key, ...]:
    """The job that the budget makes: its controller's. One without a controller makes none."""
    owner = budget.metadata.controller
    return (Key(budget.metadata.namespace, owner.uid),) if owner and owner.uid else ()
