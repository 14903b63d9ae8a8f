"""PodGroups of Kubernetes' own (scheduling.k8s.io, alpha) that pods about to be bound belong to.

Such a group may hold a claim by name for all its pods, which only the group itself says. The kind
is alpha and hardly any pod names one, so it is not watched: it is read when such a pod is bound.
"""

from muster.api.core import Pod
from muster.api.devices import POD_GROUP_API
from muster.api.meta import Key
from muster.base.expiring import ExpiringMap
from muster.client.errors import NotFound
from muster.client.kinds import Plain, plain_kind
from muster.client.read import Reader

_KIND = plain_kind(POD_GROUP_API, "v1alpha2", "PodGroup", "podgroups")
_CACHED_MAX = 1000


class NativeGroupCache:
    """What was read of them last."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._cached: ExpiringMap[Key, Plain] = ExpiringMap(reader.connection.clock, _CACHED_MAX)

    def get(self, key: Key) -> Plain | None:
        return self._cached.get(key)

    async def refresh(self, pod: Pod) -> bool:
        """Read the group of a pod that names claims which the group may hold; whether it does."""
        key = group_of(pod)
        if key is None or not any(one.resource_claim_name for one in pod.spec.resource_claims):
            return False
        try:
            self._cached.put(key, await self._reader.get(_KIND, key))
        except NotFound:
            self._cached.pop(key)
        return True


def group_of(pod: Pod) -> Key | None:
    named = pod.spec.scheduling_group
    return None if named is None else Key(pod.metadata.namespace, named.pod_group_name)
