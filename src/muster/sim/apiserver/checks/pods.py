"""What a pod may hold, and what of it may change."""

from collections.abc import Mapping
from typing import Any

from muster.sim.apiserver.checks.common_rules import (
    duplicates,
    label_name,
    label_selector,
    not_negative,
    one_of,
    resource_list,
    subdomain,
)
from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.objects import key_causes, label_causes
from muster.sim.apiserver.quantities import amount

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULLS = ("Always", "IfNotPresent", "Never")
_MESSAGES = ("FallbackToLogsOnError", "File")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# Each volume has exactly one of these beside its name.
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod(new: Object, old: Object | None) -> list[Cause]:
    causes = pod_spec(new["spec"], "spec", _RESTARTS)
    return causes if old is None else causes + _changes(new, old)


def pod_template(
    template: Any, path: str, restarts: tuple[str, ...], claimed: frozenset[Any] = frozenset()
) -> list[Cause]:
    """`claimed`: names of volumes that the workload adds to its pods."""
    template = template or {}
    labels = (template.get("metadata") or {}).get("labels")
    causes = label_causes(labels, f"{path}.labels") if labels else []
    return causes + pod_spec(template.get("spec") or {}, f"{path}.spec", restarts, claimed)


def pod_spec(
    spec: Object, path: str, restarts: tuple[str, ...], claimed: frozenset[Any] = frozenset()
) -> list[Cause]:
    causes = _volumes(spec, path)
    volumes = {v.get("name") for v in spec.get("volumes") or ()} | claimed
    causes += _containers(spec, path, volumes)
    causes += _init_containers(spec, path, volumes)
    if restarts is _RESTARTS:
        causes += one_of(spec.get("restartPolicy"), f"{path}.restartPolicy", _RESTARTS)
    elif spec.get("restartPolicy") == "Always" and "Always" not in restarts:
        listed = ", ".join(f'"{word}"' for word in restarts)
        causes.append(Cause.required(f"{path}.restartPolicy", f"valid values: {listed}"))
    elif spec.get("restartPolicy") not in restarts:
        where = f"{path}.restartPolicy"
        causes.append(Cause.unsupported(where, spec.get("restartPolicy"), restarts))
    causes += one_of(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS)
    causes += label_causes(spec.get("nodeSelector"), f"{path}.nodeSelector")
    if spec.get("serviceAccountName"):
        causes += subdomain(spec["serviceAccountName"], f"{path}.serviceAccountName")
    if spec.get("nodeName"):
        causes += subdomain(spec["nodeName"], f"{path}.nodeName")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        text = "must be between 1 and 2147483647, inclusive"
        causes.append(Cause.invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    causes += _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += _tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    causes += _spreads(spec.get("topologySpreadConstraints") or (), path)
    if spec.get("priorityClassName"):
        causes += subdomain(spec["priorityClassName"], f"{path}.priorityClassName")
    causes += _gates(spec, path)
    return causes + _claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims")


def _containers(spec: Object, path: str, volumes: set[Any]) -> list[Cause]:
    containers = spec.get("containers") or ()
    if not containers:
        return [Cause.required(f"{path}.containers")]
    causes: list[Cause] = []
    for index, container in enumerate(containers):
        causes += _container(container, f"{path}.containers[{index}]", volumes, spec)
    names = [c.get("name") for c in containers if c.get("name")]
    return causes + duplicates(names, f"{path}.containers", "name")


def _init_containers(spec: Object, path: str, volumes: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    taken = {c.get("name") for c in spec.get("containers") or ()}
    for index, container in enumerate(spec.get("initContainers") or ()):
        where = f"{path}.initContainers[{index}]"
        causes += _container(container, where, volumes, spec)
        if container.get("name") in taken:
            causes.append(Cause.duplicate(f"{where}.name", container["name"]))
        taken.add(container.get("name"))
    return causes


def _container(container: Object, path: str, volumes: set[Any], spec: Object) -> list[Cause]:
    causes = label_name(container.get("name"), f"{path}.name")
    image = container.get("image") or ""
    if not image:
        causes.append(Cause.required(f"{path}.image"))
    elif image.strip() != image:
        text = "must not have leading or trailing whitespace"
        causes.append(Cause.invalid(f"{path}.image", image, text))
    policy = container.get("terminationMessagePolicy")
    causes += one_of(policy, f"{path}.terminationMessagePolicy", _MESSAGES)
    causes += _ports(container.get("ports") or (), f"{path}.ports")
    causes += _environment(container.get("env") or (), f"{path}.env")
    causes += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    causes += one_of(container.get("imagePullPolicy"), f"{path}.imagePullPolicy", _PULLS)
    causes += _probes(container, path)
    return causes + _resources(container.get("resources") or {}, f"{path}.resources", spec)


def _ports(ports: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if port.get("name"):
            if port["name"] in names:
                causes.append(Cause.duplicate(f"{where}.name", port["name"]))
            names.add(port["name"])
        number = port.get("containerPort", 0)
        if number == 0:
            causes.append(Cause.required(f"{where}.containerPort"))
        elif not 1 <= number <= 65535:
            text = "must be between 1 and 65535, inclusive"
            causes.append(Cause.invalid(f"{where}.containerPort", number, text))
        host = port.get("hostPort", 0)
        if host and not 1 <= host <= 65535:
            text = "must be between 1 and 65535, inclusive"
            causes.append(Cause.invalid(f"{where}.hostPort", host, text))
        causes += one_of(port.get("protocol"), f"{where}.protocol", _PROTOCOLS)
    return causes


def _environment(variables: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not name:
            causes.append(Cause.required(f"{path}[{index}].name"))
        elif "=" in name:
            text = (
                "a valid environment variable name must consist only of printable ASCII characters "
                "other than '='"
            )
            causes.append(Cause.invalid(f"{path}[{index}].name", name, text))
        if variable.get("value") and variable.get("valueFrom"):
            text = "may not be specified when `value` is not empty"
            causes.append(Cause.invalid(f"{path}[{index}].valueFrom", "", text))
    return causes


def _mounts(mounts: Any, path: str, volumes: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        if not mount.get("name"):
            causes.append(Cause.required(f"{where}.name"))
        elif mount["name"] not in volumes:
            causes.append(Cause.not_found(f"{where}.name", mount["name"]))
        if not mount.get("mountPath"):
            causes.append(Cause.required(f"{where}.mountPath"))
        elif mount["mountPath"] in seen:
            text = f'Invalid value: "{mount["mountPath"]}": must be unique'
            causes.append(Cause("FieldValueInvalid", text, f"{where}.mountPath"))
        seen.add(mount.get("mountPath", ""))
    return causes


def _probes(container: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("livenessProbe", "startupProbe", "readinessProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        where = f"{path}.{name}"
        handlers = [h for h in ("exec", "httpGet", "tcpSocket", "grpc") if h in probe]
        if not handlers:
            causes.append(Cause.required(where, "must specify a handler type"))
        for extra in handlers[1:]:
            text = "may not specify more than 1 handler type"
            causes.append(Cause.forbidden(f"{where}.{extra}", text))
        for field in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ):
            causes += not_negative(probe.get(field), f"{where}.{field}")
        if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            value = probe["successThreshold"]
            causes.append(Cause.invalid(f"{where}.successThreshold", value, "must be 1"))
    return causes


def _resources(resources: Object, path: str, spec: Object) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = resource_list(limits, f"{path}.limits", of_container=True)
    causes += resource_list(requests, f"{path}.requests", of_container=True)
    if causes:
        return causes
    for name, value in sorted(requests.items()):
        where = f"{path}.requests"
        if name in limits and amount(value) > amount(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(Cause.invalid(where, value, text))
        elif _may_not_overcommit(name) and name in limits:
            if amount(value) != amount(limits[name]):
                text = f"must be equal to {name} limit of {limits[name]}"
                causes.append(Cause.invalid(where, value, text))
        elif _may_not_overcommit(name) and name not in limits:
            text = "Limit must be set for non overcommitable resources"
            causes.append(Cause.required(f"{path}.limits", text))
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in known:
            causes.append(Cause.not_found(f"{path}.claims[{index}].name", claim.get("name")))
    return causes


def _may_not_overcommit(name: str) -> bool:
    return name.startswith("hugepages-") or ("/" in name and "kubernetes.io/" not in name)


def _volumes(spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        where = f"{path}.volumes[{index}]"
        sources = [key for key in volume if key != "name"]
        if not sources:
            causes.append(Cause.required(where, "must specify a volume type"))
        for extra in sources[1:]:
            text = "may not specify more than 1 volume type"
            causes.append(Cause.forbidden(f"{where}.{extra}", text))
        name = volume.get("name") or ""
        found = label_name(name, f"{where}.name")
        if not found and name in names:
            found = [Cause.duplicate(f"{where}.name", name)]
        if len(sources) == 1 and not found:
            names.add(name)
        causes += found
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            causes.append(Cause.required(f"{where}.persistentVolumeClaim.claimName"))
        if "configMap" in volume and not volume["configMap"].get("name"):
            causes.append(Cause.required(f"{where}.configMap.name"))
        if "secret" in volume and not volume["secret"].get("secretName"):
            causes.append(Cause.required(f"{where}.secret.secretName"))
    return causes


def _affinity(affinity: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            text = "must have at least one node selector term"
            causes.append(Cause.required(f"{where}.nodeSelectorTerms", text))
        for index, term in enumerate(terms):
            causes += _node_term(term, f"{where}.nodeSelectorTerms[{index}]")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        hard = "requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.get(hard) or ()):
            causes += _pod_term(term, f"{path}.{kind}.{hard}[{index}]")
        soft = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, weighted in enumerate(rules.get(soft) or ()):
            where = f"{path}.{kind}.{soft}[{index}]"
            if not 1 <= weighted.get("weight", 0) <= 100:
                text = "must be in the range 1-100"
                causes.append(Cause.invalid(f"{where}.weight", weighted.get("weight", 0), text))
            causes += _pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return causes


def _node_term(term: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where, values = f"{path}.matchExpressions[{index}]", expression.get("values") or ()
        match expression.get("operator"):
            case "In" | "NotIn":
                if not values:
                    text = "must be specified when `operator` is 'In' or 'NotIn'"
                    causes.append(Cause.required(f"{where}.values", text))
            case "Exists" | "DoesNotExist":
                if values:
                    text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                    causes.append(Cause.forbidden(f"{where}.values", text))
            case "Gt" | "Lt":
                if len(values) != 1:
                    text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                    causes.append(Cause.required(f"{where}.values", text))
            case other:
                text = "not a valid selector operator"
                causes.append(Cause.invalid(f"{where}.operator", other or "", text))
        causes += key_causes(expression.get("key") or "", f"{where}.key")
    return causes


def _pod_term(term: Object, path: str) -> list[Cause]:
    causes = label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    key = term.get("topologyKey")
    if not key:
        causes.append(Cause.required(f"{path}.topologyKey", "can not be empty"))
    return causes + key_causes(key or "", f"{path}.topologyKey")


def _tolerations(tolerations: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        if key:
            causes += key_causes(key, f"{where}.key")
        if not key and operator != "Exists":
            text = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            causes.append(Cause.invalid(f"{where}.operator", operator, text))
        if (
            toleration.get("tolerationSeconds") is not None
            and toleration.get("effect") != "NoExecute"
        ):
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(Cause.invalid(f"{where}.effect", toleration.get("effect") or "", text))
        if operator not in ("", "Equal", "Exists", "Lt", "Gt"):
            known = ("Equal", "Exists")
            causes.append(Cause.unsupported(f"{where}.operator", operator, known))
        if operator == "Exists" and toleration.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            causes.append(Cause.invalid(f"{where}.operator", toleration, text))
        if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
            causes.append(Cause.unsupported(f"{where}.effect", toleration["effect"], _EFFECTS))
    return causes


def _spreads(constraints: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, constraint in enumerate(constraints):
        where = f"{path}.topologySpreadConstraints[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            skew = constraint.get("maxSkew", 0)
            causes.append(Cause.invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not constraint.get("topologyKey"):
            causes.append(Cause.required(f"{where}.topologyKey", "can not be empty"))
        known = ("DoNotSchedule", "ScheduleAnyway")
        if constraint.get("whenUnsatisfiable") not in known:
            value = constraint.get("whenUnsatisfiable", "")
            causes.append(Cause.unsupported(f"{where}.whenUnsatisfiable", value, known))
    return causes


def _gates(spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        causes += key_causes(gate.get("name") or "", f"{path}.schedulingGates[{index}]")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        causes.append(Cause.forbidden(f"{path}.nodeName", text))
    return causes


def _claims(claims: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        causes += label_name(claim.get("name"), f"{where}.name")
        named, templated = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if bool(named) == bool(templated):
            choice = "`resourceClaimName`, `resourceClaimTemplateName`"
            text = f"must specify one of: {choice}"
            if named:
                text = f"at most one of {choice} may be specified"
            causes.append(Cause.invalid(where, claim, text))
    return causes


def _changes(new: Object, old: Object) -> list[Cause]:
    """Only a few fields of a pod may change after it was made."""
    causes: list[Cause] = []
    spec, was = new["spec"], old["spec"]
    if len(spec.get("containers") or ()) != len(was.get("containers") or ()):
        text = "pod updates may not add or remove containers"
        return [Cause.forbidden("spec.containers", text)]
    deadline, before = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if before is not None and deadline is None:
        text = "must not update from a positive integer to nil value"
        causes.append(Cause.invalid("spec.activeDeadlineSeconds", None, text))
    elif before is not None and deadline is not None and deadline > before:
        text = "must be less than or equal to previous value"
        causes.append(Cause.invalid("spec.activeDeadlineSeconds", deadline, text))
    missing = [t for t in was.get("tolerations") or () if t not in (spec.get("tolerations") or ())]
    if missing:
        text = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(Cause.forbidden("spec.tolerations", text))
    gates, had = spec.get("schedulingGates") or [], was.get("schedulingGates") or []
    if any(gate not in had for gate in gates):
        text = "only deletion is allowed, but found new scheduling gate"
        causes.append(Cause.forbidden("spec.schedulingGates", text))
    if _frozen(spec, bool(had)) != _frozen(was, bool(had)):
        text = f"pod updates may not change fields other than {_CHANGEABLE}"
        causes.append(Cause.forbidden("spec", text))
    return causes


def _frozen(spec: Object, gated: bool) -> Mapping[str, Any]:
    """The part of a spec that must stay; a gated pod may still narrow where it goes."""
    changeable = {
        "activeDeadlineSeconds",
        "tolerations",
        "schedulingGates",
        "terminationGracePeriodSeconds",
    }
    if gated:
        changeable |= {"nodeSelector", "affinity"}
    kept = {key: value for key, value in spec.items() if key not in changeable}
    for name in ("containers", "initContainers"):
        kept[name] = [
            {key: value for key, value in container.items() if key != "image"}
            for container in spec.get(name) or ()
        ]
    return kept
