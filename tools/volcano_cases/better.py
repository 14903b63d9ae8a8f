"""Where a case ends otherwise than Volcano's: decisions that a rule shows to be better.

Each rule is checked on what came out, and gives its sentence or None.
"""

from collections.abc import Callable

from tools.volcano_cases.cases import Case
from tools.volcano_cases.session import Ended

from muster.model.records import ClusterRecords

Rule = Callable[[Case, ClusterRecords, Ended], str | None]


def devices_are_missing(case: Case, records: ClusterRecords, ended: Ended) -> str | None:
    """Nobody is bound but to whom its claims' devices can be given."""
    expected = case.expected.get("binds") or {}
    if not set(ended.binds.items()) < set(expected.items()) or ended.evicted:
        return None
    offered = {each["spec"]["driver"] for each in case.objects.get("resourceSlices", [])}
    classes = {
        each["metadata"]["name"]: {
            request["exactly"]["deviceClassName"] for request in each["spec"]["devices"]["requests"]
        }
        for each in case.objects.get("resourceClaims", [])
    }
    for pod in case.objects["pods"]:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if key in expected and key not in ended.binds:
            claims = [c["resourceClaimName"] for c in pod["spec"].get("resourceClaims", [])]
            if all(classes[claim] <= offered for claim in claims):
                return None
    return "pods whose claims no device can serve stay unbound"


def a_more_important_job_starts(case: Case, records: ClusterRecords, ended: Ended) -> str | None:
    """Victims are all of lower jobs, and every job that they go for has its minimum."""
    if case.expected["evictNum"] or not ended.plan.evictions or ended.binds:
        return None
    jobs = {job.key: job for job in records.jobs}
    for evict in ended.plan.evictions:
        actor, victim = jobs.get(evict.actor), jobs[evict.job]
        if actor is None or actor.terms is None or victim.priority >= actor.priority:
            return None
        if len(ended.waits_for.get(actor.key, [])) < actor.terms.minimum:
            return None
    return "a job of higher priority gets its minimum, at the cost of lower ones only"


RULES: tuple[Rule, ...] = (devices_are_missing, a_more_important_job_starts)


def why_better(case: Case, records: ClusterRecords, ended: Ended) -> str | None:
    """The rule by which the outcome is better than Volcano's; None: none says so."""
    return next((why for rule in RULES if (why := rule(case, records, ended))), None)
