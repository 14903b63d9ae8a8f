"""What we said on pod groups and the watch does not show yet, laid over what it shows.

Our words count from the moment they are decided, so that a slow watch makes us neither say a thing
twice nor decide by what is no longer true. They count until the watch shows the version that the
API server answered with, or the write came to nothing.
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
    """Of the group once it held them; None while that is not known."""

    @property
    def slot(self) -> str:
        """Newer words replace older ones of the same slot."""
        return "annotations" if self.conditions is None else "conditions"


class PendingPatches:
    """Words by group."""

    def __init__(self) -> None:
        self._patches: dict[Key, dict[str, GroupPatch]] = {}

    def assume(self, group: Key, patch: GroupPatch) -> GroupPatch:
        """All that is to be written now: with the annotations that may not have been yet."""
        pending = self._patches.setdefault(group, {})
        earlier = pending.get(patch.slot)
        if earlier is not None and patch.annotations:
            patch = replace(patch, annotations={**earlier.annotations, **patch.annotations})
        pending[patch.slot] = patch
        return patch

    def confirm(self, group: Key, patch: GroupPatch, version: str) -> None:
        """They are written. Without a version that can be compared they count no more."""
        if self._is_current(group, patch):
            if version.isdigit():
                self._patches[group][patch.slot] = replace(patch, version=int(version))
            else:
                self._remove(group, patch.slot)

    def forget(self, group: Key, patch: GroupPatch) -> None:
        """They will not be written."""
        if self._is_current(group, patch):
            self._remove(group, patch.slot)

    def forget_group(self, group: Key) -> None:
        self._patches.pop(group, None)

    def overlay(self, group: PodGroup) -> PodGroup:
        """The group as it will be when the watch has caught up with us."""
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
