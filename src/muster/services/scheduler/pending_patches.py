"""Patches of pod groups that the watch does not show yet, overlaid on what it shows.

A patch is assumed when it is decided, so that a slow watch makes us neither write it twice nor
decide by what is no longer true; it is forgotten when the watch shows the resource version that the
API server answered with, or when the write failed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.api import meta
from muster.api.meta import Key
from muster.api.podgroup import PodGroup, SchedulingCondition


@dataclass(frozen=True, slots=True)
class GroupPatch:
    """Parts of a pod group as we want them: annotations (None: none), or all conditions."""

    annotations: Mapping[str, str | None] = field(default_factory=dict)
    conditions: tuple[SchedulingCondition, ...] | None = None
    version: int | None = None
    """Resource version of the group with the patch; None until the server answered."""

    @property
    def slot(self) -> str:
        """A newer patch replaces the older one of the same slot."""
        return "annotations" if self.conditions is None else "conditions"


class PendingPatches:
    """Patches by pod group and slot."""

    def __init__(self) -> None:
        self._patches: dict[Key, dict[str, GroupPatch]] = {}

    def assume(self, group: Key, patch: GroupPatch) -> GroupPatch:
        """The patch to write, with annotations of an earlier one that may not be written yet."""
        pending = self._patches.setdefault(group, {})
        earlier = pending.get(patch.slot)
        if earlier is not None and patch.annotations:
            patch = replace(patch, annotations={**earlier.annotations, **patch.annotations})
        pending[patch.slot] = patch
        return patch

    def confirm(self, group: Key, patch: GroupPatch, version: str) -> None:
        """It is written. Without a resource version that can be compared it is forgotten."""
        if self._is_current(group, patch):
            if version.isdigit():
                self._patches[group][patch.slot] = replace(patch, version=int(version))
            else:
                self._remove(group, patch.slot)

    def forget(self, group: Key, patch: GroupPatch) -> None:
        """It will not be written."""
        if self._is_current(group, patch):
            self._remove(group, patch.slot)

    def forget_group(self, group: Key) -> None:
        self._patches.pop(group, None)

    def overlay(self, group: PodGroup) -> PodGroup:
        """The group as it will be when the watch has caught up."""
        for slot, patch in tuple(self._patches.get(group.key, {}).items()):
            if _is_observed(group, patch):
                self._remove(group.key, slot)
            else:
                group = _patched(group, patch)
        return group

    def _is_current(self, group: Key, patch: GroupPatch) -> bool:
        return self._patches.get(group, {}).get(patch.slot) is patch

    def _remove(self, group: Key, slot: str) -> None:
        pending = self._patches[group]
        del pending[slot]
        if not pending:
            del self._patches[group]


def _is_observed(group: PodGroup, patch: GroupPatch) -> bool:
    shown = group.metadata.resource_version
    return patch.version is not None and shown.isdigit() and int(shown) >= patch.version


def _patched(group: PodGroup, patch: GroupPatch) -> PodGroup:
    if patch.conditions is not None:
        status = meta.replace(group.status, scheduling_conditions=patch.conditions)
        return meta.replace(group, status=status)
    notes = {**group.metadata.annotations, **patch.annotations}
    kept = {key: value for key, value in notes.items() if value is not None}
    return meta.replace(group, metadata=meta.replace(group.metadata, annotations=kept))
