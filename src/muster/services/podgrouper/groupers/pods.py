"""Pods without an owner, Spark applications, and Deployments: kinds whose pods start one by one."""

from dataclasses import replace

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import INFERENCE, base_group, owner_reference
from muster.services.podgrouper.groupers.group import Group
from muster.services.podgrouper.groupers.workload import Workload

_SPARK_APP_NAME = "spark-app-name"
_SPARK_APP_SELECTOR = "spark-app-selector"


def group_pod(workload: Workload) -> Group:
    """A group for the pod alone; a Spark driver and its executors share one."""
    group = base_group(workload, workload.top)
    of_pod = fields.labels(workload.pod)
    if _SPARK_APP_NAME in of_pod and _SPARK_APP_SELECTOR in of_pod:
        return replace(group, name=of_pod[_SPARK_APP_SELECTOR])
    return group


def group_deployment(workload: Workload) -> Group:
    """Each replica serves by itself, so each is a group of its own, owned by its pod."""
    return alone(workload, base_group(workload, workload.top, INFERENCE))


def alone(workload: Workload, group: Group) -> Group:
    """`group`, for this one pod instead of the whole workload."""
    pod = workload.pod
    return replace(
        group,
        name=f"pg-{fields.name_of(pod)}-{fields.uid_of(pod)}",
        owner={"apiVersion": "v1", **owner_reference({"kind": "Pod", **pod})},
    )
