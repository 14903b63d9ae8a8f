"""Workloads that do not match their kind are an event on the pod."""

from typing import Any

import pytest
from tests.support.grouping import grouped, pod

_SEGMENTS = {"kai.scheduler/segment-size": "1000000000"}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "words"),
    [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [None]},
            ".spec.replicatedJobs.0 accessor error: None is of the type",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "a", "template": 3}]},
            "JobSet <ns>/top is not shaped as its kind says",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "a", "replicas": 2**31}]},
            "replicatedJob a has 2147483648 replicas, more than the 3000 allowed",
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 2**31}},
            "replicasSize 2147483648 is more than 100000",
        ),
    ],
)
def test_a_misshapen_workload_is_a_grouping_error(
    api_version: str, kind: str, spec: dict[str, Any], words: str
) -> None:
    top = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "top", "annotations": _SEGMENTS},
        "spec": spec,
    }
    labels = {"leaderworkerset.sigs.k8s.io/worker-index": "1"}
    outcome = grouped([top, pod("a", (api_version, kind, "top"), **labels)]).outcome()
    assert outcome["podgroups"] == []
    (event,) = outcome["events"]
    assert words in event["message"]
