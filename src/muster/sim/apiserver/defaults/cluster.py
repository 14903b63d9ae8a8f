"""Defaults of everything that is not a workload."""

import base64

from muster.sim.apiserver.kinds import Object

_RBAC = "rbac.authorization.k8s.io"


def service(obj: Object) -> None:
    spec = obj["spec"]
    _set(spec, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        _set(client, timeoutSeconds=10800)
    for port in spec.get("ports") or ():
        _set(port, protocol="TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _set(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        _set(spec, allocateLoadBalancerNodePorts=True)
    if spec["type"] != "ExternalName":
        _set(spec, internalTrafficPolicy="Cluster")


def secret(obj: Object) -> None:
    _set(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    for name, text in (plain or {}).items():
        data = obj.setdefault("data", {})
        data[name] = base64.b64encode(text.encode()).decode()


def namespace(obj: Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def node(obj: Object) -> None:
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def persistent_volume(obj: Object) -> None:
    _set(obj["spec"], persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if "hostPath" in obj["spec"]:
        obj["spec"]["hostPath"].setdefault("type", "")


def persistent_volume_claim(obj: Object) -> None:
    _set(obj["spec"], volumeMode="Filesystem")


def endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            _set(port, protocol="TCP")


def limit_range(obj: Object) -> None:
    for limit in (obj.get("spec") or {}).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        default = limit.setdefault("default", {})
        for name, value in (limit.get("max") or {}).items():
            default.setdefault(name, value)
        request = limit.setdefault("defaultRequest", {})
        for name, value in default.items():
            request.setdefault(name, value)
        for name, value in (limit.get("min") or {}).items():
            request.setdefault(name, value)
        for name in ("default", "defaultRequest"):
            if not limit[name]:
                del limit[name]


def priority_class(obj: Object) -> None:
    _set(obj, preemptionPolicy="PreemptLowerPriority")


def storage_class(obj: Object) -> None:
    _set(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def csi_driver(obj: Object) -> None:
    spec = obj["spec"]
    _set(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False)
    _set(spec, fsGroupPolicy="ReadWriteOnceWithFSType", requiresRepublish=False, seLinuxMount=False)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def role_binding(obj: Object) -> None:
    _set(obj.setdefault("roleRef", {}), apiGroup=_RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            _set(subject, apiGroup=_RBAC)


def webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        _set(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules") or ():
            _set(rule, scope="*")
        reference = (hook.get("clientConfig") or {}).get("service")
        if reference is not None:
            _set(reference, port=443)


def mutating_webhooks(obj: Object) -> None:
    webhooks(obj)
    for hook in obj.get("webhooks") or ():
        _set(hook, reinvocationPolicy="Never")


def custom_resource_definition(obj: Object) -> None:
    spec = obj["spec"]
    names = spec.get("names") or {}
    if names.get("kind"):
        _set(names, singular=names["kind"].lower(), listKind=names["kind"] + "List")
    _set(spec.setdefault("conversion", {}), strategy="None")


def network_policy(obj: Object) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            _set(port, protocol="TCP")


def endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        _set(port, protocol="TCP")


def resource_claim(obj: Object) -> None:
    _device_requests(obj["spec"])


def resource_claim_template(obj: Object) -> None:
    _device_requests((obj.get("spec") or {}).get("spec") or {})


def _device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        chosen = [request["exactly"]] if "exactly" in request else []
        for option in [*chosen, *(request.get("firstAvailable") or ())]:
            _set(option, allocationMode="ExactCount")
            if option["allocationMode"] == "ExactCount" and not option.get("count"):
                option["count"] = 1


def _set(target: Object, **values: object) -> None:
    for name, value in values.items():
        if target.get(name) in (None, ""):
            target[name] = value
