"""Conditions of Config and of shards: what is so, in KAI's words. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.api import names
from muster.api.meta import Condition
from muster.base.timefmt import rfc3339
from muster.services.operator.objects import Json

_LONGEST: Final = 4000


@dataclass(frozen=True, slots=True)
class Facts:
    """What came of one look at an owner and its objects."""

    problems: Sequence[str] = ()
    """Fields that cannot be used: nothing is changed while there are any."""
    failures: Sequence[str] = ()
    """Writes that failed, and objects that wait for something."""
    unavailable: Sequence[str] = ()
    """Deployments that are not ready, and how far they are."""
    missing: Sequence[str] = ()
    """What the cluster lacks."""


def conditions(facts: Facts) -> list[tuple[str, bool, str, str]]:
    """Type, status, reason and message of each."""
    is_settled = not (facts.problems or facts.failures)
    is_available = is_settled and not facts.unavailable
    return [
        (
            names.CONDITION_RECONCILING,
            not is_settled,
            names.REASON_RECONCILED if is_settled else names.REASON_RECONCILING,
            "Reconciliation completed successfully" if is_settled else "Reconciliation in progress",
        ),
        (names.CONDITION_DEPLOYED, is_settled, *_deployed(facts)),
        (
            names.CONDITION_AVAILABLE,
            is_available,
            names.REASON_AVAILABLE if is_available else names.REASON_NOT_AVAILABLE,
            "System available" if is_available else _joined(_why_unavailable(facts)),
        ),
        (
            names.CONDITION_DEPENDENCIES_FULFILLED,
            not facts.missing,
            names.REASON_DEPENDENCIES_MISSING
            if facts.missing
            else names.REASON_DEPENDENCIES_FULFILLED,
            _joined(f"{one} is missing" for one in facts.missing) or "Dependencies are fulfilled",
        ),
        (
            names.CONDITION_READY,
            is_available,
            names.REASON_READY if is_available else names.REASON_OPERATOR_NOT_READY,
            "System is ready" if is_available else "System not ready",
        ),
    ]


def status_patch(
    old: Iterable[Condition], facts: Facts, generation: int, now_s: float
) -> Json | None:
    """A merge patch of the status, or None when it says so already."""
    before = {one.type: one for one in old}
    found = [
        _condition(before.get(row[0]), row, generation, rfc3339(now_s)) for row in conditions(facts)
    ]
    said = [
        (one.type, one.status, one.reason, one.message, one.observed_generation)
        for one in before.values()
    ]
    keys = ("type", "status", "reason", "message", "observedGeneration")
    if [tuple(one[key] for key in keys) for one in found] == said:
        return None
    return {"status": {"conditions": found}}


def unavailability(deployment: Mapping[str, Any]) -> str:
    """Why a Deployment is not ready; empty when it is."""
    name, wanted = deployment["metadata"]["name"], deployment["spec"].get("replicas", 1)
    status = deployment.get("status") or {}
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return f"{name}: its change has not been seen yet"
    listed = {one["type"]: one["status"] for one in status.get("conditions", ())}
    refused = "".join(f": {why}" for why in _refusals(status.get("conditions", ())))
    updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
    if updated < wanted or listed.get(names.CONDITION_DEPLOYMENT_AVAILABLE) != "True":
        return f"{name}: {ready} of {wanted} pods ready, {updated} of them new{refused}"
    return ""


def _refusals(conditions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Why the API server takes no pod of a Deployment (a quota, say). Each try has a name of its
    own, which tells nobody anything."""
    for one in conditions:
        if one["type"] == names.CONDITION_REPLICA_FAILURE and one["status"] == "True":
            message = str(one.get("message", ""))
            yield message.partition(" is forbidden: ")[2] or message


def _deployed(facts: Facts) -> tuple[str, str]:
    if facts.problems:
        return names.REASON_INVALID, _joined(facts.problems)
    if facts.failures:
        return names.REASON_NOT_DEPLOYED, _joined(facts.failures)
    return names.REASON_DEPLOYED, "Resources deployed"


def _why_unavailable(facts: Facts) -> Iterable[str]:
    if facts.unavailable:
        return facts.unavailable
    return ["not all objects are deployed"]


def _condition(
    before: Condition | None, row: tuple[str, bool, str, str], generation: int, now: str
) -> Json:
    kind, holds, reason, message = row
    status = "True" if holds else "False"
    since = now
    if before is not None and before.status == status:
        since = rfc3339(before.last_transition_time.timestamp())
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def _joined(texts: Iterable[str]) -> str:
    text = "; ".join(texts)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
