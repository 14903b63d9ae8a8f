"""What a resource claim needs, as frozen values: requests with their alternatives, and constraints.

Everything the allocator asks of a claim is here, with the device class's selectors folded in. Equal
claims are equal values, so that the claims of a gang's twins are answered once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.api.devices import (
    CapacityRequirements,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
)
from muster.model.constraint_terms import Toleration
from muster.model.from_api import tolerations


class NoSuchClass(Exception):
    """A request names a device class that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"device class {name} does not exist")
        self.name = name


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """One way to serve a request: so many devices (or all) that pass the selectors."""

    request: str
    """Its name in the claim: `request`, or `request/alternative`."""
    device_class: str
    selectors: tuple[str, ...]
    count: int = 1
    takes_all: bool = False
    is_admin: bool = False
    """Looks at devices that others hold, and holds none itself."""
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """What each device must have at least, by name, in billionths."""


@dataclass(frozen=True, slots=True)
class SameAttribute:
    """Devices of these requests (of all, if none is named) must agree, or differ, in an
    attribute.
    """

    attribute: str
    requests: tuple[str, ...] = ()
    must_differ: bool = False

    def concerns(self, request: str) -> bool:
        """Whether it binds devices of this request: a name, or `name/alternative`."""
        return (
            not self.requests
            or request in self.requests
            or (request.partition("/")[0] in self.requests)
        )


@dataclass(frozen=True, slots=True)
class ClaimNeed:
    """A claim: requests, each a tuple of alternatives with the best first; and constraints."""

    requests: tuple[tuple[DeviceNeed, ...], ...]
    constraints: tuple[SameAttribute, ...] = ()


def claim_need(claim: DeviceClaim, classes: Mapping[str, DeviceClass]) -> ClaimNeed:
    """What a claim needs. Raises NoSuchClass for one that asks for an unknown class."""
    return ClaimNeed(
        tuple(_alternatives(request, classes) for request in claim.requests),
        tuple(
            SameAttribute(
                constraint.match_attribute or constraint.distinct_attribute or "",
                tuple(sorted(constraint.requests)),
                must_differ=constraint.match_attribute is None,
            )
            for constraint in claim.constraints
        ),
    )


def _alternatives(
    request: DeviceRequest, classes: Mapping[str, DeviceClass]
) -> tuple[DeviceNeed, ...]:
    if request.exactly is not None:
        return (_device_need(request.name, request.exactly, classes),)
    known = [sub for sub in request.first_available if sub.device_class_name in classes]
    if not known and request.first_available:
        raise NoSuchClass(request.first_available[0].device_class_name)
    return tuple(_device_need(f"{request.name}/{sub.name}", sub, classes) for sub in known)


def _device_need(
    name: str, exact: ExactDeviceRequest | DeviceSubRequest, classes: Mapping[str, DeviceClass]
) -> DeviceNeed:
    found = classes.get(exact.device_class_name)
    if found is None:
        raise NoSuchClass(exact.device_class_name)
    selectors = (*found.spec.selectors, *exact.selectors)
    return DeviceNeed(
        request=name,
        device_class=exact.device_class_name,
        selectors=tuple(s.cel.expression for s in selectors if s.cel is not None),
        count=max(1, exact.count),
        takes_all=exact.allocation_mode == "All",
        is_admin=isinstance(exact, ExactDeviceRequest) and bool(exact.admin_access),
        tolerations=tolerations(exact.tolerations),
        capacity=() if exact.capacity is None else _amounts(exact.capacity),
    )


def _amounts(capacity: CapacityRequirements) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, amount.nano) for name, amount in capacity.requests.items()))


def about_selector(need: DeviceNeed, expression: str, problem: str) -> str:
    """What is wrong with a selector, and where it stands."""
    shown = expression if len(expression) <= _SHOWN_MAX else f"{expression[:_SHOWN_MAX]}..."
    where = f"request {need.request} (or device class {need.device_class})"
    return f"{where}: selector {shown!r}: {problem}"


_SHOWN_MAX = 200
