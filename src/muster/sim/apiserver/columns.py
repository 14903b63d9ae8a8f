"""The columns of `kubectl get` for built-in kinds: what they are called and what they show.

Pure: an object and the time in, cells out. Kinds without an entry show name and age; kinds of a CRD
show what its printer columns say (`tables.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from muster.sim.apiserver.kinds import Column, Object

Cells = Callable[[Object, float], list[Any]]

NAME = Column("Name", format="name")
AGE = Column("Age")


def age(timestamp: str | None, now_s: float) -> str:
    """How long ago, as kubectl says it: `5s`, `3m20s`, `2d4h`."""
    if not timestamp:
        return "<unknown>"
    return duration(now_s - _seconds(timestamp))


def duration(elapsed_s: float) -> str:
    seconds = int(elapsed_s)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def pod_status(pod: Object) -> str:
    """The STATUS column: the most telling of phase, reasons and container states."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    waiting = _init_reason(pod)
    reason = waiting or _container_reason(status, reason)
    if pod["metadata"].get("deletionTimestamp") and status.get("reason") == "NodeLost":
        return "Unknown"
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") not in (
        "Succeeded",
        "Failed",
    ):
        return "Terminating"
    return str(reason)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).astimezone(UTC).timestamp()


def _pair(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def _init_reason(pod: Object) -> str:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    specs = {c["name"]: c for c in (pod.get("spec") or {}).get("initContainers") or ()}
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        restarts = specs.get(status.get("name"), {}).get("restartPolicy") == "Always"
        if restarts and status.get("started"):
            continue
        if ended:
            return "Init:" + (ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
        reason = (state.get("waiting") or {}).get("reason") or ""
        if reason and reason != "PodInitializing":
            return "Init:" + str(reason)
        return f"Init:{index}/{len(specs)}"
    return ""


def _container_reason(status: Object, reason: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended := state.get("terminated"):
            reason = ended.get("reason") or (
                f"Signal:{ended['signal']}"
                if ended.get("signal")
                else f"ExitCode:{ended.get('exitCode', 0)}"
            )
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if _condition(status, "Ready") == "True" else "NotReady"
    return reason


def _condition(status: Object, kind: str) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            return str(condition.get("status", ""))
    return ""


def _pod(pod: Object, now_s: float) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    names = {c["name"] for c in sidecars}
    counted = [
        *statuses,
        *(s for s in status.get("initContainerStatuses") or () if s["name"] in names),
    ]
    ready = sum(1 for s in counted if s.get("ready"))
    total = len(spec.get("containers") or ()) + len(sidecars)
    restarts = sum(s.get("restartCount", 0) for s in counted)
    gates = spec.get("readinessGates") or ()
    met = sum(1 for gate in gates if _condition(status, gate["conditionType"]) == "True")
    return [
        pod["metadata"]["name"],
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(restarts, counted, now_s),
        age(pod["metadata"].get("creationTimestamp"), now_s),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{met}/{len(gates)}" if gates else "<none>",
    ]


def _restarts(count: int, statuses: Sequence[Object], now_s: float) -> str:
    ends = [
        finished
        for s in statuses
        if (finished := ((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    if not count or not ends:
        return str(count)
    return f"{count} ({age(max(ends), now_s)} ago)"


def _node(node: Object, now_s: float) -> list[Any]:
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    system = status.get("nodeInfo") or {}
    ready = _condition(status, "Ready")
    words = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return [
        node["metadata"]["name"],
        ",".join(words),
        _roles(labels),
        age(node["metadata"].get("creationTimestamp"), now_s),
        system.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        system.get("osImage") or "<unknown>",
        system.get("kernelVersion") or "<unknown>",
        system.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(labels: Mapping[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(role for role in roles if role)) or "<none>"


def _address(status: Object, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return "<none>"


def _selector(selector: Mapping[str, Any] | None) -> str:
    if not selector:
        return "<none>"
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        parts.append(_requirement(expression))
    return ",".join(parts) or "<none>"


def _requirement(expression: Mapping[str, Any]) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    match expression["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return str(key)
        case _:
            return f"!{key}"


def _plain(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def _containers(template: Object | None) -> list[str]:
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    names = ",".join(c.get("name", "") for c in containers)
    return [names, ",".join(c.get("image", "") for c in containers)]


def _deployment(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return [
        item["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        str(status.get("updatedReplicas", 0)),
        str(status.get("availableReplicas", 0)),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *_containers(spec.get("template")),
        _selector(spec.get("selector")),
    ]


def _replica_set(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    selector = spec.get("selector")
    plain = selector and "matchLabels" not in selector and "matchExpressions" not in selector
    return [
        item["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *_containers(spec.get("template")),
        _plain(selector) if plain else _selector(selector),
    ]


def _daemon_set(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    template = spec.get("template") or {}
    return [
        item["metadata"]["name"],
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        _plain((template.get("spec") or {}).get("nodeSelector")),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *_containers(template),
        _selector(spec.get("selector")),
    ]


def _stateful_set(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return [
        item["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        age(item["metadata"].get("creationTimestamp"), now_s),
        *_containers(spec.get("template")),
    ]


def _job(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif (spec.get("parallelism") or 0) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    return [
        item["metadata"]["name"],
        _job_status(item),
        completions,
        _job_duration(status, now_s),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *_containers(spec.get("template")),
        _selector(spec.get("selector")),
    ]


def _job_status(item: Object) -> str:
    status = item.get("status") or {}
    words = (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
    )
    for condition, word in words:
        if _condition(status, condition) == "True":
            return word
    if item["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if _condition(status, "Suspended") == "True":
        return "Suspended"
    if _condition(status, "FailureTarget") == "True":
        return "FailureTarget"
    if _condition(status, "SuccessCriteriaMet") == "True":
        return "SuccessCriteriaMet"
    return "Running"


def _job_duration(status: Object, now_s: float) -> str:
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    until = _seconds(end) if end else now_s
    return duration(until - _seconds(status["startTime"]))


def _cron_job(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    last = status.get("lastScheduleTime")
    return [
        item["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        age(last, now_s) if last else "<none>",
        age(item["metadata"].get("creationTimestamp"), now_s),
        *_containers((spec.get("jobTemplate") or {}).get("spec", {}).get("template")),
        _selector(((spec.get("jobTemplate") or {}).get("spec") or {}).get("selector")),
    ]


def _service(item: Object, now_s: float) -> list[Any]:
    spec = item.get("spec") or {}
    ports = [_port(port) for port in spec.get("ports") or ()]
    external = ",".join(spec.get("externalIPs") or ())
    if spec.get("type") == "ExternalName":
        external = spec.get("externalName", "")
    elif spec.get("type") == "LoadBalancer" and not external:
        external = "<pending>"
    return [
        item["metadata"]["name"],
        spec.get("type", ""),
        spec.get("clusterIP") or "<none>",
        external or "<none>",
        ",".join(ports) or "<none>",
        age(item["metadata"].get("creationTimestamp"), now_s),
        _plain(spec.get("selector")),
    ]


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def _event(item: Object, now_s: float) -> list[Any]:
    first = item.get("firstTimestamp") or item.get("eventTime")
    series = item.get("series") or {}
    last = series.get("lastObservedTime") or item.get("lastTimestamp") or first
    source, involved = item.get("source") or {}, item.get("involvedObject") or {}
    component = source.get("component") or item.get("reportingComponent") or ""
    parts = [component, source.get("host") or item.get("reportingInstance") or ""]
    return [
        age(last, now_s),
        item.get("type", ""),
        item.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
        involved.get("fieldPath", ""),
        ", ".join(part for part in parts if part),
        str(item.get("message", "")).strip(),
        age(first, now_s),
        series.get("count") or item.get("count") or 1,
        item["metadata"]["name"],
    ]


def _persistent_volume(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    claim = spec.get("claimRef")
    return [
        item["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if item["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age(item["metadata"].get("creationTimestamp"), now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def _persistent_volume_claim(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        item["metadata"]["name"],
        "Terminating" if item["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age(item["metadata"].get("creationTimestamp"), now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def _access_modes(modes: Sequence[str] | None) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short[mode] for mode in short if mode in (modes or ()))


def _budget(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        item["metadata"]["name"],
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status.get("disruptionsAllowed", 0),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def _role_binding(item: Object, now_s: float) -> list[Any]:
    role, subjects = item.get("roleRef") or {}, item.get("subjects") or ()

    def named(kind: str) -> str:
        return ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind)

    accounts = ", ".join(
        f"{s.get('namespace', '')}/{s.get('name', '')}"
        for s in subjects
        if s.get("kind") == "ServiceAccount"
    )
    return [
        item["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(item["metadata"].get("creationTimestamp"), now_s),
        named("User"),
        named("Group"),
        accounts,
    ]


def _quota(item: Object, now_s: float) -> list[Any]:
    status = item.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [
        item["metadata"]["name"],
        ", ".join(requests),
        ", ".join(limits),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def _storage_class(item: Object, now_s: float) -> list[Any]:
    default = (item["metadata"].get("annotations") or {}).get(
        "storageclass.kubernetes.io/is-default-class"
    )
    return [
        item["metadata"]["name"] + (" (default)" if default == "true" else ""),
        item.get("provisioner", ""),
        item.get("reclaimPolicy", "Delete"),
        item.get("volumeBindingMode") or "<unset>",
        bool(item.get("allowVolumeExpansion")),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def _simple(*paths: str) -> Cells:
    """Name, the values at these paths, age."""

    def cells(item: Object, now_s: float) -> list[Any]:
        found = [_at(item, path) for path in paths]
        made = age(item["metadata"].get("creationTimestamp"), now_s)
        return [item["metadata"]["name"], *found, made]

    return cells


def _at(item: Object, path: str) -> Any:
    value: Any = item
    for part in path.split("."):
        if part == "#":
            return len(value or ())
        value = (value or {}).get(part)
    return "" if value is None else value


def _secret(item: Object, now_s: float) -> list[Any]:
    return _simple("type", "data.#")(item, now_s)


def _config_map(item: Object, now_s: float) -> list[Any]:
    count = len(item.get("data") or ()) + len(item.get("binaryData") or ())
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], count, made]


def _claim(item: Object, now_s: float) -> list[Any]:
    status, words = item.get("status") or {}, []
    if item["metadata"].get("deletionTimestamp"):
        words.append("deleted")
    words.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        words.append("reserved")
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], ",".join(words), made]


def _namespace(item: Object, now_s: float) -> list[Any]:
    return _simple("status.phase")(item, now_s)


def _endpoints(item: Object, now_s: float) -> list[Any]:
    shown = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in item.get("subsets") or ()
        for port in subset.get("ports") or ({"port": ""},)
        for address in subset.get("addresses") or ()
    ]
    text = ",".join(shown[:3]) + (f" + {len(shown) - 3} more..." if len(shown) > 3 else "")
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], text or "<none>", made]


def _columns(*names: str) -> tuple[Column, ...]:
    """`Name` is the name; `#Desired` is a number; `+Images` shows only in wide output."""
    found = []
    for name in names:
        plain = name.lstrip("+#")
        kind = "integer" if "#" in name[:2] else "string"
        form = "name" if plain == "Name" and "+" not in name else ""
        found.append(Column(plain, kind, form, 1 if "+" in name[:2] else 0))
    return tuple(found)


_TEMPLATE = ("+Containers", "+Images", "+Selector")
_ROWS: Mapping[str, tuple[tuple[str, ...], Cells]] = {
    "pods": (
        (
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
            "+IP",
            "+Node",
            "+Nominated Node",
            "+Readiness Gates",
        ),
        _pod,
    ),
    "nodes": (
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "+Internal-IP",
            "+External-IP",
            "+OS-Image",
            "+Kernel-Version",
            "+Container-Runtime",
        ),
        _node,
    ),
    "deployments.apps": (
        ("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE),
        _deployment,
    ),
    "replicasets.apps": (
        ("Name", "#Desired", "#Current", "#Ready", "Age", *_TEMPLATE),
        _replica_set,
    ),
    "replicationcontrollers": (
        ("Name", "#Desired", "#Current", "#Ready", "Age", *_TEMPLATE),
        _replica_set,
    ),
    "daemonsets.apps": (
        (
            "Name",
            "#Desired",
            "#Current",
            "#Ready",
            "#Up-to-date",
            "#Available",
            "Node Selector",
            "Age",
            *_TEMPLATE,
        ),
        _daemon_set,
    ),
    "statefulsets.apps": (("Name", "Ready", "Age", "+Containers", "+Images"), _stateful_set),
    "controllerrevisions.apps": (("Name", "#Revision", "Age"), _simple("revision")),
    "jobs.batch": (("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE), _job),
    "cronjobs.batch": (
        ("Name", "Schedule", "Timezone", "Suspend", "#Active", "Last Schedule", "Age", *_TEMPLATE),
        _cron_job,
    ),
    "services": (
        ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"),
        _service,
    ),
    "events": (
        (
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "+Subobject",
            "+Source",
            "Message",
            "+First Seen",
            "+#Count",
            "+Name",
        ),
        _event,
    ),
    "namespaces": (("Name", "Status", "Age"), _namespace),
    "secrets": (("Name", "Type", "Data", "Age"), _secret),
    "configmaps": (("Name", "Data", "Age"), _config_map),
    "endpoints": (("Name", "Endpoints", "Age"), _endpoints),
    "persistentvolumes": (
        (
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            "+VolumeMode",
        ),
        _persistent_volume,
    ),
    "persistentvolumeclaims": (
        (
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            "+VolumeMode",
        ),
        _persistent_volume_claim,
    ),
    "poddisruptionbudgets.policy": (
        ("Name", "Min Available", "Max Unavailable", "#Allowed Disruptions", "Age"),
        _budget,
    ),
    "rolebindings.rbac.authorization.k8s.io": (
        ("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"),
        _role_binding,
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": (
        ("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"),
        _role_binding,
    ),
    "resourcequotas": (("Name", "Request", "Limit", "Age"), _quota),
    "leases.coordination.k8s.io": (("Name", "Holder", "Age"), _simple("spec.holderIdentity")),
    "storageclasses.storage.k8s.io": (
        (
            "Name",
            "Provisioner",
            "ReclaimPolicy",
            "VolumeBindingMode",
            "AllowVolumeExpansion",
            "Age",
        ),
        _storage_class,
    ),
    "priorityclasses.scheduling.k8s.io": (
        ("Name", "#Value", "Global-Default", "Age", "PreemptionPolicy"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item.get("value", 0),
            bool(item.get("globalDefault")),
            age(item["metadata"].get("creationTimestamp"), now_s),
            item.get("preemptionPolicy", ""),
        ],
    ),
    "runtimeclasses.node.k8s.io": (("Name", "Handler", "Age"), _simple("handler")),
    "resourceclaims.resource.k8s.io": (("Name", "State", "Age"), _claim),
    "resourceslices.resource.k8s.io": (
        ("Name", "Node", "Driver", "Pool", "Age"),
        _simple("spec.nodeName", "spec.driver", "spec.pool.name"),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        ("Name", "Created At"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item["metadata"].get("creationTimestamp", ""),
        ],
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        ("Name", "#Webhooks", "Age"),
        _simple("webhooks.#"),
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        ("Name", "#Webhooks", "Age"),
        _simple("webhooks.#"),
    ),
    "clusterroles.rbac.authorization.k8s.io": (
        ("Name", "Created At"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item["metadata"].get("creationTimestamp", ""),
        ],
    ),
    "roles.rbac.authorization.k8s.io": (
        ("Name", "Created At"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item["metadata"].get("creationTimestamp", ""),
        ],
    ),
}
COLUMNS: Mapping[str, tuple[Column, ...]] = {
    resource: _columns(*names) for resource, (names, _) in _ROWS.items()
}
CELLS: Mapping[str, Cells] = {resource: cells for resource, (_, cells) in _ROWS.items()}
