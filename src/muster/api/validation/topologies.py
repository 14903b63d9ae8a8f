"""Topologies: levels that nodes can carry, and aliases that mean one thing."""

from collections import Counter

from muster.api.bounds import TOPOLOGY_LEVELS_MAX
from muster.api.topology import HOSTNAME, Topology
from muster.api.validation.problems import Problem, Problems, is_label_key, warning


def topology_problems(topology: Topology, older: Topology | None = None) -> Problems:
    """What is wrong with a topology; with its older self, also what may not change."""
    labels = [level.node_label for level in topology.spec.levels]
    if not labels:
        yield Problem("spec.levels", "there are no levels", "name at least one node label")
    if len(labels) > TOPOLOGY_LEVELS_MAX:
        message = f"{len(labels)} levels are more than {TOPOLOGY_LEVELS_MAX}"
        yield Problem("spec.levels", message, "keep those that pods are placed by")
        return
    for index, label in enumerate(labels):
        path = f"spec.levels[{index}].nodeLabel"
        if label in labels[:index]:
            yield Problem(path, "nodeLabel must be unique", "remove one of the levels")
        if label == HOSTNAME and index < len(labels) - 1:
            message = (
                "the kubernetes.io/hostname label can only be used at the lowest level of topology"
            )
            yield Problem(path, message, "move it to the end")
        if not is_label_key(label):
            yield warning(path, f"no node can carry a label {label!r}", "correct the name")
    yield from alias_problems(topology)
    if older is not None and labels != [level.node_label for level in older.spec.levels]:
        message = "nodeLabel structure is immutable; only aliases may be edited"
        yield Problem("spec.levels", message, "delete the topology and create it anew")


def alias_problems(topology: Topology) -> Problems:
    """Aliases that stand for two things."""
    labels = {level.node_label for level in topology.spec.levels}
    aliases = Counter(level.alias for level in topology.spec.levels if level.alias)
    twice = sorted(alias for alias, uses in aliases.items() if uses > 1)
    taken = sorted(alias for alias in aliases if alias in labels)
    parts = []
    if twice:
        parts.append(f"aliases must be unique within the topology; duplicated: [{' '.join(twice)}]")
    if taken:
        parts.append(f"an alias must not equal a nodeLabel; conflicting: [{' '.join(taken)}]")
    if parts:
        message = f"invalid topology aliases: {'; '.join(parts)}"
        fix = "give each level an alias of its own that is no label of this topology"
        yield Problem("spec.levels[*].alias", message, fix)
