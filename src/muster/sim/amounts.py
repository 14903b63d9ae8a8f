"""Resources of pods, as amounts by name: what containers ask for, and what the pod does."""

from collections.abc import Iterable, Mapping
from typing import Any

from muster.api.quantity import BadQuantity, Quantity

Amounts = dict[str, Quantity]


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A resource list read; what is not an amount is left out."""
    read: Amounts = {}
    for name, value in (resources or {}).items():
        try:
            read[name] = Quantity(value)
        except BadQuantity:
            continue
    return read


def added(*lists: Mapping[str, Quantity]) -> Amounts:
    total: Amounts = {}
    for each in lists:
        for name, amount in each.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def largest(*lists: Mapping[str, Quantity]) -> Amounts:
    most: Amounts = {}
    for each in lists:
        for name, amount in each.items():
            if name not in most or most[name] < amount:
                most[name] = amount
    return most


def pod_amounts(spec: Mapping[str, Any], which: str = "requests") -> Amounts:
    """What a pod asks for (or its limits): containers together, or the largest init container.

    Init containers that keep running (restartPolicy Always) count with all that start after them.
    """
    running = added(*(_of(each, which) for each in spec.get("containers") or ()))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for each in spec.get("initContainers") or ():
        own = _of(each, which)
        if each.get("restartPolicy") == "Always":
            sidecars = added(sidecars, own)
            starting = largest(starting, sidecars)
        else:
            starting = largest(starting, added(sidecars, own))
    total = largest(added(running, sidecars), starting)
    overhead = amounts(spec.get("overhead"))
    if which == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def texts(values: Mapping[str, Quantity]) -> dict[str, str]:
    """Amounts as they are written in objects, in the order of their names."""
    return {name: str(values[name]) for name in sorted(values)}


def joined(values: Mapping[str, Quantity], names: Iterable[str]) -> str:
    """`cpu=2,memory=4Gi`: how messages list amounts."""
    return ",".join(f"{name}={values.get(name, Quantity(0))}" for name in sorted(names))


def _of(container: Mapping[str, Any], which: str) -> Amounts:
    resources = container.get("resources") or {}
    if which == "limits":
        return amounts(resources.get("limits"))
    # A limit without a request is a request.
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))
