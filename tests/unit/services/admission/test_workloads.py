"""Jobs whose gang could never start are let in, and whoever writes them is told."""

from typing import Any

import pytest

from muster.services.admission.review import Review
from muster.services.admission.validate_workloads import validate_workload

_KEY = "kai.scheduler/batch-min-member"


def job(minimum: str | None, kind: str = "Job", **spec: Any) -> dict[str, Any]:
    annotations = {} if minimum is None else {_KEY: minimum}
    return {"kind": kind, "metadata": {"name": "j", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize("minimum", ["four", "", "2.5", "99999999999999999999", "-1"])
def test_a_minimum_that_is_no_number_is_warned_of(minimum: str) -> None:
    for kind in ("Job", "JobSet"):
        answer = validate_workload(Review("CREATE", job(minimum, kind, parallelism=4)))
        assert answer.allowed
        (told,) = answer.warnings
        assert told.startswith(f'metadata.annotations[{_KEY}]: "{minimum}" is no whole number')
        assert 'such as "2"' in told


@pytest.mark.parametrize(
    ("minimum", "spec", "most"),
    [
        ("5", {"parallelism": 3}, 3),
        ("5", {"parallelism": 8, "completions": 4}, 4),
        ("2", {}, 1),
    ],
)
def test_a_minimum_beyond_the_pods_of_the_job_is_warned_of(
    minimum: str, spec: dict[str, Any], most: int
) -> None:
    (told,) = validate_workload(Review("CREATE", job(minimum, **spec))).warnings
    assert f"would need {minimum} pods at once" in told
    assert told.endswith(f"at most {most}, so it can never start; write {most} or less")


def test_a_job_set_that_would_start_with_none_of_its_jobs_is_warned_of() -> None:
    """The pod grouper takes no such JobSet, as the original; a Job of 0 starts pod by pod."""
    (told,) = validate_workload(Review("CREATE", job("0", "JobSet"))).warnings
    assert told.startswith(f"metadata.annotations[{_KEY}]: 0 replicated jobs are none")
    assert validate_workload(Review("CREATE", job("0", parallelism=1))).warnings == ()


def test_a_minimum_in_the_template_of_the_pods_is_said_to_do_nothing() -> None:
    template = {"metadata": {"annotations": {_KEY: "3"}}}
    (told,) = validate_workload(Review("CREATE", job(None, template=template))).warnings
    assert told.startswith(f"spec.template.metadata.annotations[{_KEY}]: does nothing on pods")
    both = job("3", parallelism=3, template=template)
    assert validate_workload(Review("CREATE", both)).warnings == ()


@pytest.mark.parametrize(
    "thing",
    [
        job("3", parallelism=3),
        job(None, parallelism=1),
        job("9", "JobSet", replicatedJobs=[{}]),  # taken for all of them
    ],
)
def test_what_can_start_is_not_spoken_of(thing: dict[str, Any]) -> None:
    assert validate_workload(Review("CREATE", thing)).warnings == ()


@pytest.mark.parametrize("odd", [5, "x", [1], {"template": [3]}, {"template": {"metadata": "x"}}])
def test_a_workload_of_any_shape_is_let_in(odd: Any) -> None:
    """Of kinds that nobody here knows, a field may be anything."""
    for thing in (
        {**job(None), "spec": odd},
        {"kind": "JobSet", "metadata": odd},
        {"kind": "Job", "metadata": {"annotations": odd}, "spec": odd},
    ):
        assert validate_workload(Review("CREATE", thing)).warnings == ()


def test_an_old_minimum_is_not_spoken_of_at_every_write() -> None:
    old, new = job("four"), {**job("four"), "status": {"active": 1}}
    assert validate_workload(Review("UPDATE", new, old)).warnings == ()
    assert validate_workload(Review("UPDATE", job("five"), old)).warnings
