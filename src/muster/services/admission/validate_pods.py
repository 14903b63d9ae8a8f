"""Which pods may not be stored: GPU requests that contradict themselves or cannot be read, and,
where the settings ask for it, labels that name no queue.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.bounds import SHARED_GPUS_MAX
from muster.api.core import Pod
from muster.api.queue_access import closed_queue, is_open_to
from muster.api.validation.pods import placement_problems
from muster.api.validation.problems import Problem
from muster.model.gpu_request import (
    MOST_MEMORY_MIB,
    gpu_problem,
    is_count,
    memory_fix,
    written_fraction,
)
from muster.services.admission.decode import decode_object
from muster.services.admission.gpu_sharing import (
    DEVICES,
    FRACTION,
    MEMORY,
    MIG_PREFIX,
    MPS,
    OTHER_VENDORS,
    WHOLE_GPU,
    annotations,
    containers,
    quantities,
    shares_gpu,
    sharing_container,
    unknown_container,
)
from muster.services.admission.mutate import VISIBLE_DEVICES
from muster.services.admission.placed_pods import change_problems
from muster.services.admission.review import (
    ALLOWED,
    AdmissionProblem,
    AdmissionResponse,
    Object,
    Review,
    with_sentence,
)
from muster.services.admission.settings import AdmissionSettings, UnknownQueue
from muster.services.admission.validate_queues import NO_QUEUES, Queues

_NO_NUMBER = re.compile("[+-]?nan", re.IGNORECASE)
"""Not a number passes every comparison of KAI, which then objects to its notation."""
_HIDDEN = ("", "void", "none")


def validate_pod(
    review: Review, settings: AdmissionSettings, queues: Queues = NO_QUEUES
) -> AdmissionResponse:
    """The first problem of a pod, in a fixed order. `queues` are those that exist, by name."""
    pod = review.thing or {}
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    if (pod.get("spec") or {}).get("schedulerName") != settings.scheduler_name:
        return ALLOWED
    if (changed := next(change_problems(review, settings), None)) is not None:
        return AdmissionResponse((changed,))
    if review.old is not None and _asks_the_same(pod, review.old):
        # What was let in once must stay editable: its labels and finalizers are not our business.
        answer = _first(_device_access_problems(pod, settings))
    else:
        answer = _first(_problems(pod, review.old, settings))
    return _check_queue(review, settings, queues) if answer.allowed else answer


def _check_queue(review: Review, settings: AdmissionSettings, queues: Queues) -> AdmissionResponse:
    """A label is judged when it is written, not again when the queue has gone."""
    label = settings.queue_label
    name = _labels(review.thing).get(label, "")
    if not name or _labels(review.old).get(label) == name:
        return ALLOWED
    if not is_open_to(review.namespace, name, queues):
        problem = Problem(f"metadata.labels[{label}]", *closed_queue(review.namespace, name))
        return AdmissionResponse((with_sentence(problem),))
    if name in queues:
        return ALLOWED
    field, message = f"metadata.labels[{label}]", f"there is no queue {name}"
    fix = "create the queue first, or correct its name"
    sentence = f"{field}: {message}; {fix}"
    match settings.unknown_queue:
        case UnknownQueue.REFUSE:
            return AdmissionResponse((AdmissionProblem(field, message, fix, sentence),))
        case UnknownQueue.WARN:
            return AdmissionResponse((), (sentence,))
        case UnknownQueue.ALLOW:
            return ALLOWED


def _first(problems: Iterator[AdmissionProblem]) -> AdmissionResponse:
    found = next(problems, None)
    return AdmissionResponse((found,)) if found else ALLOWED


def _problems(
    pod: Object, old: Object | None, settings: AdmissionSettings
) -> Iterator[AdmissionProblem]:
    yield from _sharing_problems(pod, settings)
    yield from _wish_problems(pod)
    if old is not None:
        yield from _change_problems(pod, old)
    yield from _device_access_problems(pod, settings)


def _sharing_problems(pod: Object, settings: AdmissionSettings) -> Iterator[AdmissionProblem]:
    asked = annotations(pod)
    if shares_gpu(pod) and not settings.gpu_sharing:
        metadata = pod.get("metadata") or {}
        yield AdmissionProblem(
            _annotation(FRACTION if FRACTION in asked else MEMORY),
            "attempting to create a pod "
            f"{metadata.get('namespace', '')}/{metadata.get('name', '')} with gpu sharing request, "
            "while GPU sharing is disabled",
            "ask for whole GPUs in resources.limits, or have GPU sharing switched on",
        )
    if asked.get(MPS) == "true" and not shares_gpu(pod):
        yield AdmissionProblem(
            _annotation(MPS),
            "MPS is only supported with GPU fraction request",
            f"add the annotation {FRACTION}, or leave {MPS} out",
        )
    yield from _contradictions(pod)
    yield from _value_problems(asked)


def _wish_problems(pod: Object) -> Iterator[AdmissionProblem]:
    """More wishes than are weighed. What cannot be read is the API server's to refuse."""
    read = decode_object(Pod, pod)
    if isinstance(read, Pod):
        yield from (with_sentence(problem) for problem in placement_problems(read))


def _contradictions(pod: Object) -> Iterator[AdmissionProblem]:
    asked, whole = annotations(pod), _whole_gpu_path(pod)
    if FRACTION in asked and whole:
        yield AdmissionProblem(
            whole,
            "cannot have both GPU fraction request and whole GPU resource request/limit",
            f"keep either this or the annotation {FRACTION}",
        )
    if MEMORY in asked and (FRACTION in asked or whole):
        yield AdmissionProblem(
            whole or _annotation(MEMORY),
            "cannot request both GPU and GPU memory",
            f"keep either this or the annotation {MEMORY if whole else FRACTION}",
        )
    if DEVICES in asked and not shares_gpu(pod):
        yield AdmissionProblem(
            _annotation(DEVICES),
            "cannot request multiple fractional devices without specifying fraction portion or "
            "gpu-memory",
            f"add the annotation {FRACTION} or {MEMORY}",
        )


def _value_problems(asked: Mapping[str, str]) -> Iterator[AdmissionProblem]:
    if MEMORY in asked and not is_count(asked[MEMORY], MOST_MEMORY_MIB):
        yield _count_problem(
            asked,
            MEMORY,
            "gpu-memory annotation value must be a positive integer greater than 0",
            memory_fix(asked[MEMORY]),
        )
    if FRACTION in asked:
        yield from _fraction_problems(asked[FRACTION])
    if DEVICES in asked and not is_count(asked[DEVICES], SHARED_GPUS_MAX):
        yield _count_problem(
            asked,
            DEVICES,
            "fraction count annotation value must be a positive integer greater than 0",
            f'write the number of devices, such as "2", at most {SHARED_GPUS_MAX}',
        )


def _count_problem(asked: Mapping[str, str], key: str, message: str, fix: str) -> AdmissionProblem:
    """The original's message; to one that is too large, which it lets in, ours is added."""
    is_positive = asked[key].isdecimal() and asked[key].strip("0") != ""
    own = f"{message}; {gpu_problem({key: asked[key]}, {})}" if is_positive else ""
    return AdmissionProblem(_annotation(key), message, fix, own)


def _fraction_problems(value: str) -> Iterator[AdmissionProblem]:
    fix = 'write the part of one device between 0 and 1, such as "0.5"'
    if 0 < float(written_fraction(value)) < 1:  # as KAI, to whom 0.99999999999999999999 is 1
        return
    if not _NO_NUMBER.fullmatch(value):
        yield AdmissionProblem(
            _annotation(FRACTION),
            "gpu-fraction annotation value must be a positive number smaller than 1.0",
            fix,
        )
    else:
        yield AdmissionProblem(
            _annotation(FRACTION),
            "gpu-fraction annotation value must be a float written with a decimal point or a "
            f"scientific notation .given value: {value}",
            fix,
        )


def _change_problems(pod: Object, old: Object) -> Iterator[AdmissionProblem]:
    """A pod on a node holds what it asked for; asking for something else would not move it."""
    if not (old.get("spec") or {}).get("nodeName"):
        return
    for key in (FRACTION, MEMORY, DEVICES):
        before, now = annotations(old).get(key), annotations(pod).get(key)
        if before != now:
            yield AdmissionProblem(
                _annotation(key),
                f"{key} cannot be changed from {before} to {now} once the pod is on a node",
                "delete the pod and create it with the new request",
            )


def _device_access_problems(pod: Object, settings: AdmissionSettings) -> Iterator[AdmissionProblem]:
    if not settings.blocks_visible_devices:
        return
    exempt = sharing_container(pod) if shares_gpu(pod) else None
    if (unknown := unknown_container(pod)) is not None:
        yield unknown
        return
    for ref, container in containers(pod):
        if ref == exempt:
            continue
        for index, variable in enumerate(container.get("env") or []):
            if variable.get("name") == VISIBLE_DEVICES:
                path = f"{ref.path}.env[{index}]"
                yield from _visible_devices_problem(path, str(container.get("name")), variable)


def _visible_devices_problem(
    path: str, container: str, variable: Mapping[str, Any]
) -> Iterator[AdmissionProblem]:
    about = f"container {container} has an environment variable {VISIBLE_DEVICES} defined with"
    fix = "leave the variable out and ask for devices in resources.limits"
    value = variable.get("value") or ""
    if value not in _HIDDEN:
        yield AdmissionProblem(
            path,
            f"{about} a value of {value}. This is forbidden due to conflicts with Nvidia's device "
            "plugin. The only values that are allowed are 'void' or 'none'",
            fix,
        )
    elif not value and variable.get("valueFrom"):
        yield AdmissionProblem(
            path,
            f"{about} a valueFrom reference. This is forbidden due to possible conflicts with "
            "Nvidia's device plugin",
            fix,
        )


def _whole_gpu_path(pod: Object) -> str:
    """Where the pod asks for devices of its own; empty when nowhere."""
    for ref, container in containers(pod):
        for which in ("limits", "requests"):
            for name in quantities(container, which):
                if name == WHOLE_GPU or name in OTHER_VENDORS or name.startswith(MIG_PREFIX):
                    return f"{ref.path}.resources.{which}[{name}]"
    return ""


def _asks_the_same(pod: Object, old: Object) -> bool:
    keys = (FRACTION, MEMORY, DEVICES, MPS)
    same_sharing = all(annotations(pod).get(key) == annotations(old).get(key) for key in keys)
    return same_sharing and _whole_gpu_path(pod) == _whole_gpu_path(old)


def _labels(pod: Object | None) -> Mapping[str, str]:
    found: Mapping[str, str] = ((pod or {}).get("metadata") or {}).get("labels") or {}
    return found


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"
