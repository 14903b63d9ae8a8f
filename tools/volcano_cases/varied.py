"""The same case told otherwise: in another order, with other names of nodes and queues.

Neither may matter to how much is decided. Fixed seeds, so that a finding is found again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tools.volcano_cases.cases import Case
from tools.volcano_cases.session import Ended

_FIXED = ("root", "default")
"""Names of queues that mean something."""
_ORDERED = ("podGroups", "queues", "nodes", "pods")


def reordered(case: Case, seed: int) -> Case:
    """The objects of each kind in another order."""
    objects = dict(case.objects)
    for kind in _ORDERED:
        listed = list(objects.get(kind) or [])
        Random(f"{seed} {kind}").shuffle(listed)
        objects[kind] = listed
    return replace(case, objects=objects)


def renamed(case: Case, seed: int) -> Case | None:
    """Nodes and queues with other names; None where names are told by patterns."""
    text = json.dumps(dict(case.objects))
    if "regexMatch" in text:
        return None
    for name, other in _new_names(case, seed):
        text = text.replace(json.dumps(name), json.dumps(other))
    return replace(case, objects=json.loads(text))


def _new_names(case: Case, seed: int) -> Iterator[tuple[str, str]]:
    for kind in ("nodes", "queues"):
        names = sorted({each["metadata"]["name"] for each in case.objects.get(kind) or []})
        names = [name for name in names if name not in _FIXED]
        numbers = list(range(len(names)))
        Random(f"{seed} {kind}").shuffle(numbers)
        for name, number in zip(names, numbers, strict=True):
            yield name, f"other-{kind}-{number:03}"


def amounts(ended: Ended) -> Mapping[str, Any]:
    """How much was decided, of everything."""
    jobs = Counter(bind.job for bind in ended.plan.binds)
    return {
        "binds": len(ended.plan.binds),
        "jobs that start": sorted(jobs.values()),
        "evictions": len(ended.plan.evictions),
        "nominations": len(ended.plan.nominations),
        "phases": sorted(ended.phases.values()),
    }
