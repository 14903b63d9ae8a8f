"""SparkApplication: a driver, and executors that the driver owns once it runs. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.children import Child, copied, count, pod_child
from muster.sim.workloads.objects import phase

SPARK_APPLICATION: Final = plain_kind(
    "sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications"
)
APP_NAME: Final = "sparkoperator.k8s.io/app-name"
_ROLE: Final = "spark-role"
_MEMORY: Final = re.compile(r"(\d{1,9})([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_KIB: Final = {"k": 1, "": 1024, "m": 1024, "g": 1024**2, "t": 1024**3}
"""In each unit."""
_LEAST_OVERHEAD_MIB: Final = 384
_OVERHEAD, _OVERHEAD_OF_SCRIPTS = 0.1, 0.4
"""What Spark asks for beside the heap, as a part of it; more where Python or R run beside it."""
_COPIED: Final = ("schedulerName", "tolerations", "nodeSelector", "affinity", "serviceAccount")


def spark_children(app: Plain, there: Sequence[Plain]) -> list[Child]:
    spec, name = app["spec"], app["metadata"]["name"]
    if spec.get("suspend"):
        return []
    driver = _child(app, app, spec.get("driver") or {}, f"{name}-driver", "driver")
    running = [one for one in there if _is_driver(one) and phase(one) == "Running"]
    wanted = spec.get("executor") or {}
    return [driver] + [
        _child(app, {**one, "apiVersion": "v1", "kind": "Pod"}, wanted, f"{name}-exec-{at}", "exec")
        for one in running
        for at in range(1, count(wanted.get("instances")) + 1)
    ]


def spark_state(app: Plain, there: Sequence[Plain]) -> str:
    """In the operator's own words."""
    phases = [phase(one) for one in there if _is_driver(one)]
    words = {"Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED"}
    return words.get(phases[0], "SUBMITTED") if phases else "SUBMITTED"


def _is_driver(pod: Plain) -> bool:
    return (pod["metadata"].get("labels") or {}).get(_ROLE) == "driver"


def _child(app: Plain, owner: Plain, part: Mapping[str, Any], name: str, role: str) -> Child:
    meta = app["metadata"]
    whole = {"driver": "driver", "exec": "executor"}[role]
    container: dict[str, Any] = {
        "name": f"spark-kubernetes-{whole}",
        "image": part.get("image") or app["spec"].get("image") or "spark",
        "resources": _resources(app["spec"], part),
    }
    spec = copied((part.get("template") or {}).get("spec") or {})
    spec |= {key: part[key] for key in _COPIED if part.get(key)}
    spec["containers"] = [container]
    spec["restartPolicy"] = "Never"
    template = {
        "metadata": {"labels": part.get("labels"), "annotations": part.get("annotations")},
        "spec": spec,
    }
    labels = {
        _ROLE: whole,
        APP_NAME: meta["name"],
        "spark-app-name": meta["name"],
        "spark-app-selector": f"spark-{meta['uid'].replace('-', '')}",
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
    }
    return pod_child(owner, name, template, labels)


def _resources(spec: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    requests: dict[str, str] = {"cpu": str(part.get("coreRequest") or part.get("cores") or 1)}
    requests["memory"] = f"{_memory_mib(spec, part)}Mi"
    limits = {"memory": requests["memory"]}
    gpu = part.get("gpu") or {}
    if gpu.get("name") and gpu.get("quantity"):
        limits[str(gpu["name"])] = str(gpu["quantity"])
    return {"requests": requests, "limits": limits}


def _memory_mib(spec: Mapping[str, Any], part: Mapping[str, Any]) -> int:
    """The heap, and what Spark asks for beside it."""
    heap = _mib(part.get("memory")) or 1024
    if (beside := _mib(part.get("memoryOverhead"))) is not None:
        return heap + beside
    usual = _OVERHEAD_OF_SCRIPTS if spec.get("type") in ("Python", "R") else _OVERHEAD
    factor = float(spec.get("memoryOverheadFactor") or usual)
    return heap + max(int(heap * factor), _LEAST_OVERHEAD_MIB)


def _mib(text: Any) -> int | None:
    """An amount as Spark writes it; a bare number is in MiB."""
    found = _MEMORY.fullmatch(str(text or ""))
    return None if found is None else int(found[1]) * _KIB[found[2].lower()] // 1024
