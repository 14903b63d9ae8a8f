"""Whatever users put in pods, workloads, queues and groups: an answer, or a reason; no crash."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.golden import Golden, goldens, play
from tests.support.play_grouper import GrouperCluster

from muster.api.codec import Unreadable, decode
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.rand import Rand
from muster.services.admission.handler import (
    MUTATE_POD,
    VALIDATE_POD,
    VALIDATE_POD_GROUP,
    VALIDATE_QUEUE,
    VALIDATE_TOPOLOGY,
    AdmissionHandler,
)
from muster.services.admission.settings import AdmissionSettings
from muster.services.podgrouper.groupers.rule_book import rule_book
from muster.services.podgrouper.groupers.table import TABLE
from muster.services.podgrouper.groupers.workload import GroupingSettings
from muster.services.podgroups import decide as podgroups
from muster.services.queues import decide as queues
from muster.services.scaleadjuster import decide as scaleadjuster

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "0", "1", "-1", "0.5", "1.5", "500m", "1Gi", "nvidia.com/gpu", "a", "b"]),
    st.text(max_size=5),
)
# Words that the services look for, so that a guess now and then hits one.
_WORDS = """
spec status template metadata labels annotations replicas minReplicas name resources limits requests
containers env pytorchReplicaSpecs tfReplicaSpecs mpiReplicaSpecs Master Worker Launcher runPolicy
elasticPolicy workerGroupSpecs headGroupSpec groupName replicatedJobs startupPolicy parent size
leaderWorkerTemplate subGroupPolicy rayClusterName podgroups subGroups minMember minSubGroup quota
parentQueue gpu limit levels nodeLabel topologyConstraint schedulingGroup podGroupName job options
envs AZUREML_NODE_COUNT
"""
_words = st.sampled_from(_WORDS.split())
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_words, inner, max_size=4)
    ),
    max_leaves=15,
)
_texts = st.dictionaries(
    st.sampled_from(
        [
            "kai.scheduler/queue",
            "priorityClassName",
            "gpu-fraction",
            "gpu-memory",
            "gpu-fraction-num-devices",
            "kai.scheduler/batch-min-member",
            "kai.scheduler/segment-size",
            "kai.scheduler/topology",
            "kai.scheduler/preemption-delay",
            "serving.knative.dev/revision",
            "grove.io/podgang",
            "training.kubeflow.org/replica-type",
            "training.kubeflow.org/replica-index",
            "jobset.sigs.k8s.io/replicatedjob-name",
            "leaderworkerset.sigs.k8s.io/group-index",
            "leaderworkerset.sigs.k8s.io/worker-index",
            "pod-group-name",
        ]
    ),
    st.sampled_from(["", "0", "1", "-1", "0.5", "2.5", "NaN", "1e9", "a", "10s", "٣", "true"]),
    max_size=4,
)
_kinds = st.sampled_from(sorted(TABLE))


def _body(kind: str, name: str, drawn: tuple[Any, Any, Any]) -> dict[str, Any]:
    spec, labels, annotations = drawn
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"kind": kind, "metadata": metadata, "spec": spec}


_parts = st.tuples(_values, _texts, _texts)


@settings(max_examples=150, deadline=None)
@given(kind=_kinds, owner=_parts, pod=_parts, status=_values)
def test_a_grouper_groups_or_gives_a_reason(
    kind: tuple[str, str, str], owner: Any, pod: Any, status: Any
) -> None:
    group, version, name = kind
    version = "v1" if version == "*" else version
    api_version = f"{group}/{version}" if group else version
    top = {"apiVersion": api_version, **_body(name, "top", owner), "status": status}
    spec = pod[0] if isinstance(pod[0], dict) else {}
    member = {"apiVersion": "v1", **_body("Pod", "member", pod)}
    member["spec"] = {**spec, "schedulerName": "kai-scheduler"}
    world = GrouperCluster(GroupingSettings(), ("train",), {"plurals": {}})
    if name != "Pod":
        world.create(top, {})
        uid = f"<uid:{name}/top>"
        reference = {"apiVersion": api_version, "kind": name, "name": "top", "uid": uid}
        member["metadata"]["ownerReferences"] = [reference]
    world.create(member, {})
    outcome = world.outcome()
    assert outcome["podgroups"] or outcome["events"]


@settings(max_examples=150, deadline=None)
@given(
    golden=st.sampled_from(goldens()),
    depth=st.integers(0, 6),
    turns=st.lists(st.integers(0, 7), min_size=7, max_size=7),
    value=_values,
)
def test_a_workload_with_one_mutation_is_grouped_or_refused_with_a_reason(
    golden: Golden, depth: int, turns: list[int], value: Any
) -> None:
    """Real workloads with one field, somewhere, replaced by anything at all."""
    pairs = list(golden.things())
    spoiled, _ = pairs[turns[-1] % max(1, len(golden.objects))]
    _spoil(spoiled["spec"], depth, turns, value)
    if spoiled["kind"] == "Pod":
        spoiled["spec"]["schedulerName"] = "kai-scheduler"
    outcome = play(pairs)
    assert len(outcome["podgroups"]) + len(outcome["events"]) > 0


def _spoil(thing: Any, depth: int, turns: list[int], value: Any) -> None:
    """Replace what is found at most `depth` steps down."""
    step = turns[depth]
    keys: list[Any] = sorted(thing) if isinstance(thing, dict) else list(range(len(thing)))
    if not keys:
        return
    key = keys[step % len(keys)]
    if depth > 0 and isinstance(thing[key], dict | list) and thing[key]:
        _spoil(thing[key], depth - 1, turns, value)
    else:
        thing[key] = value


_QUEUE_A = decode(Queue, b'{"metadata": {"name": "a"}, "spec": {"parentQueue": "b"}}')
_reviews = st.tuples(
    st.sampled_from(
        [MUTATE_POD, VALIDATE_POD, VALIDATE_QUEUE, VALIDATE_POD_GROUP, VALIDATE_TOPOLOGY]
    ),
    st.sampled_from(["CREATE", "UPDATE", "DELETE", ""]),
)


@settings(max_examples=150, deadline=None)
@given(asked=_reviews, thing=st.one_of(_parts, _values), old=st.one_of(_parts, _values))
def test_the_admission_handler_answers_every_review(
    asked: tuple[str, str], thing: Any, old: Any
) -> None:
    desk = AdmissionHandler(
        AdmissionSettings(gpu_sharing=True, blocks_visible_devices=True, validates_quotas=True),
        Rand(0),
        queues=lambda: {"a": _QUEUE_A},
        groups_in=lambda _: [],
    )
    path, operation = asked
    request = {
        "uid": "1",
        "operation": operation,
        "object": _body("Pod", "a", thing) if isinstance(thing, tuple) else thing,
        "oldObject": _body("Pod", "a", old) if isinstance(old, tuple) else old,
    }
    answer = desk.answer(path, {"request": request})
    assert answer is not None
    json.dumps(answer)
    assert isinstance(answer["response"]["allowed"], bool)


_SCALING = scaleadjuster.ScaleAdjusterSettings("kai-scheduler", "scale", "app", "account", "image")


@settings(max_examples=100, deadline=None)
@given(group=_values, pods=st.lists(_parts, max_size=3), queue=_values)
def test_controllers_handle_every_object_that_can_be_decoded(
    group: Any, pods: list[Any], queue: Any
) -> None:
    read_group = _read(PodGroup, {"metadata": {"name": "a"}, "spec": group})
    read_queue = _read(Queue, {"metadata": {"name": "a"}, "spec": queue})
    read_pods = [
        found for drawn in pods if (found := _read(Pod, _body("Pod", "p", drawn))) is not None
    ]
    if read_group is not None:
        podgroups.gang_of(read_group, read_pods)
    known = {"a": read_queue} if read_queue is not None else {}
    queues.children_by_queue(known)
    queues.sums_by_queue(known, [read_group] if read_group is not None else [])
    scaleadjuster.gpus_needed(read_pods, _SCALING)
    for pod in read_pods:
        scaleadjuster.scaling_pod_name(Key("default", pod.metadata.name))


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=60), _values.map(lambda value: json.dumps({"rules": value}))))
def test_any_text_of_grouping_rules_gives_rules_or_problems_with_a_fix(text: str) -> None:
    book = rule_book(text)
    assert all(problem.fix for problem in book.problems)


def _read(struct: Any, body: Any) -> Any:
    """None for what our services would set aside."""
    try:
        return decode(struct, json.dumps(body).encode())
    except Unreadable:
        return None
