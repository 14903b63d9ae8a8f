"""Aliases of a topology's levels: each its own, and none of them a label."""

from collections import Counter

from muster.services.admission.review import ALLOWED, Answer, Review, refused


def validate_topology(review: Review) -> Answer:
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    levels = ((review.thing or {}).get("spec") or {}).get("levels") or []
    aliases = [level["alias"] for level in levels if level.get("alias")]
    labels = {level.get("nodeLabel") for level in levels}
    twice = sorted(alias for alias, uses in Counter(aliases).items() if uses > 1)
    taken = [alias for alias in sorted(set(aliases)) if alias in labels]
    parts = []
    if twice:
        parts.append(f"aliases must be unique within the topology; duplicated: [{' '.join(twice)}]")
    if taken:
        parts.append(f"an alias must not equal a nodeLabel; conflicting: [{' '.join(taken)}]")
    if not parts:
        return ALLOWED
    return refused(
        "spec.levels[*].alias",
        f"invalid topology aliases: {'; '.join(parts)}",
        "give each level an alias of its own that is no label of this topology",
    )
