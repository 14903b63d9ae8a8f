"""What everything else may hold: services, volumes, budgets, classes, roles, devices."""

from typing import Any

from muster.sim.apiserver.checks.common_rules import (
    IMMUTABLE,
    count_or_percent,
    immutable,
    label_name,
    label_selector,
    one_of,
    resource_list,
    subdomain,
)
from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.objects import key_causes, name_faults

_DATA_LIMIT_BYTES = 1 << 20
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_HIGHEST_USER_PRIORITY = 1_000_000_000


def config_map(new: Object, old: Object | None) -> list[Cause]:
    causes = _keys(new.get("data"), "data") + _keys(new.get("binaryData"), "binaryData")
    causes += _size(new, ("data", "binaryData"))
    return causes if old is None else causes + _frozen(new, old, ("data", "binaryData"))


def secret(new: Object, old: Object | None) -> list[Cause]:
    causes = _keys(new.get("data"), "data") + _size(new, ("data",))
    if old is not None:
        causes += immutable(new, old, ("type",)) + _frozen(new, old, ("data",))
    return causes


def service(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes: list[Cause] = []
    kind = spec.get("type")
    if not spec.get("ports") and spec.get("clusterIP") != "None" and kind != "ExternalName":
        causes.append(Cause.required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        causes.append(Cause.required("spec.externalName"))
    names: set[str] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        causes += _service_port(port, f"spec.ports[{index}]", len(spec["ports"]) > 1, names)
    known = ("ClientIP", "None")
    causes += one_of(spec.get("sessionAffinity"), "spec.sessionAffinity", known)
    causes += one_of(kind, "spec.type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    before = old["spec"].get("clusterIP") if old is not None else None
    if before and kind != "ExternalName" and spec.get("clusterIP") != before:
        value = spec.get("clusterIPs") or []
        causes.append(Cause.invalid("spec.clusterIPs[0]", value, "may not change once set"))
    return causes


def node(new: Object, old: Object | None) -> list[Cause]:
    causes: list[Cause] = []
    for index, taint in enumerate((new.get("spec") or {}).get("taints") or ()):
        path = f"spec.taints[{index}]"
        causes += key_causes(taint.get("key") or "", f"{path}.key")
        known = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        causes += one_of(taint.get("effect"), f"{path}.effect", known)
    return causes


def persistent_volume(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes = _access_modes(spec, "spec")
    if not spec.get("capacity"):
        causes.append(Cause.required("spec.capacity"))
    elif "storage" not in spec["capacity"] or len(spec["capacity"]) > 1:
        causes.append(Cause.unsupported("spec.capacity", spec["capacity"], ("storage",)))
    causes += resource_list(spec.get("capacity"), "spec.capacity")
    known = ("Delete", "Recycle", "Retain")
    policy = "spec.persistentVolumeReclaimPolicy"
    causes += one_of(spec.get("persistentVolumeReclaimPolicy"), policy, known)
    return causes


def persistent_volume_claim(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes = _access_modes(spec, "spec")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        causes.append(Cause.required("spec.resources[storage]"))
    causes += resource_list(requests, "spec.resources.requests")
    if old is not None:
        frozen = {k: v for k, v in spec.items() if k not in ("resources", "volumeName")}
        before = {k: v for k, v in old["spec"].items() if k not in ("resources", "volumeName")}
        if frozen != before:
            text = (
                "spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims"
            )
            causes.append(Cause.forbidden("spec", text))
    return causes


def budget(new: Object, old: Object | None) -> list[Cause]:
    spec = new.get("spec") or {}
    causes: list[Cause] = []
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        causes.append(Cause.invalid("spec", spec, text))
    causes += count_or_percent(least, "spec.minAvailable")
    causes += count_or_percent(most, "spec.maxUnavailable")
    return causes + label_selector(spec.get("selector"), "spec.selector")


def priority_class(new: Object, old: Object | None) -> list[Cause]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    causes: list[Cause] = []
    if name.startswith("system-") and name not in (
        "system-cluster-critical",
        "system-node-critical",
    ):
        text = "priority class names with 'system-' prefix are reserved for system use only"
        causes.append(Cause.forbidden("metadata.name", text))
    elif not name.startswith("system-") and value > _HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        causes.append(Cause.forbidden("value", text))
    if old is not None:
        if value != old.get("value", 0):
            causes.append(Cause.forbidden("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(Cause.invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
    return causes


def storage_class(new: Object, old: Object | None) -> list[Cause]:
    causes: list[Cause] = []
    if not new.get("provisioner"):
        causes.append(Cause.required("provisioner"))
    known = ("Delete", "Retain")
    causes += one_of(new.get("reclaimPolicy"), "reclaimPolicy", known)
    modes = ("Immediate", "WaitForFirstConsumer")
    causes += one_of(new.get("volumeBindingMode"), "volumeBindingMode", modes)
    if old is not None:
        causes += immutable(new, old, ("provisioner", "reclaimPolicy", "volumeBindingMode"))
        if new.get("parameters") != old.get("parameters"):
            text = "updates to parameters are forbidden."
            causes.append(Cause.forbidden("parameters", text))
    return causes


def role(new: Object, old: Object | None) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(new.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            text = "verbs must contain at least one value"
            causes.append(Cause.required(f"{path}.verbs", text))
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            causes.append(Cause.required(f"{path}.apiGroups", text))
        if not rule.get("resources"):
            text = "resource rules must supply at least one resource"
            causes.append(Cause.required(f"{path}.resources", text))
    return causes


def role_binding(new: Object, old: Object | None) -> list[Cause]:
    reference = new.get("roleRef") or {}
    causes: list[Cause] = []
    if reference.get("apiGroup") != "rbac.authorization.k8s.io":
        known = ("rbac.authorization.k8s.io",)
        causes.append(Cause.unsupported("roleRef.apiGroup", reference.get("apiGroup"), known))
    kinds = ("Role", "ClusterRole") if new["metadata"].get("namespace") else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        causes.append(Cause.unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    if not reference.get("name"):
        causes.append(Cause.required("roleRef.name"))
    for index, subject in enumerate(new.get("subjects") or ()):
        causes += _subject(subject, f"subjects[{index}]")
    return causes


def lease(new: Object, old: Object | None) -> list[Cause]:
    spec = new.get("spec") or {}
    causes: list[Cause] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        text = "must be greater than 0"
        causes.append(Cause.invalid("spec.leaseDurationSeconds", duration, text))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        causes.append(Cause.invalid("spec.leaseTransitions", transitions, text))
    return causes


def resource_claim(new: Object, old: Object | None) -> list[Cause]:
    causes = _device_claim(new.get("spec") or {}, "spec")
    if old is not None and new.get("spec") != old.get("spec"):
        causes.append(Cause.invalid("spec", new.get("spec"), IMMUTABLE))
    return causes


def resource_claim_template(new: Object, old: Object | None) -> list[Cause]:
    causes = _device_claim((new.get("spec") or {}).get("spec") or {}, "spec.spec")
    if old is not None and new.get("spec") != old.get("spec"):
        causes.append(Cause.invalid("spec", new.get("spec"), IMMUTABLE))
    return causes


def _keys(data: Any, path: str) -> list[Cause]:
    allowed = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")
    causes: list[Cause] = []
    for key in data or {}:
        where = f"{path}[{key}]"
        if key in (".", ".."):
            causes.append(Cause.invalid(where, key, f"must not be '{key}'"))
        elif not key or set(key) - allowed:
            causes.append(Cause.invalid(where, key, _KEY_RULE))
    return causes


def _size(obj: Object, fields: tuple[str, ...]) -> list[Cause]:
    total = sum(len(str(v)) for name in fields for v in (obj.get(name) or {}).values())
    if total <= _DATA_LIMIT_BYTES:
        return []
    text = f"Too long: may not be more than {_DATA_LIMIT_BYTES} bytes"
    return [Cause("FieldValueTooLong", text, "")]


def _frozen(new: Object, old: Object, fields: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    causes = [Cause.forbidden(name, text) for name in fields if new.get(name) != old.get(name)]
    if not new.get("immutable"):
        causes.insert(0, Cause.forbidden("immutable", text))
    return causes


def _service_port(port: Object, path: str, several: bool, names: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = port.get("name") or ""
    if several and not name:
        causes.append(Cause.required(f"{path}.name"))
    elif name:
        causes += label_name(name, f"{path}.name")
        if name in names:
            causes.append(Cause.duplicate(f"{path}.name", name))
        names.add(name)
    number = port.get("port", 0)
    if not 1 <= number <= 65535:
        text = "must be between 1 and 65535, inclusive"
        causes.append(Cause.invalid(f"{path}.port", number, text))
    return causes + one_of(port.get("protocol"), f"{path}.protocol", ("SCTP", "TCP", "UDP"))


def _access_modes(spec: Object, path: str) -> list[Cause]:
    modes = spec.get("accessModes") or ()
    if not modes:
        return [Cause.required(f"{path}.accessModes", "at least 1 access mode is required")]
    return [
        Cause.unsupported(f"{path}.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]


def _subject(subject: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not subject.get("name"):
        causes.append(Cause.required(f"{path}.name"))
    kind = subject.get("kind")
    if kind == "ServiceAccount":
        if subject.get("name") and name_faults(subject["name"]):
            causes += subdomain(subject["name"], f"{path}.name")
        if not subject.get("namespace"):
            causes.append(Cause.required(f"{path}.namespace"))
    elif kind not in ("User", "Group"):
        known = ("ServiceAccount", "User", "Group")
        causes.append(Cause.unsupported(f"{path}.kind", kind or "", known))
    return causes


def _device_claim(spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        where = f"{path}.devices.requests[{index}]"
        causes += label_name(request.get("name"), f"{where}.name")
        if request.get("name") in seen:
            causes.append(Cause.duplicate(f"{where}.name", request["name"]))
        seen.add(request.get("name", ""))
        exactly, options = request.get("exactly"), request.get("firstAvailable")
        if not exactly and not options:
            text = "exactly one of `exactly` or `firstAvailable` is required"
            causes.append(Cause.required(where, text))
        elif exactly is not None and not exactly.get("deviceClassName"):
            causes.append(Cause.required(f"{where}.exactly.deviceClassName"))
    return causes
