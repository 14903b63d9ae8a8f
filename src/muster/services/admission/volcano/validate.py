"""What Volcano's webhooks refuse, each with the field and what to write instead."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from muster.api.core import Pod
from muster.api.validation.problems import Problem, Problems, errors, warnings
from muster.api.validation.volcano_flows import job_flow_problems
from muster.api.validation.volcano_jobs import change_problems, cron_job_problems, job_problems
from muster.api.validation.volcano_queues import (
    deletion_problems,
    family_problems,
    parent_problems,
    pod_group_problems,
    queue_problems,
    usable_problems,
)
from muster.api.volcano import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, PodGroup, Queue
from muster.api.volcano_batch import CronJob, Job
from muster.api.volcano_defaults import with_defaults
from muster.api.volcano_flow import JobFlow
from muster.base.parse_int import parse_int
from muster.services.admission.decode import decode_object
from muster.services.admission.review import ALLOWED, AdmissionResponse, Review, with_sentence
from muster.services.admission.volcano.cluster import VolcanoCluster

_WRITES: Final = ("CREATE", "UPDATE")


def validate_job(review: Review, cluster: VolcanoCluster) -> AdmissionResponse:
    if review.operation not in _WRITES:
        return ALLOWED
    job = decode_object(Job, review.thing)
    if isinstance(job, AdmissionResponse):
        return job
    found = list(job_problems(job))
    older = decode_object(Job, review.old) if review.old is not None else None
    if review.operation == "UPDATE" and isinstance(older, Job):
        return _answer([*found, *change_problems(older, job)])
    queue = with_defaults(job).spec.queue
    return _answer([*found, *_usable("spec.queue", queue, cluster)])


def validate_cron_job(review: Review, cluster: VolcanoCluster) -> AdmissionResponse:
    if review.operation not in _WRITES:
        return ALLOWED
    cron = decode_object(CronJob, review.thing)
    return cron if isinstance(cron, AdmissionResponse) else _answer(cron_job_problems(cron))


def validate_job_flow(review: Review, cluster: VolcanoCluster) -> AdmissionResponse:
    if review.operation not in _WRITES:
        return ALLOWED
    flow = decode_object(JobFlow, review.thing)
    if isinstance(flow, AdmissionResponse):
        return flow
    found = list(job_flow_problems(flow))
    return replace(_answer(found), warnings=tuple(map(str, warnings(found))))


def validate_pod_group(review: Review, cluster: VolcanoCluster) -> AdmissionResponse:
    """Leafness is asked too: a group in a queue above others would never be served."""
    if review.operation not in _WRITES:
        return ALLOWED
    group = decode_object(PodGroup, review.thing)
    if isinstance(group, AdmissionResponse):
        return group
    older = decode_object(PodGroup, review.old) if review.old is not None else None
    is_same = isinstance(older, PodGroup) and older.spec.queue == group.spec.queue
    queue = group.spec.queue
    usable = () if is_same or not queue else _usable("spec.queue", queue, cluster)
    return _answer([*pod_group_problems(group), *usable])


def validate_queue(review: Review, cluster: VolcanoCluster) -> AdmissionResponse:
    is_deletion = review.operation == "DELETE"
    queue = decode_object(Queue, (review.old or review.thing) if is_deletion else review.thing)
    if isinstance(queue, AdmissionResponse):
        # Who deletes a queue that cannot be read mends the cluster.
        return ALLOWED if is_deletion else queue
    name = queue.metadata.name
    if is_deletion:
        below = [one.metadata.name for one in cluster.children_of(name)]
        return _answer(deletion_problems(queue, below, cluster.groups_in(name)))
    if review.operation not in _WRITES:
        return ALLOWED
    parent = queue.spec.parent
    found = [*queue_problems(queue)]
    older = decode_object(Queue, review.old) if review.old is not None else None
    # A queue that lost its parent stays editable: only naming another one is judged.
    if not isinstance(older, Queue) or older.spec.parent != parent:
        found += parent_problems(queue, cluster.queue_of, bool(cluster.groups_in(parent)))
    if parent:
        found += family_problems(queue, cluster.queue_of(parent), cluster.children_of(parent))
    return _answer(found)


def validate_pod(review: Review, cluster: VolcanoCluster) -> AdmissionResponse:
    if review.operation != "CREATE":
        return ALLOWED
    pod = decode_object(Pod, review.thing)
    return pod if isinstance(pod, AdmissionResponse) else _answer(_budget_problems(pod))


def _budget_problems(pod: Pod) -> Problems:
    notes = pod.metadata.annotations
    given = [name for name in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE) if name in notes]
    for name in given:
        text = notes[name]
        number = parse_int(text.removesuffix("%"))
        most = 100 if text.endswith("%") else 2**31
        if number is None or not 0 < number < most:
            fix = "write a whole number above 0, or a part such as 50%"
            yield Problem(f"metadata.annotations[{name}]", f"{text!r} is no such number", fix)
    if len(given) > 1:
        message = f"{JDB_MIN_AVAILABLE} and {JDB_MAX_UNAVAILABLE} are both given"
        yield Problem("metadata.annotations", message, "write one of them")


def _usable(path: str, name: str, cluster: VolcanoCluster) -> Problems:
    return usable_problems(path, name, cluster.queue_of(name), bool(cluster.children_of(name)))


def _answer(found: Iterable[Problem]) -> AdmissionResponse:
    return AdmissionResponse(tuple(map(with_sentence, errors(found))))
