"""The official Python client, used as its documentation shows."""

# mypy: disable-error-code="no-untyped-call"

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kubernetes

from benchmarks.load import node_name, pod_name

_IN_FLIGHT = 32
_NODES = 100


def list_pods(kubeconfig: Path, count: int) -> int:
    return len(_core(kubeconfig).list_namespaced_pod("default").items)


def watch_pods(kubeconfig: Path, count: int) -> int:
    watch, seen = kubernetes.watch.Watch(), 0
    # Version 0: everything that is there, as events.
    for _ in watch.stream(_core(kubeconfig).list_namespaced_pod, "default", resource_version="0"):
        seen += 1
        if seen == count:
            watch.stop()
    return seen


def bind_pods(kubeconfig: Path, count: int) -> int:
    core = _core(kubeconfig)
    with ThreadPoolExecutor(_IN_FLIGHT) as workers:
        return sum(workers.map(lambda number: _bind(core, number), range(count)))


def _bind(core: Any, number: int) -> bool:
    binding = kubernetes.client.V1Binding(
        metadata=kubernetes.client.V1ObjectMeta(name=pod_name(number)),
        target=kubernetes.client.V1ObjectReference(
            api_version="v1", kind="Node", name=node_name(number % _NODES)
        ),
    )
    # Its own decoding of the answer fails: the server sends a Status without a target.
    answer = core.create_namespaced_binding("default", binding, _preload_content=False)
    answer.release_conn()
    return bool(answer.status == 201)


def _core(kubeconfig: Path) -> Any:
    settings = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=settings)
    settings.connection_pool_maxsize = _IN_FLIGHT
    return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(settings))
