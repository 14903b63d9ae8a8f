"""What the scheduler remembers of a pod: all that it reads, and nothing twice.

A cluster of 140,000 pods is told in a gigabyte of structs, most of it environment variables and
mounts that no decision looks at, and the same tolerations and requests over and over. Here the
former are dropped and the latter shared between the pods that have them in common.
"""

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar, cast

from muster.api.core import Container, EnvVar, Pod, ResourceRequirements, Volume
from muster.api.meta import replace

V = TypeVar("V", bound=Hashable)

# A copy of the whole manifest, often larger than the pod: nobody here reads it.
_NOT_READ: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MEMO_SIZE_MAX: Final = 200_000


class PodKeeper:
    """Makes small pods of large ones: `keep` for an informer of pods."""

    def __init__(self) -> None:
        self._memo: dict[Hashable, object] = {}

    def __call__(self, pod: Pod) -> Pod:
        if len(self._memo) > _MEMO_SIZE_MAX:
            self._memo.clear()
        spec, meta = pod.spec, pod.metadata
        volumes = tuple([self._one(volume) for volume in spec.volumes if _is_read(volume)])
        mounted = {volume.name for volume in volumes}
        return replace(
            pod,
            metadata=replace(
                meta,
                namespace=self._one(meta.namespace),
                labels=self._strings(meta.labels),
                annotations=_read_annotations(meta.annotations),
            ),
            spec=replace(
                spec,
                node_name=self._one(spec.node_name),
                scheduler_name=self._one(spec.scheduler_name),
                priority_class_name=self._one(spec.priority_class_name),
                node_selector=self._strings(spec.node_selector),
                tolerations=self._one(spec.tolerations),
                affinity=self._one(spec.affinity),
                containers=self._containers(spec.containers, mounted),
                init_containers=self._containers(spec.init_containers, mounted),
                volumes=self._one(volumes),
            ),
        )

    def _containers(
        self, containers: tuple[Container, ...], mounted: set[str]
    ) -> tuple[Container, ...]:
        return tuple([self._container(container, mounted) for container in containers])

    def _container(self, container: Container, mounted: set[str]) -> Container:
        resources = self._resources(container.resources)
        mounts = [mount for mount in container.volume_mounts if mount.name in mounted]
        parts = (
            container.name,
            container.ports,
            tuple([variable for variable in container.env if _names_config_map(variable)]),
            container.env_from,
            tuple([replace(mount, mount_path="") for mount in mounts]),
            container.restart_policy,
        )
        # The resources are known by identity: the memo keeps them alive, so it stays theirs.
        same = ("container", id(resources), parts)
        found = self._memo.get(same)
        if found is None:
            name, ports, env, env_from, volume_mounts, restart_policy = parts
            found = self._memo[same] = Container(
                name=name,
                resources=resources,
                ports=ports,
                env=env,
                env_from=env_from,
                volume_mounts=volume_mounts,
                restart_policy=restart_policy,
            )
        assert isinstance(found, Container)
        return found

    def _resources(self, resources: ResourceRequirements) -> ResourceRequirements:
        limits, requests = tuple(resources.limits.items()), tuple(resources.requests.items())
        same = ("resources", limits, requests, resources.claims)
        found = self._memo.setdefault(same, resources)
        assert isinstance(found, ResourceRequirements)
        return found

    def _strings(self, strings: Mapping[str, str]) -> Mapping[str, str]:
        return {self._one(key): self._one(value) for key, value in strings.items()}

    def _one(self, value: V) -> V:
        """The value itself, or an equal one that is there already."""
        try:
            return cast("V", self._memo.setdefault(value, value))
        except TypeError:  # a mapping inside, which cannot be looked up
            return value


def _read_annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    if _NOT_READ not in annotations:
        return annotations
    return {key: value for key, value in annotations.items() if key != _NOT_READ}


def _is_read(volume: Volume) -> bool:
    """Whether a decision may depend on it; an empty folder, say, is always to be had."""
    return (
        volume.config_map is not None
        or volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.projected is not None
        or volume.csi is not None
    )


def _names_config_map(variable: EnvVar) -> bool:
    source = variable.value_from
    return source is not None and source.config_map_key_ref is not None
