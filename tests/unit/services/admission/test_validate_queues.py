"""Admission of queues: what is refused on write and delete, with field and fix."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.services.admission.handler import to_review
from muster.services.admission.review import AdmissionResponse, Review
from muster.services.admission.settings import AdmissionSettings, UnknownQueue
from muster.services.admission.validate_queues import queue_surprises, validate_queue

_AMOUNTS = {"quota": 1, "limit": -1, "overQuotaWeight": 1}


def body(name: str, parent: str = "", **gpu: float) -> dict[str, Any]:
    resources = {"gpu": {**_AMOUNTS, **gpu}, "cpu": _AMOUNTS, "memory": _AMOUNTS}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"metadata": {"name": name}, "spec": spec}


def tree(*bodies: dict[str, Any]) -> dict[str, Queue]:
    return {one["metadata"]["name"]: from_builtins(Queue, one) for one in bodies}


def create(thing: dict[str, Any], *others: dict[str, Any], **settings: Any) -> AdmissionResponse:
    return validate_queue(Review("CREATE", thing), AdmissionSettings(**settings), tree(*others))


@pytest.mark.row(107)
@pytest.mark.parametrize(
    ("wrong", "others", "told"),
    [
        (
            body("a", quota=-5),
            [],
            "spec.resources.gpu.quota: -5 is negative; write 0 or more, or -1 for unlimited",
        ),
        (
            body("a", limit=-2),
            [],
            "spec.resources.gpu.limit: -2 is negative; write 0 or more, or -1 for unlimited",
        ),
        (
            body("a", overQuotaWeight=-1),
            [],
            "spec.resources.gpu.overQuotaWeight: -1 is negative; write 0 for no share, or more",
        ),
        (
            body("a", parent="a"),
            [],
            "spec.parentQueue: queue a is its own parent; "
            "name a parent that is not below this queue, or none for a root",
        ),
        (
            body("a", parent="c"),
            [body("b", parent="a"), body("c", parent="b")],
            "spec.parentQueue: queue a is its own ancestor: a -> c -> b -> a; "
            "name a parent that is not below this queue, or none for a root",
        ),
    ],
    ids=["quota", "limit", "weight", "own parent", "circle"],
)
def test_the_refusal_of_a_queue_names_the_field_and_the_fix(
    wrong: dict[str, Any], others: list[dict[str, Any]], told: str
) -> None:
    answer = create(wrong, *others)
    assert answer.message == told
    status = to_review(answer)["status"]
    assert status["message"] == told
    (cause,) = status["details"]["causes"]
    assert f"{cause['field']}: {cause['message']}" == told


def test_a_missing_parent_queue_is_allowed_or_refused_by_the_settings() -> None:
    child = body("child", parent="nobody")
    told = (
        "spec.parentQueue: there is no queue nobody; create the parent first, or correct its name"
    )
    assert create(child) == AdmissionResponse()
    assert create(child, unknown_parent=UnknownQueue.WARN) == AdmissionResponse((), (told,))
    refusal = create(child, unknown_parent=UnknownQueue.REFUSE)
    assert (refusal.allowed, refusal.message) == (False, told)
    known = create(child, body("nobody"), unknown_parent=UnknownQueue.REFUSE)
    assert known == AdmissionResponse()


def test_a_queue_that_lost_its_parent_stays_editable() -> None:
    strict = AdmissionSettings(unknown_parent=UnknownQueue.REFUSE)
    orphan = body("child", parent="gone")
    same = Review("UPDATE", orphan, body("child", parent="gone", quota=2))
    moved = Review("UPDATE", orphan, body("child", parent="other"))
    assert validate_queue(same, strict, {}).allowed
    assert not validate_queue(moved, strict, {}).allowed


@pytest.mark.row(107)
def test_a_queue_in_use_cannot_be_deleted_where_deletions_are_asked_about() -> None:
    review = Review("DELETE", None, body("team"))
    strict = AdmissionSettings()
    # Its status may not say so yet: the children themselves do.
    with_child = validate_queue(review, strict, tree(body("team"), body("a", parent="team")))
    assert with_child.message == "cannot delete queue team: it has child queues [a]"
    busy = validate_queue(review, strict, tree(body("team")), ["ns/x", "ns/y"])
    assert busy.message == (
        "cannot delete queue team: 2 pod groups are in it [ns/x ns/y]; "
        "delete those workloads or give them another queue first"
    )
    assert validate_queue(review, strict, tree(body("team"))).allowed


@pytest.mark.parametrize(
    ("quota", "limit", "said"),
    [
        (4, -1, ""),
        (4, 8, ""),
        (0, 0, ""),
        (4, 2, "spec.resources.gpu.limit: the limit 2 is below the quota 4; raise the limit"),
        (4, 0, "spec.resources.gpu.limit: it is 0, or absent, which means 0: nothing that needs"),
        (-1, 2, "spec.resources.gpu.limit: the limit 2 is below the quota everything"),
    ],
)
def test_a_limit_that_keeps_the_quota_from_being_used_is_warned_about(
    quota: float, limit: float, said: str
) -> None:
    made = body("team")
    unbounded = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    made["spec"]["resources"] = {"cpu": unbounded, "memory": unbounded, "gpu": gpu}
    assert create(made).allowed
    told = queue_surprises(Review("CREATE", made))
    assert [warning.startswith(said) for warning in told] == ([True] if said else [])


def test_a_queue_for_gpus_that_forgets_cpu_and_memory_is_warned_of() -> None:
    """As in KAI, what is absent is 0: no pod with a request for CPU would run."""
    made = body("a")
    made["spec"]["resources"] = {"gpu": _AMOUNTS}
    assert queue_surprises(Review("CREATE", made)) == tuple(
        f"spec.resources.{name}: it is absent, which means 0: no pod that asks for {name} can run "
        "here; write quota -1 and limit -1 for as much as there is"
        for name in ("cpu", "memory")
    )
    made["spec"]["resources"] = {"cpu": _AMOUNTS}  # of a queue without GPUs nobody expects any
    assert queue_surprises(Review("CREATE", made)) == ()


def test_a_queue_without_resources_is_refused_in_the_words_of_kai_with_field_and_fix() -> None:
    answer = create({"metadata": {"name": "a"}, "spec": {}})
    assert answer.message == (
        "resources must be specified: spec.resources is missing; write quota, limit and weight"
    )
    assert answer.problems[0].field == "spec.resources"


def test_warnings_about_quotas_go_resource_by_resource() -> None:
    """In the order in which the original gives them."""
    small = body("top", quota=1)
    mine, other = body("a", "top", quota=2), body("b", "top", quota=1)
    for one in (mine, other):
        one["spec"]["resources"]["cpu"] = one["spec"]["resources"]["memory"] = {
            "quota": 2,
            "limit": -1,
            "overQuotaWeight": 1,
        }
    told = create(mine, small, other, validates_quotas=True).warnings
    assert [text.split(" quota")[0] for text in told] == [
        "child queue CPU",
        "total children CPU",
        "child queue GPU",
        "total children GPU",
        "child queue Memory",
        "total children Memory",
    ]
