"""Pod groups: trees of subgroups that can be satisfied, and topology levels that exist.

The texts about subgroups are KAI's, word for word: tools look for them.
"""

import json
from collections.abc import Container

from muster.api import names
from muster.api.bounds import SUB_GROUP_LEVELS_MAX, SUB_GROUPS_MAX
from muster.api.podgroup import (
    NON_PREEMPTIBLE,
    PodGroup,
    PodGroupSpec,
    SubGroup,
    TopologyConstraint,
)
from muster.api.validation.problems import (
    Problem,
    Problems,
    is_label_value,
    warning,
)

_EXCLUSIVE = "minMember and minSubGroup are mutually exclusive"
_BACKOFFS = (-1, 1)
_DISRUPTION_MODES = (names.DISRUPTION_MODE_POD, names.DISRUPTION_MODE_POD_GROUP)


def pod_group_problems(group: PodGroup, is_update: bool = False) -> Problems:
    """What is wrong with a group by itself, and what may surprise."""
    yield from subgroup_problems(group, is_update)
    yield from disruption_problems(group)
    yield from _surprises(group.spec)


def subgroup_problems(group: PodGroup, is_update: bool = False) -> Problems:
    """What is wrong with the tree of parts. A broken tree hides what is wrong inside it."""
    broken = next(_broken_tree(group.spec), None)
    if broken is not None:
        yield broken
    else:
        yield from _tree_problems(group.spec, is_update)


def is_tree(parts: tuple[SubGroup, ...]) -> bool:
    """Whether the scheduler can follow the parts; else the group counts as a single gang."""
    return next(_shape_problems(parts), None) is None


def disruption_problems(group: PodGroup) -> Problems:
    """A mode that is none counts as if nothing were said."""
    mode = group.metadata.annotations.get(names.ANNOTATION_DISRUPTION_MODE)
    if mode is not None and mode not in _DISRUPTION_MODES:
        path = f"metadata.annotations[{names.ANNOTATION_DISRUPTION_MODE}]"
        message = f"{path}: {json.dumps(mode)} is no mode and counts as if it were not there"
        yield warning(path, message, f"write one of {', '.join(_DISRUPTION_MODES)}")


def running_problems(group: PodGroup, older: PodGroup, queues: Container[str]) -> Problems:
    """What does not follow for pods that are placed: they stay in the queue that they were placed
    in, and may be taken back if they were placed as such. `queues` are the names that exist.
    """
    if not older.status.resources_status.allocated:
        return
    now, before = group.spec.queue, older.spec.queue
    if now != before and now not in queues:
        fix = "create the queue first, or delete the workload"
        yield Problem("spec.queue", f"spec.queue: there is no queue {now}; {fix}", fix)
    elif now != before:
        message = f"spec.queue: pods that are placed stay charged to queue {before} until they end"
        yield warning("spec.queue", message, "delete the workload, and create it anew to move it")
    is_hardened = group.spec.preemptibility == NON_PREEMPTIBLE != older.spec.preemptibility
    if is_hardened:
        message = "spec.preemptibility: pods that are placed may be taken back until they end"
        yield warning("spec.preemptibility", message, "create the workload anew to protect it")


def _surprises(spec: PodGroupSpec) -> Problems:
    for index, part in enumerate(spec.sub_groups):
        if not is_label_value(part.name):
            message = f"{part.name!r} cannot be the value of the label that pods join by"
            path = f"spec.subGroups[{index}].name"
            yield warning(path, message, "use at most 63 letters, digits and -")
    if spec.scheduling_backoff is not None and spec.scheduling_backoff not in _BACKOFFS:
        message = f"{spec.scheduling_backoff} means the same as 1"
        yield warning("spec.schedulingBackoff", message, "write -1 (always) or 1 (once per pool)")
    for path, constraint in _constraints(spec):
        yield from _constraint_problems(path, constraint)


def _broken_tree(spec: PodGroupSpec) -> Problems:
    """What makes the tree no tree at all; the first is enough."""
    if spec.min_member is not None and spec.min_sub_group is not None:
        yield Problem("spec", f"{_EXCLUSIVE}: set only one of them", "remove one of the two")
    yield from _shape_problems(spec.sub_groups)
    for index, part in _by_name(spec.sub_groups):
        if part.min_member is not None and part.min_sub_group is not None:
            message = f"subgroup {_quoted(part.name)}: {_EXCLUSIVE}"
            yield Problem(f"spec.subGroups[{index}]", message, "remove one of the two")


def _shape_problems(parts: tuple[SubGroup, ...]) -> Problems:
    """A name twice, a parent that is missing, a circle, or more than the bounds allow."""
    if len(parts) > SUB_GROUPS_MAX:
        path, fix = "spec.subGroups", "make several pod groups of them"
        message = f"{path}: {len(parts)} subgroups are more than {SUB_GROUPS_MAX}; {fix}"
        yield Problem(path, message, fix)
    names: set[str] = set()
    for index, part in enumerate(parts):
        if part.name in names:
            path, message = f"spec.subGroups[{index}].name", f"duplicate subgroup name {part.name}"
            yield Problem(path, message, "give it a name of its own")
        names.add(part.name)
    for index, part in enumerate(parts):
        if part.parent is not None and part.parent not in names:
            message = f"parent {part.parent} of {part.name} was not found"
            fix = "name one of the other subgroups, or leave it out"
            yield Problem(f"spec.subGroups[{index}].parent", message, fix)
    yield from _depth_problems(parts)


def _tree_problems(spec: PodGroupSpec, is_update: bool) -> Problems:
    children: dict[str | None, int] = {}
    for part in spec.sub_groups:
        children[part.parent] = children.get(part.parent, 0) + 1
    for index, part in _by_name(spec.sub_groups):
        path = f"spec.subGroups[{index}]"
        if part.name in children:
            yield from _inner_problems(path, part, children[part.name], is_update)
        else:
            yield from _leaf_problems(path, part)
    yield from _too_many("spec", spec.min_sub_group, children.get(None, 0), "")


def _inner_problems(path: str, part: SubGroup, children: int, is_update: bool) -> Problems:
    if part.min_member is not None:
        say = warning if is_update else Problem
        message = (
            f"subgroup {_quoted(part.name)}: minMember cannot be set on a mid-level SubGroup "
            "(has child SubGroups); use minSubGroup instead"
        )
        fix = "replace it by minSubGroup, the number of parts that must be satisfied"
        yield say(f"{path}.minMember", message, fix)
    prefix = f"subgroup {_quoted(part.name)}: "
    yield from _too_many(path, part.min_sub_group, children, prefix)


def _leaf_problems(path: str, part: SubGroup) -> Problems:
    if part.min_sub_group is not None:
        message = (
            f"subgroup {_quoted(part.name)}: minSubGroup cannot be set on a leaf SubGroup "
            "(no child SubGroups)"
        )
        fix = "replace it by minMember, the number of pods that start together"
        yield Problem(f"{path}.minSubGroup", message, fix)
    if part.min_member is None:
        message = f"subgroup {part.name}: minMember is required"
        yield Problem(f"{path}.minMember", message, "write how many pods start together")


def _too_many(path: str, asked: int | None, children: int, prefix: str) -> Problems:
    if asked is not None and asked > children:
        message = (
            f"{prefix}minSubGroup ({asked}) exceeds the number of direct child SubGroups "
            f"({children})"
        )
        yield warning(f"{path}.minSubGroup", message, f"write {children} or less")


def _constraints(spec: PodGroupSpec) -> list[tuple[str, TopologyConstraint]]:
    found = [("spec.topologyConstraint", spec.topology_constraint)]
    for index, part in enumerate(spec.sub_groups):
        if part.topology_constraint is not None:
            path = f"spec.subGroups[{index}].topologyConstraint"
            found.append((path, part.topology_constraint))
    return found


def _constraint_problems(path: str, constraint: TopologyConstraint) -> Problems:
    has_level = constraint.required_topology_level or constraint.preferred_topology_level
    if has_level and not constraint.topology:
        message = "a level without a topology constrains nothing"
        yield warning(f"{path}.topology", message, "name the Topology that has the level")
    if constraint.topology and not has_level:
        message = "a topology without a level constrains nothing"
        yield warning(path, message, "write requiredTopologyLevel or preferredTopologyLevel")


_SHOWN_MAX = 8


def _depth_problems(parts: tuple[SubGroup, ...]) -> Problems:
    """A circle of parents; else the first subgroup with too many of them."""
    parent_of = {part.name: part.parent for part in parts}
    level_of: dict[str, int] = {}
    for start in parent_of:
        way: dict[str, None] = {}
        here: str | None = start
        while here is not None and here not in level_of and here not in way:
            way[here] = None
            here = parent_of.get(here)
        if here is not None and here in way:
            names = [*list(way)[list(way).index(here) :], here]
            shown = " -> ".join(names if len(names) <= _SHOWN_MAX else [*names[:_SHOWN_MAX], "..."])
            fix = "give one of them another parent, or none"
            message = f"cycle detected in subgroups: spec.subGroups[].parent: {shown}; {fix}"
            yield Problem("spec.subGroups", message, fix)
            return
        level = level_of[here] if here is not None else 0
        level_of |= {name: level + up for up, name in enumerate(reversed(way), start=1)}
    deep = next((i for i, p in enumerate(parts) if level_of[p.name] > SUB_GROUP_LEVELS_MAX), None)
    if deep is not None:
        path, fix = f"spec.subGroups[{deep}].parent", "name a parent further up"
        where = f"subgroup {parts[deep].name} is more than {SUB_GROUP_LEVELS_MAX} levels deep"
        yield Problem(path, f"{path}: {where}; {fix}", fix)


def _by_name(parts: tuple[SubGroup, ...]) -> list[tuple[int, SubGroup]]:
    """In the order of names, which is the order in which problems are told."""
    return sorted(enumerate(parts), key=lambda pair: (pair[1].name, pair[0]))


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
