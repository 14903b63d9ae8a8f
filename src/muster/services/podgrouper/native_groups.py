"""Pods that came before their PodGroup of Kubernetes' own are looked at again when it comes.

The kind is alpha and most servers do not have it: it is watched from the first pod on that names
such a group, where the server has it.
"""

from muster.api.core import Pod
from muster.api.meta import Key
from muster.client.informer import Informer
from muster.client.kinds import Plain, header
from muster.runtime.controller import Controller
from muster.runtime.supervisor import Supervisor
from muster.services.podgrouper.catalog import Catalog
from muster.services.podgrouper.groupers.native import API_VERSION
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.services.podgrouper.reading import OwnerReads


class NativeGroups:
    """Makes a change of such a group work for its pods."""

    def __init__(
        self,
        supervisor: Supervisor,
        catalog: Catalog,
        owners: OwnerReads,
        pods: Informer[Pod],
        controller: Controller[Key],
    ) -> None:
        self._supervisor = supervisor
        self._catalog = catalog
        self._owners = owners
        self._pods_of = pods.add_index(_named_group)
        self._controller = controller
        self._is_watching = False

    async def begin(self) -> None:
        """Watch them, if that can be and is not so already."""
        kind = None if self._is_watching else await self._catalog.find(API_VERSION, "PodGroup")
        if kind is None or self._is_watching:
            return
        self._is_watching = True
        self._controller.watch(self._supervisor.informer(kind), self._keys)

    def _keys(self, group: Plain) -> list[Key]:
        key = header(group).key
        # It may be another group under the name of an old one.
        self._owners.forget(ObjectRef(API_VERSION, "PodGroup", key.namespace, key.name))
        return [pod.key for pod in self._pods_of.get(key)]


def _named_group(pod: Pod) -> tuple[Key, ...]:
    named = pod.spec.scheduling_group
    return (Key(pod.metadata.namespace, named.pod_group_name),) if named is not None else ()
