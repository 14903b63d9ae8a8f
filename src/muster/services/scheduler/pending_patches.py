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
        self._said: dict[Key, dict[str, GroupPatch]] = {}

    def say(self, group: Key, words: GroupPatch) -> GroupPatch:
        """All that is to be written now: with the annotations that may not have been yet."""
        said = self._said.setdefault(group, {})
        before = said.get(words.slot)
        if before is not None and words.annotations:
            words = replace(words, annotations={**before.annotations, **words.annotations})
        said[words.slot] = words
        return words

    def landed(self, group: Key, words: GroupPatch, version: str) -> None:
        """They are written. Without a version that can be compared they count no more."""
        if self._holds(group, words):
            if version.isdigit():
                self._said[group][words.slot] = replace(words, version=int(version))
            else:
                self._drop(group, words.slot)

    def lost(self, group: Key, words: GroupPatch) -> None:
        """They will not be written."""
        if self._holds(group, words):
            self._drop(group, words.slot)

    def forget(self, group: Key) -> None:
        self._said.pop(group, None)

    def over(self, group: PodGroup) -> PodGroup:
        """The group as it will be when the watch has caught up with us."""
        for slot, words in tuple(self._said.get(group.key, {}).items()):
            if _is_observed(group, words):
                self._drop(group.key, slot)
            else:
                group = _patched(group, words)
        return group

    def _holds(self, group: Key, words: GroupPatch) -> bool:
        return self._said.get(group, {}).get(words.slot) is words

    def _drop(self, group: Key, slot: str) -> None:
        said = self._said[group]
        del said[slot]
        if not said:
            del self._said[group]


def _is_observed(group: PodGroup, words: GroupPatch) -> bool:
    shown = group.metadata.resource_version
    return words.version is not None and shown.isdigit() and int(shown) >= words.version


def _patched(group: PodGroup, words: GroupPatch) -> PodGroup:
    if words.conditions is not None:
        status = meta.replace(group.status, scheduling_conditions=words.conditions)
        return meta.replace(group, status=status)
    notes = {**group.metadata.annotations, **words.annotations}
    kept = {key: value for key, value in notes.items() if value is not None}
    return meta.replace(group, metadata=meta.replace(group.metadata, annotations=kept))
