"""A recorded cycle as a scenario: what it saw, the actions, and what it decided as what to expect.

`muster.testing.scenario` reads it, so that a decision somebody did not like becomes a test.
"""

from collections import Counter
from typing import Any

import msgspec

from muster.api.codec import to_wire
from muster.engine.profiles.known import profile_of
from muster.foresight.journal.reader import RecordedCycle
from muster.foresight.situation import Situation

_DEFAULT = "default/"


def scenario_of(cycle: RecordedCycle, situation: Situation, why: str = "") -> dict[str, Any]:
    """The document of a scenario file."""
    settings = dict(cycle.rules.settings)
    profile = settings.pop("profile", None)
    plan = cycle.plan or {"binds": [], "nominations": [], "evictions": []}
    document: dict[str, Any] = {
        "why": why or f"Cycle {cycle.id} of a journal: what was decided then is decided again.",
        "now_s": cycle.at_s,
        "records": _plain(situation.records),
        "run": [name for name, _ in situation.rules.actions],
        "expect": {
            **_placed(situation, plan),
            "evicted": dict(Counter(_name(one[1]) for one in plan["evictions"] if not one[5])),
            "moved": dict(Counter(_name(one[1]) for one in plan["evictions"] if one[5])),
        },
        "settings": settings,
    }
    if profile is not None:
        document["profile"] = profile
    if conf := cycle.rules.conf or _default_conf(profile):
        document["conf"] = msgspec.yaml.decode(conf)
    if cycle.holds:
        document["holds"] = _plain(cycle.holds)
    if cycle.acted_s:
        document["acted_s"] = dict(cycle.acted_s)
    return document


def _default_conf(profile: str | None) -> str:
    """By which such a scheduler decides without a file of its own."""
    known = None if profile is None else profile_of(profile)
    return known.default_conf if known else ""


def _placed(situation: Situation, plan: Any) -> dict[str, Any]:
    """On which nodes the pods of each job are that something starts of."""
    placed = {one[0]: one[2] for one in (*plan["binds"], *plan["nominations"])}
    jobs = {one[1] for one in (*plan["binds"], *plan["nominations"])}
    on: dict[str, Counter[str]] = {job: Counter() for job in sorted(jobs)}
    for task in situation.records.tasks:
        node = placed.get(task.uid, task.node)
        if task.job in on and node:
            on[task.job][node] += 1
    return {_name(job): {"on": dict(nodes)} for job, nodes in on.items()}


def _name(job: str) -> str:
    """As scenarios write it: jobs of the namespace `default` without it."""
    return job.removeprefix(_DEFAULT)


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=to_wire))
