"""The components that a Karta describes: which pods are of which, and how many there are to be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from muster.services.podgrouper.groupers.group import GroupingError, Object
from muster.services.podgrouper.groupers.paths import is_stream, passes, values_at

Component = Mapping[str, Any]
_POD_DEFINITIONS = ("podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition")


@dataclass(frozen=True)
class Components:
    """Root first, in the order of the Karta."""

    listed: Sequence[Component]

    @property
    def root(self) -> str:
        return str(self.listed[0].get("name") or "")

    @cached_property
    def by_name(self) -> dict[str, Component]:
        return {str(one.get("name") or ""): one for one in self.listed}

    def is_sound(self) -> bool:
        """Whether they are a tree below the root: the original passes over any other."""
        root = self.listed[0]
        is_tree = all(self.by_name) and len(self.by_name) == len(self.listed)
        return (
            is_tree
            and len(self.subtree(self.root)) == len(self.listed)
            and root.get("ownerRef") is None
            and root.get("statusDefinition") is not None
            and all(map(_is_sound, self.listed))
        )

    def below(self, name: str) -> list[str]:
        return [str(one.get("name")) for one in self.listed if one.get("ownerRef") == name]

    def subtree(self, name: str) -> list[Component]:
        """A component and all below it; a description may go in a circle."""
        names = [name]
        for each in names:
            names += [one for one in self.below(each) if one not in names]
        return [one for one in self.listed if one.get("name") in names]

    def path_to_root(self, name: str) -> list[str]:
        found = [name]
        while owner := self.by_name[found[-1]].get("ownerRef"):
            found.append(str(owner))
        return found

    def is_of(self, pod: Object, name: str) -> bool:
        """Whether the pod is of the component, or of one below it."""
        return any(_is_selected(pod, one) for one in self.subtree(name))

    def leaf_of(self, pod: Object, pod_name: str) -> str:
        """The component with pods that this one is of: the only one there is, or the first that
        selects it.
        """
        leaves = [one for one in self.listed if has_pods(one)]
        of_pod = leaves if len(leaves) == 1 else [one for one in leaves if _is_selected(pod, one)]
        if not of_pod:
            raise GroupingError(f"no component found for pod {pod_name}")
        return str(of_pod[0].get("name"))

    def instance_of(self, owner: Object, pod: Object, name: str) -> str | None:
        """Which of a component's instances the pod is of; None where it has no instances."""
        component = self.by_name[name]
        known = _instances(owner, component)
        selector = component.get("podSelector")
        if not known or not known[0] or not selector:
            return None
        path = (selector.get("componentInstanceSelector") or {}).get("idPath", "")
        (said,) = single(pod, path, f'instance id path "{path}"')
        if said not in known:
            raise GroupingError(
                f'could not match instance id "{said}". existing instance ids [{" ".join(known)}]'
            )
        return said

    def scale(self, owner: Object, name: str, instance: str | None = None) -> int:
        """The pods of a component and of those below it: what both say is multiplied, and who says
        nothing leaves it to the other. Where no component of a Karta has a scale, its leaves count.
        """
        if not any(one.get("scaleDefinition") for one in self.listed):
            return self._leaves(owner, name, instance)
        own = sum(_scales(owner, self.by_name[name], instance))
        total = sum(self.scale(owner, child) for child in self.below(name))
        return own * total if own and total else own or total

    def _leaves(self, owner: Object, name: str, instance: str | None) -> int:
        component = self.by_name[name]
        if not has_pods(component):
            return sum(self._leaves(owner, child, None) for child in self.below(name))
        return 1 if instance is not None else len(_instances(owner, component))


def has_pods(component: Component) -> bool:
    return any((component.get("specDefinition") or {}).get(path) for path in _POD_DEFINITIONS)


def single(pod: Object, path: str, what: str) -> list[str]:
    """What the pod says there, as one text that is not empty."""
    found = stream(pod, path)
    if len(found) != 1 or found[0] in (None, ""):
        raise GroupingError(
            f"{what} returned an invalid value: it has to be one value of the pod, and not empty"
        )
    value = found[0]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def stream(thing: Any, path: str) -> list[Any]:
    """The values at a JQ path: None where there is none."""
    if not is_stream(path):
        raise GroupingError(f"path {path} is more than a chain of fields")
    return values_at(thing, path)


def lets_pass(pod: Object, condition: str) -> bool:
    """Whether the pod meets a filter."""
    found = passes(pod, condition)
    if found is None:
        raise GroupingError(
            f"filter {condition} is more than a chain of fields, or one compared with a value"
        )
    return found


def _is_sound(component: Component) -> bool:
    spec = component.get("specDefinition") or {}
    selector = component.get("podSelector") or {}
    has_instances = component.get("instanceIdPath") is not None
    finds_instances = selector.get("componentInstanceSelector") is not None
    forms = sum(spec.get(path) is not None for path in _POD_DEFINITIONS)
    return forms <= 1 and has_instances == finds_instances


def _is_selected(pod: Object, component: Component) -> bool:
    selector = (component.get("podSelector") or {}).get("componentTypeSelector") or {}
    if not selector.get("keyPath"):
        return False
    found = stream(pod, selector["keyPath"])
    if selector.get("value") is None:
        return any(value is not None for value in found)
    return selector["value"] in found


def _instances(owner: Object, component: Component) -> list[str]:
    """Their names; one without a name where it has no instances."""
    path = component.get("instanceIdPath")
    return [""] if path is None else [str(one) for one in stream(owner, path)]


def _scales(owner: Object, component: Component, instance: str | None) -> list[int]:
    """The pods of each instance, or of the one that is named."""
    definition = component.get("scaleDefinition")
    if definition is None:
        return []
    paths = (definition.get(key) for key in ("minReplicasPath", "replicasPath", "maxReplicasPath"))
    least, wanted, most = ([] if path is None else stream(owner, path) for path in paths)
    known, count = _instances(owner, component), max(len(least), len(wanted), len(most))
    if len(known) != count:
        raise GroupingError(
            f"instance ids count ({len(known)}) does not match results count ({count})"
        )
    scales = [_count(least, at) or _count(wanted, at) for at in range(count)]
    return [scales[known.index(instance)]] if instance is not None and count > 1 else scales


def _count(values: Sequence[Any], at: int) -> int:
    value = values[at] if at < len(values) else None
    return value if isinstance(value, int) and value > 0 else 0
