"""Config maps that tell a pod which shared devices it sees and how much of them is its part."""

from collections.abc import Mapping

from muster.api import names
from muster.api.core import ConfigMap, Container, Pod
from muster.api.kinds import CONFIG_MAP
from muster.api.meta import Key
from muster.model.gpu_request import device_mib, gpu_memory_mib, shared_request
from muster.model.records import GpuKind
from muster.services.binder.cluster_view import (
    BindAttempt,
    ClusterView,
    Create,
    Delete,
    Failed,
    NeedsWrites,
    Patch,
    Ready,
    State,
    Write,
)
from muster.services.binder.settings import BinderSettings
from muster.services.binder.steps.reserve_gpu import device_of, shares_gpu

CONFIG_MAP_LABEL = "kai.scheduler/shared-gpu"
"""On the config maps that we make, so that we need not watch those of everybody."""
_CDI_DEVICE = "k8s.device-plugin.nvidia.com/gpu="
_LEGACY_VISIBLE_DEVICES = "RUNAI-VISIBLE-DEVICES"
_MEMORY_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"


class ShareGpu:
    """Written once the devices are known, before the pod can start."""

    name = "gpu_sharing"

    def __init__(self, settings: BinderSettings) -> None:
        self._settings = settings

    def state(self, attempt: BindAttempt, cluster: ClusterView) -> State:
        if not shares_gpu(attempt):
            return Ready()
        container = sharing_container(attempt.pod)
        prefix = attempt.pod.metadata.annotations.get(names.ANNOTATION_SHARED_GPU_CONFIG_MAP)
        if container is None or prefix is None:
            return Failed(
                "the pod shares a GPU but lacks what admission adds to such pods: annotation "
                f"{names.ANNOTATION_SHARED_GPU_CONFIG_MAP}; is the admission webhook running?"
            )
        devices = self._devices(attempt, cluster)
        if devices is None:
            return Ready()  # The reservation is not through yet; it says what to wait for.
        contents = self._contents(attempt, container, prefix, devices)
        for name in contents:
            other = _other_user(attempt.pod, name, cluster)
            if other:
                return Failed(
                    f"config map {name} is that of pod {other}: annotate this pod with another "
                    f"{names.ANNOTATION_SHARED_GPU_CONFIG_MAP}, or with none"
                )
        writes = [
            write
            for name, data in contents.items()
            if (write := _config_map_write(attempt.pod, name, data, cluster))
        ]
        return NeedsWrites(tuple(writes)) if writes else Ready()

    def undo(self, attempt: BindAttempt, cluster: ClusterView) -> tuple[Write, ...]:
        container = sharing_container(attempt.pod)
        prefix = attempt.pod.metadata.annotations.get(names.ANNOTATION_SHARED_GPU_CONFIG_MAP)
        if not shares_gpu(attempt) or container is None or prefix is None:
            return ()
        keys = [Key(attempt.pod.metadata.namespace, name) for name in map_names(prefix, container)]
        return tuple(
            Delete(CONFIG_MAP, key, found.metadata.uid)
            for key in keys
            if (found := cluster.config_map(key)) and _is_owned(found, attempt.pod)
        )

    def _devices(self, attempt: BindAttempt, cluster: ClusterView) -> str | None:
        found = []
        for group in attempt.request.spec.selected_gpu_groups:
            reservations = cluster.reservations(group)
            device = device_of(reservations[0]) if reservations else ""
            if not device:
                return None
            found.append(f"{_CDI_DEVICE}{device}" if self._settings.uses_cdi else device)
        return ",".join(found)

    def _contents(
        self, attempt: BindAttempt, container: "SharingContainer", prefix: str, devices: str
    ) -> dict[str, dict[str, str]]:
        capabilities, variables = map_names(prefix, container)
        received = attempt.request.spec.received_gpu
        portion = received.portion if received else ""
        data = {names.ENV_GPU_PORTION: portion, names.ENV_NUM_OF_GPUS: portion}
        if self._settings.hami_core:
            data |= _memory_limit(attempt)
        if container.reads_devices:
            return {capabilities: {**data, names.ENV_VISIBLE_DEVICES: devices}, variables: {}}
        return {capabilities: data, variables: {names.ENV_VISIBLE_DEVICES: devices}}


class SharingContainer:
    """The container that gets the device: its place in the pod, and how it learns of devices."""

    def __init__(self, index: int, container: Container, is_init: bool) -> None:
        self.suffix = f"i{index}" if is_init else str(index)
        self.reads_devices = any(
            variable.name == names.ENV_VISIBLE_DEVICES
            and variable.value_from is not None
            and variable.value_from.config_map_key_ref is not None
            for variable in container.env
        )


def sharing_container(pod: Pod) -> SharingContainer | None:
    """Named by annotation (init containers first), else the first regular one."""
    named = pod.metadata.annotations.get(names.ANNOTATION_GPU_FRACTION_CONTAINER)
    if named is None:
        first = pod.spec.containers[:1]
        return SharingContainer(0, first[0], False) if first else None
    for is_init, listed in ((True, pod.spec.init_containers), (False, pod.spec.containers)):
        for index, container in enumerate(listed):
            if container.name == named:
                return SharingContainer(index, container, is_init)
    return None


def map_names(prefix: str, container: SharingContainer) -> tuple[str, str]:
    """Capabilities, and plain environment variables."""
    capabilities = f"{prefix}-{container.suffix}"
    return capabilities, f"{capabilities}-evar"


def _config_map_write(
    pod: Pod, name: str, data: Mapping[str, str], cluster: ClusterView
) -> Create | Patch | None:
    key = Key(pod.metadata.namespace, name)
    live = cluster.config_map(key)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
    if live is None:
        metadata = {
            "name": name,
            "namespace": key.namespace,
            "labels": {CONFIG_MAP_LABEL: "true"},
            "ownerReferences": [owner],
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
        return Create(CONFIG_MAP, body)
    wanted = dict(data)
    if _LEGACY_VISIBLE_DEVICES in live.data and names.ENV_VISIBLE_DEVICES in wanted:
        wanted[_LEGACY_VISIBLE_DEVICES] = wanted[names.ENV_VISIBLE_DEVICES]
    changes = {field: value for field, value in wanted.items() if live.data.get(field) != value}
    patch: dict[str, object] = {"data": changes} if changes else {}
    if not _is_owned(live, pod):
        # Left by an earlier pod of the same name.
        patch["metadata"] = {"ownerReferences": [owner]}
    return Patch(CONFIG_MAP, key, patch) if patch else None


def _other_user(pod: Pod, name: str, cluster: ClusterView) -> str:
    """The pod that is there and has this config map; empty: nobody has. Its author named it, and
    two that write on one would each send the other to its own device.
    """
    live = cluster.config_map(Key(pod.metadata.namespace, name))
    for owner in () if live is None else live.metadata.owner_references:
        found = cluster.pod(Key(pod.metadata.namespace, owner.name))
        is_it = found is not None and found.metadata.uid == owner.uid != pod.metadata.uid
        if found is not None and is_it and not found.has_ended:
            return owner.name
    return ""


def _is_owned(live: ConfigMap, pod: Pod) -> bool:
    return any(owner.uid == pod.metadata.uid for owner in live.metadata.owner_references)


def _memory_limit(attempt: BindAttempt) -> dict[str, str]:
    """In MiB: what the scheduler counts for it on each device of the node."""
    gpu = shared_request(attempt.pod.metadata.annotations)
    memory_mib = gpu_memory_mib(attempt.node.metadata.labels)
    if not gpu.is_shared or (gpu.kind is GpuKind.FRACTION and not memory_mib):
        return {}
    return {_MEMORY_LIMIT: f"{device_mib(gpu, memory_mib)}m"}
