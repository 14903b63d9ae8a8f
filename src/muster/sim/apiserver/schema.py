"""The schema of a custom resource, as the server's generic path wants it.

`structural(openapi)` makes the `Schema` of one version of a CustomResourceDefinition;
`definition_causes(crd)` says what is wrong with the definition itself. Both answer as the real API
server does, down to the words and the places of the faults.
"""

from collections.abc import Mapping
from typing import Any

from muster.sim.apiserver.definition import definition_faults
from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.rules import rule_faults
from muster.sim.apiserver.structural import faults, shaping
from muster.sim.apiserver.structural.faults import BLOCKING, Fault
from muster.sim.apiserver.structural.lists import embedded_faults, list_faults
from muster.sim.apiserver.structural.node import SchemaNode, node_of
from muster.sim.apiserver.structural.values import ABSENT, value_faults

_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class Structural:
    """A structural schema: prunes, defaults and validates objects of one custom kind."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        self._openapi = openapi
        self._root = _without_identity(node_of(openapi))
        self._has_rules = self._root.has_rules()

    @property
    def openapi(self) -> Mapping[str, Any]:
        return self._openapi

    def prune(self, obj: Object) -> list[str]:
        return shaping.prune(obj, self._root)

    def default(self, obj: Object) -> None:
        shaping.drop_nulls(obj, self._root)
        shaping.fill_defaults(obj, self._root)
        shaping.plain_numbers(obj, self._root)

    def validate(self, new: Object, old: Object | None) -> list[Cause]:
        before = ABSENT if old is None else old
        found = value_faults(new, self._root, before)
        found += embedded_faults(new, self._root)
        found += self._changed_lists(new, old)
        return [fault.cause() for fault in self._with_rules(found, new, before)]

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """What is wrong with a write of the status: only that part is checked."""
        part = self._root.properties.get("status")
        if part is None or "status" not in new:
            return []
        found = value_faults(new["status"], part, old.get("status", ABSENT))
        causes = [fault.cause("status") for fault in found]
        others = self._changed_lists(new, old)
        if self._has_rules and any(fault.reason in BLOCKING for fault in found + others):
            others.append(_not_checked())
        else:
            others += self._rule_faults(new, old)
        return causes + [fault.cause() for fault in others]

    def _changed_lists(self, new: Object, old: Object | None) -> list[Fault]:
        """Duplicates, unless the stored object had some already."""
        if old is not None and list_faults(old, self._root):
            return []
        return list_faults(new, self._root)

    def _with_rules(self, found: list[Fault], new: Object, before: Any) -> list[Fault]:
        if not self._has_rules:
            return found
        if any(fault.reason in BLOCKING for fault in found):
            return [*found, _not_checked()]
        return found + self._rule_faults(new, before)

    def _rule_faults(self, new: Object, before: Any) -> list[Fault]:
        return rule_faults(new, self._root, before) if self._has_rules else []


def structural(openapi: Mapping[str, Any]) -> Structural:
    """The schema of one version's `openAPIV3Schema`."""
    return Structural(openapi)


def definition_causes(crd: Object) -> list[Cause]:
    """What is wrong with a CustomResourceDefinition."""
    return [fault.cause() for fault in definition_faults(crd)]


def _not_checked() -> Fault:
    """The cause that rules were not run on a value with type errors."""
    return faults.invalid(None, _NOT_CHECKED, None)


def _without_identity(root: SchemaNode) -> SchemaNode:
    """The server itself sees to `apiVersion` and `kind`, which stored objects do not carry."""
    root.required = tuple(name for name in root.required if name not in ("apiVersion", "kind"))
    return root
