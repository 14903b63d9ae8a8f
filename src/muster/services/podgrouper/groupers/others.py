"""Kinds with one small rule of their own."""

from dataclasses import replace

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import INFERENCE, base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError
from muster.services.podgrouper.groupers.workload import Workload


def group_aml_job(workload: Workload) -> Group:
    """Azure ML says in an environment variable how many nodes a job takes."""
    settings = fields.mapping(workload.top, "spec", "job", "options", "envs") or {}
    count = settings.get("AZUREML_NODE_COUNT")
    if not isinstance(count, int) or isinstance(count, bool):
        raise GroupingError("azureml envs count not found in spec")
    return replace(base_group(workload, workload.top), min_member=count)


def group_spot_request(workload: Workload) -> Group:
    return base_group(workload, workload.top, INFERENCE)
