"""JobFlow and JobTemplate of Volcano (flow.volcano.sh/v1alpha1): jobs one after another."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from muster.api.meta import ApiObject, Struct, Time
from muster.api.schema import INT32, Schema
from muster.api.volcano_batch import TaskState

FLOW_PENDING: Final = "Pending"
FLOW_RUNNING: Final = "Running"
FLOW_SUCCEEDED: Final = "Succeed"
FLOW_FAILED: Final = "Failed"
RETAIN, DELETE = "retain", "delete"
CREATED_BY_FLOW: Final = "volcano.sh/createdByJobFlow"
CREATED_BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
"""Labels and annotations of a job: NAMESPACE.NAME of what it was made for, and from."""


class FlowDependencies(Struct):
    targets: Annotated[tuple[str, ...], Schema("Steps that must be Completed first.")] = ()
    probe: Annotated[Mapping[str, Any] | None, Schema("Nobody reads it, Volcano neither.")] = None


class FlowStep(Struct):
    """One job of a flow."""

    name: Annotated[str, Schema("The JobTemplate; the job is called FLOW-NAME.")] = ""
    depends_on: FlowDependencies | None = None
    patch: Annotated[Mapping[str, Any] | None, Schema("Nobody reads it, Volcano neither.")] = None


class JobFlowSpec(Struct):
    flows: tuple[FlowStep, ...] = ()
    job_retain_policy: Annotated[
        str, Schema("Whether jobs stay when all have succeeded: retain (the default) or delete.")
    ] = ""


class FlowState(Struct):
    phase: Annotated[str, Schema("Pending, Running, Succeed or Failed.")] = ""


class PhaseSpan(Struct):
    """A phase that a job was in."""

    state: str = ""
    start_timestamp: Time | None = None
    end_timestamp: Time | None = None


class FlowJobStatus(Struct):
    """The life of one job."""

    name: str = ""
    state: Annotated[str, Schema("Its phase.")] = ""
    start_timestamp: Time | None = None
    end_timestamp: Time | None = None
    restart_count: Annotated[int, INT32, Schema("Its retries.")] = 0
    running_histories: tuple[PhaseSpan, ...] = ()


class FlowCondition(Struct):
    """One job as it is."""

    phase: str = ""
    create_time: Time | None = None
    running_duration: str = ""
    task_status_count: Mapping[str, TaskState] = {}


class JobFlowStatus(Struct):
    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    un_know_jobs: Annotated[tuple[str, ...], Schema("In none of these phases.")] = ()
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: Annotated[Mapping[str, FlowCondition], Schema("By job.")] = {}
    state: FlowState = FlowState()


class JobFlow(ApiObject):
    """Jobs made from templates, each when those that it depends on are completed."""

    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(Struct):
    job_depends_on_list: Annotated[tuple[str, ...], Schema("Jobs made from it.")] = ()


class JobTemplate(ApiObject):
    """What the jobs of flows are made from."""

    spec: Annotated[Mapping[str, Any], Schema("As that of a Job.")] = {}
    status: JobTemplateStatus = JobTemplateStatus()
