"""Queues that can be served: quotas that mean something, and parents that form a tree.

Whether quotas fit into each other, and whether the parent exists, is only checked where the
settings ask for it; the texts on quotas are KAI's.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from muster.api.queue import UNLIMITED, Queue, QueueResources
from muster.api.validation.problems import errors, warnings
from muster.api.validation.queues import (
    NO_RESOURCES,
    cycle_problems,
    deletion_problems,
    depth_problems,
    parent_problems,
    queue_problems,
)
from muster.services.admission.decode import answer_of, decode_object
from muster.services.admission.review import (
    ALLOWED,
    AdmissionProblem,
    AdmissionResponse,
    Review,
    refused,
    with_sentence,
)
from muster.services.admission.settings import AdmissionSettings, UnknownQueue

_RESOURCES = (("cpu", "CPU"), ("gpu", "GPU"), ("memory", "Memory"))
Queues = Mapping[str, Queue]
"""The queues of the cluster by name."""
NO_QUEUES: Final[Queues] = MappingProxyType({})


def validate_queue(
    review: Review, settings: AdmissionSettings, queues: Queues, used_by: Sequence[str] = ()
) -> AdmissionResponse:
    """`used_by` names pod groups in the queue, for a deletion."""
    if review.operation not in ("CREATE", "UPDATE", "DELETE"):
        return ALLOWED
    is_deletion = review.operation == "DELETE"
    queue = decode_object(Queue, (review.old or review.thing) if is_deletion else review.thing)
    if isinstance(queue, AdmissionResponse):
        # Who deletes a queue that cannot be read mends the cluster.
        return ALLOWED if is_deletion else queue
    if is_deletion:
        return _deletion(queue, queues, used_by)
    if queue.spec.resources is None:
        fix = "write quota, limit and weight"
        # In KAI's words, and then where and what.
        sentence = f"{NO_RESOURCES}: spec.resources is missing; {fix}"
        problem = AdmissionProblem("spec.resources", NO_RESOURCES, fix, sentence)
        return AdmissionResponse((problem,), (NO_RESOURCES,))
    wrong = errors([*queue_problems(queue), *cycle_problems(queue, queues)])
    older = decode_object(Queue, review.old) if review.old is not None else None
    older = older if isinstance(older, Queue) else None
    # A queue that lost its parent stays editable: only naming another one is judged.
    is_named_now = older is None or older.spec.parent_queue != queue.spec.parent_queue
    if is_named_now:
        wrong += depth_problems(queue, queues)
    if wrong:
        return AdmissionResponse(tuple(map(with_sentence, wrong)))
    return _judged(queue, queues, settings, older, is_named_now)


def queue_surprises(review: Review) -> tuple[str, ...]:
    """What KAI lets in without a word, and will surprise: a limit below the quota, or none."""
    queue = decode_object(Queue, review.thing)
    if review.operation not in ("CREATE", "UPDATE") or isinstance(queue, AdmissionResponse):
        return ()
    return tuple(with_sentence(problem).sentence for problem in warnings(queue_problems(queue)))


def _judged(
    queue: Queue,
    queues: Queues,
    settings: AdmissionSettings,
    older: Queue | None,
    is_named_now: bool,
) -> AdmissionResponse:
    """As the settings ask for it."""
    if settings.validates_quotas:
        has_children = older is not None and bool(older.status.child_queues)
        return _check_quota(queue, queues, has_children)
    return _check_parent(queue, queues, settings) if is_named_now else ALLOWED


def _check_parent(queue: Queue, queues: Queues, settings: AdmissionSettings) -> AdmissionResponse:
    found = [with_sentence(problem) for problem in parent_problems(queue, queues)]
    match settings.unknown_parent:
        case UnknownQueue.REFUSE:
            return AdmissionResponse(tuple(found))
        case UnknownQueue.WARN:
            return AdmissionResponse((), tuple(problem.sentence for problem in found))
        case UnknownQueue.ALLOW:
            return ALLOWED


def _deletion(queue: Queue, queues: Queues, used_by: Sequence[str]) -> AdmissionResponse:
    answer = answer_of(deletion_problems(queue, queues))
    if answer.allowed and used_by:
        name = queue.metadata.name
        shown = " ".join(sorted(used_by)[:5]) + (" ..." if len(used_by) > 5 else "")
        message = f"cannot delete queue {name}: {len(used_by)} pod groups are in it [{shown}]"
        fix = "delete those workloads or give them another queue first"
        return AdmissionResponse(
            (AdmissionProblem("metadata.name", message, fix, f"{message}; {fix}"),)
        )
    return answer


def _check_quota(queue: Queue, queues: Queues, has_children: bool) -> AdmissionResponse:
    warnings: list[str] = []
    if parent_name := queue.spec.parent_queue:
        parent = queues.get(parent_name)
        if parent is None:
            text = f'Queue.scheduling.run.ai "{parent_name}" not found'
            fix = "create the parent first, or correct its name"
            problem = AdmissionProblem("spec.parentQueue", text, fix)
            return AdmissionResponse((problem,), code=404, reason="NotFound")
        if parent.spec.resources is None:
            text = f"parent queue {parent_name} has no resources defined"
            return refused("spec.parentQueue", text, "give the parent its resources first")
        warnings += _child_warnings(queue, parent, queues)
    if has_children:
        warnings += _parent_warnings(queue, queues)
    return AdmissionResponse((), tuple(warnings))


def _child_warnings(queue: Queue, parent: Queue, queues: Queues) -> Iterator[str]:
    parent_name = parent.metadata.name
    siblings = _children(parent_name, queues, without=queue.metadata.name)
    for key, word in _RESOURCES:
        ours, theirs = _quota(queue, key), _quota(parent, key)
        if _exceeds(ours, theirs):
            yield (
                f"child queue {word} quota ({_shown(key, ours)}) exceeds parent queue "
                f"{parent_name} {word} quota ({_shown(key, theirs)})"
            )
        if key != "cpu" and not siblings:
            continue  # An only child's excess is said above; of CPU, both are customary.
        total = _total(key, [queue, *siblings])
        if _exceeds(total, theirs):
            yield (
                f"total children {word} quota ({_shown(key, total)}) exceeds parent queue "
                f"{parent_name} {word} quota ({_shown(key, theirs)})"
            )


def _parent_warnings(queue: Queue, queues: Queues) -> Iterator[str]:
    children = _children(queue.metadata.name, queues)
    ours = _quota(queue, "cpu")
    for child in children:
        if _exceeds(theirs := _quota(child, "cpu"), ours):
            yield (
                f"child queue {child.metadata.name} CPU quota ({_shown('cpu', theirs)}) "
                f"exceeds parent CPU quota ({_shown('cpu', ours)})"
            )
    for key, word in _RESOURCES:
        total, ours = _total(key, children), _quota(queue, key)
        if _exceeds(total, ours):
            yield (
                f"total children {word} quota ({_shown(key, total)}) exceeds parent {word} quota "
                f"({_shown(key, ours)})"
            )


def _children(parent: str, queues: Queues, without: str = "") -> list[Queue]:
    return [
        queue
        for name, queue in sorted(queues.items())
        if name != without and queue.spec.parent_queue == parent
    ]


def _quota(queue: Queue, key: str) -> float:
    resources = queue.spec.resources or QueueResources()
    return {"cpu": resources.cpu, "gpu": resources.gpu, "memory": resources.memory}[key].quota


def _total(key: str, many: Sequence[Queue]) -> float:
    quotas = [_quota(queue, key) for queue in many]
    return UNLIMITED if UNLIMITED in quotas else sum(quotas)


def _exceeds(amount: float, bound: float) -> bool:
    if bound == UNLIMITED:
        return False
    return amount == UNLIMITED or amount > bound


def _shown(key: str, amount: float) -> str:
    return f"{amount:.2f}" if key == "gpu" else f"{amount:.0f}"
