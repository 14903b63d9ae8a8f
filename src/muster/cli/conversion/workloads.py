"""Workloads of Kubernetes that name one of the two schedulers: pods, and what has a template."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.api import names
from muster.api.volcano import (
    ANNOTATION_BARE_MIN_MEMBER,
    ANNOTATION_GROUP,
    ANNOTATION_GROUP_OF_VOLCANO,
    ANNOTATION_QUEUE,
)
from muster.api.volcano_batch import LABEL_QUEUE
from muster.cli.conversion.converted import Converted, Json, Note
from muster.cli.conversion.objects import annotation_notes, native_queue

_LEAST: Final = f"the annotation {names.ANNOTATION_BATCH_MIN_MEMBER}"
_SCHEDULERS: Final = ("volcano", "kube-batch")
_TEMPLATES: Final = (
    ("spec", "jobTemplate", "spec", "template"),
    ("spec", "template"),
    (),
)
"""Where a pod's metadata and spec stand: in a CronJob, in what else has a template, in a pod."""


def converted_workload(given: Mapping[str, Any], source: str) -> Converted | None:
    """None where nobody asks for one of the two."""
    body: Json = copy.deepcopy(dict(given))
    template = _template(body)
    if template is None:
        return None
    template["spec"]["schedulerName"] = names.DEFAULT.scheduler
    notes = list(_moved(template))
    name = f"{given.get('kind')} in {source}"
    return Converted(name, (body,), notes)


def converted_budget(given: Mapping[str, Any], source: str) -> Converted | None:
    """A budget that makes a job for kube-batch; None where it makes none."""
    meta = given.get("metadata")
    owners = meta.get("ownerReferences") if isinstance(meta, Mapping) else None
    listed = owners if isinstance(owners, list) else []
    owner = next((o for o in listed if isinstance(o, Mapping) and o.get("controller")), None)
    if owner is None:
        return None
    name = f"{owner.get('kind')} {owner.get('name')}"
    why = f"it stays a budget; that its pods start together says {_LEAST} on {name}"
    body = copy.deepcopy(dict(given))
    return Converted(f"PodDisruptionBudget in {source}", (body,), [Note("spec.minAvailable", why)])


def _template(body: Json) -> Json | None:
    for path in _TEMPLATES:
        found: Any = body
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        spec = found.get("spec") if isinstance(found, dict) else None
        if isinstance(spec, dict) and spec.get("schedulerName") in _SCHEDULERS:
            template: Json = found
            return template
    return None


def _moved(template: Json) -> Iterator[Note]:
    meta = template.get("metadata")
    meta = dict(meta) if isinstance(meta, dict) else {}
    notes, labels = (
        dict(one) if isinstance(one := meta.get(field), dict) else {}
        for field in ("annotations", "labels")
    )
    group = notes.pop(ANNOTATION_GROUP, None) or notes.pop(ANNOTATION_GROUP_OF_VOLCANO, None)
    if group is not None:
        # Without the second the pod grouper makes a group of the pods' owner, and puts them there.
        notes |= {names.ANNOTATION_POD_GROUP: group, names.ANNOTATION_SKIP_GROUPER: "true"}
    queue = notes.pop(ANNOTATION_QUEUE, None) or labels.pop(LABEL_QUEUE, None)
    if queue is not None:
        labels[names.DEFAULT.queue_label] = native_queue(str(queue))
    least = notes.pop(ANNOTATION_BARE_MIN_MEMBER, None)
    template["metadata"] = {**meta, "annotations": notes, "labels": labels}
    if least is not None:
        why = f"write {_LEAST} ({least}) on the Job itself, beside its template"
        yield Note(f"metadata.annotations[{ANNOTATION_BARE_MIN_MEMBER}]", why)
    yield from annotation_notes(notes)
