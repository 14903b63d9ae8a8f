"""What creating an object of a built-in kind sets beside defaults: statuses, selectors, addresses.

Each is a function of the request and the new object, in place; the table says whose it is.
"""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

from muster.sim.apiserver.defaults.pods import quality_of_service
from muster.sim.apiserver.kinds import Object, ServedKind
from muster.sim.apiserver.pipeline import WriteRequest
from muster.sim.apiserver.refusal import forbidden, not_found

SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
_NODE_PORTS = range(30000, 32768)
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_JOB_NAME = "batch.kubernetes.io/job-name"
_NAMESPACES = ServedKind("", "v1", "namespaces", "Namespace", namespaced=False)
# Namespaces that cannot be deleted.
_PERMANENT = frozenset({"default", "kube-system", "kube-public"})


async def prepare(request: WriteRequest, old: Object | None, new: Object | None) -> None:
    """MUTATE step, the last: what the server itself decides about the object."""
    if new is None or request.kind.is_custom or request.subresource:
        return
    if old is None:
        created = ON_CREATE.get(request.kind.storage)
        if created is not None:
            created(request, new)
    else:
        updated = ON_UPDATE.get(request.kind.storage)
        if updated is not None:
            updated(old, new)


async def guard_namespace(request: WriteRequest, old: Object | None, new: Object | None) -> None:
    """MUTATE step: nothing is created in a namespace that is not there or is going away."""
    if not request.kind.namespaced:
        if new is None and request.kind.storage == "namespaces" and request.name in _PERMANENT:
            raise forbidden(request.kind, request.name, "this namespace may not be deleted")
        return
    if old is not None or new is None:
        return
    found = request.reader.get("namespaces", "", request.namespace)
    if found is None:
        raise not_found(_NAMESPACES, request.namespace)
    if found["metadata"].get("deletionTimestamp") and not request.subresource:
        why = (
            f"unable to create new content in namespace {request.namespace} because it is being "
            "terminated"
        )
        refused = forbidden(request.kind, str(new["metadata"].get("name", "")), why)
        refused.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {request.namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise refused


def _pod(request: WriteRequest, pod: Object) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [condition]


def _namespace(request: WriteRequest, obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def _claim(request: WriteRequest, obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}


def _volume(request: WriteRequest, obj: Object) -> None:
    now = obj["metadata"]["creationTimestamp"]
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _job(request: WriteRequest, job: Object) -> None:
    select_own_pods(job)


def select_own_pods(job: Object) -> None:
    """A new Job selects the pods that are labelled with its uid."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    meta = spec.setdefault("template", {}).setdefault("metadata", {})
    labels = meta.setdefault("labels", {})
    uid, name = job["metadata"]["uid"], job["metadata"].get("name", "")
    labels.setdefault("controller-uid", uid)
    labels.setdefault("job-name", name)
    labels.setdefault(_CONTROLLER_UID, uid)
    labels.setdefault(_JOB_NAME, name)
    selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault(_CONTROLLER_UID, uid)
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _service(request: WriteRequest, service: Object) -> None:
    spec = service["spec"]
    service["status"] = {"loadBalancer": {}}
    if spec.get("type") == "ExternalName":
        return
    headless = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless else "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if headless else ["IPv4"])
    others = request.reader.list("services")
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address(others)
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    wants_ports = spec.get("type") in ("NodePort", "LoadBalancer")
    if wants_ports and spec.get("allocateLoadBalancerNodePorts", True):
        taken = {p.get("nodePort") for o in others for p in o["spec"].get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = next(n for n in _NODE_PORTS if n not in taken)
                taken.add(port["nodePort"])


def _free_address(services: Sequence[Object]) -> str:
    taken = {service["spec"].get("clusterIP") for service in services}
    first = int(SERVICE_NETWORK.network_address) + 2
    for number in range(first, first + len(taken) + 2):
        address = str(IPv4Address(number))
        if address not in taken:
            return address
    raise AssertionError("there is always one more address than services")


def _updated_service(old: Object, new: Object) -> None:
    """An update without cluster IP or node ports retains them."""
    spec, was = new["spec"], old["spec"]
    if spec.get("type") != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in was and not spec.get(name):
                spec[name] = was[name]
    numbers = {p.get("port"): p.get("nodePort") for p in was.get("ports") or ()}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and numbers.get(port.get("port")):
                port["nodePort"] = numbers[port["port"]]


def _updated_namespace(old: Object, new: Object) -> None:
    """Finalizers of the spec change only through the finalize subresource."""
    spec = dict(new.get("spec") or {})
    spec.pop("finalizers", None)
    if (old.get("spec") or {}).get("finalizers"):
        spec["finalizers"] = old["spec"]["finalizers"]
    new["spec"] = spec


def _updated_pod(old: Object, new: Object) -> None:
    new["status"] = old.get("status", {})


ON_CREATE: Mapping[str, Callable[[WriteRequest, Object], None]] = {
    "pods": _pod,
    "namespaces": _namespace,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
    "jobs.batch": _job,
    "services": _service,
}
ON_UPDATE: Mapping[str, Callable[[Object, Object], None]] = {
    "services": _updated_service,
    "namespaces": _updated_namespace,
    "pods": _updated_pod,
}
