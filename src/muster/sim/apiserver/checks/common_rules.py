"""Checks that several kinds share: quantities, selectors, counts, references. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.api.bounds import PODS_PER_WORKLOAD_MAX
from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.objects import (
    LABEL_RULE,
    SUBDOMAIN_RULE,
    key_causes,
    label_causes,
    name_faults,
)
from muster.sim.apiserver.quantities import amount
from muster.sim.apiserver.selectors import is_label_value, matches_label_selector

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_PERCENT = re.compile(r"^[0-9]{1,9}%$")


def not_negative(value: Any, path: str) -> list[Cause]:
    if value is not None and value < 0:
        return [Cause.invalid(path, value, NOT_NEGATIVE)]
    return []


def count_of_pods(value: Any, path: str) -> list[Cause]:
    """Kubernetes would take any number, and go on making pods until the laptop is full."""
    if value is not None and value > PODS_PER_WORKLOAD_MAX:
        text = f"must be at most {PODS_PER_WORKLOAD_MAX}: the embedded cluster makes no more pods"
        return [Cause.invalid(path, value, f"{text} of one workload")]
    return not_negative(value, path)


def one_of(value: Any, path: str, known: Sequence[str]) -> list[Cause]:
    """An enum value; an empty one counts as missing."""
    if not value:
        return [Cause.required(path)]
    return [] if value in known else [Cause.unsupported(path, value, known)]


def label_name(value: Any, path: str) -> list[Cause]:
    if not value:
        return [Cause.required(path)]
    if len(value) > 63 or name_faults(value, "label"):
        return [Cause.invalid(path, value, LABEL_RULE)]
    return []


def subdomain(value: Any, path: str) -> list[Cause]:
    if not value:
        return [Cause.required(path)]
    return [Cause.invalid(path, value, SUBDOMAIN_RULE)] if name_faults(value) else []


def immutable(new: Object, old: Object, fields: Iterable[str], prefix: str = "") -> list[Cause]:
    """Fields that may not change once they are there."""
    return [
        Cause.invalid(f"{prefix}{name}", new.get(name), IMMUTABLE)
        for name in fields
        if new.get(name) != old.get(name)
    ]


def resource_list(
    resources: Mapping[str, str] | None, path: str, *, of_container: bool = False
) -> list[Cause]:
    causes: list[Cause] = []
    for name, value in sorted((resources or {}).items()):
        where = f"{path}[{name}]"
        causes += resource_name(name, where)
        if causes and "/" not in name and of_container and not _is_standard(name):
            text = "must be a standard resource for containers"
            causes.append(Cause.invalid(where, name, text))
        if amount(value) < 0:
            causes.append(Cause.invalid(where, value, NOT_NEGATIVE))
        elif _is_integer_resource(name) and amount(value) % 1:
            causes.append(Cause.invalid(where, value, "must be an integer"))
    return causes


def resource_name(name: str, path: str) -> list[Cause]:
    causes = key_causes(name, path)
    if not causes and "/" not in name and not _is_standard(name):
        text = "must be a standard resource type or fully qualified"
        return [Cause.invalid(path, name, text)]
    return causes


def _is_standard(name: str) -> bool:
    return name in _STANDARD_RESOURCES or name.startswith(("hugepages-", "attachable-volumes-"))


def _is_integer_resource(name: str) -> bool:
    """Extended resources come in whole units."""
    return "/" in name and not name.startswith("kubernetes.io/") and "kubernetes.io/" not in name


def label_selector(selector: Any, path: str) -> list[Cause]:
    causes = label_causes((selector or {}).get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate((selector or {}).get("matchExpressions") or ()):
        causes += _requirement(expression, f"{path}.matchExpressions[{index}]")
    return causes


def _requirement(expression: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    operator, values = expression.get("operator"), expression.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(Cause.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(Cause.forbidden(f"{path}.values", text))
    else:
        text = "not a valid selector operator"
        causes.append(Cause.invalid(f"{path}.operator", operator or "", text))
    causes += key_causes(expression.get("key") or "", f"{path}.key")
    for number, value in enumerate(values or ()):
        if not is_label_value(value):
            causes += label_causes({"x": value}, f"{path}.values[{number}]")
    return causes


def selector_of_template(spec: Object, path: str = "spec") -> list[Cause]:
    """A workload's selector: there, not empty, well formed, and matching its own pods."""
    selector = spec.get("selector")
    causes = label_selector(selector, f"{path}.selector")
    if selector is None:
        causes = [Cause.required(f"{path}.selector")]
    elif not causes and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = "empty selector is invalid for deployment"
        return [Cause.invalid(f"{path}.selector", selector, text)]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not matches_label_selector(selector, labels):
        text = "`selector` does not match template `labels`"
        causes.append(Cause.invalid(f"{path}.template.metadata.labels", labels, text))
    return causes


def count_or_percent(value: Any, path: str) -> list[Cause]:
    if isinstance(value, str):
        if not _PERCENT.match(value):
            text = (
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            return [Cause.invalid(path, value, text)]
        return []
    return not_negative(value, path)


def duplicates(names: Iterable[Any], path: str, field: str) -> list[Cause]:
    seen: set[Any] = set()
    causes = []
    for index, name in enumerate(names):
        if name in seen:
            causes.append(Cause.duplicate(f"{path}[{index}].{field}", name))
        seen.add(name)
    return causes
