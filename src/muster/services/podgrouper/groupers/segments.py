"""Segments: runs of workers that belong together in the topology."""

from muster.api import names
from muster.api.bounds import SEGMENTS_MAX
from muster.services.podgrouper.groupers.default import topology_of
from muster.services.podgrouper.groupers.fields import annotations
from muster.services.podgrouper.groupers.group import GroupTopology, Object

SEGMENT_SIZE = names.ANNOTATION_SEGMENT_SIZE
MOST_SEGMENTS = SEGMENTS_MAX


def segment_topology(pod: Object, template: Object, owner: Object) -> GroupTopology | None:
    """Where each segment stays together; None unless a topology and a level are both said."""
    required = _first(names.ANNOTATION_SEGMENT_TOPOLOGY_REQUIRED, pod, template)
    preferred = _first(names.ANNOTATION_SEGMENT_TOPOLOGY_PREFERRED, pod, template)
    named = (topology_of(annotations(thing)).name for thing in (pod, template, owner))
    name = next((name for name in named if name), "")
    return GroupTopology(name, required, preferred) if name and (required or preferred) else None


def _first(key: str, *things: Object) -> str:
    return next((annotations(thing)[key] for thing in things if annotations(thing).get(key)), "")
