"""Job and CronJob of Volcano (batch.volcano.sh/v1alpha1), its Command (bus.volcano.sh/v1alpha1).

A job is tasks of equal pods with one PodGroup, and policies: which event leads to which action.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from muster.api.duration import Duration
from muster.api.meta import ApiObject, ObjectMeta, OwnerReference, Struct, Time
from muster.api.schema import INT32, Schema
from muster.api.volcano import NetworkTopology

PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
ABORTING: Final = "Aborting"
ABORTED: Final = "Aborted"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
TERMINATING: Final = "Terminating"
TERMINATED: Final = "Terminated"
FAILED: Final = "Failed"
FINISHED_PHASES: Final = (COMPLETED, TERMINATED, FAILED)
"""Phases that a job does not leave again."""

SYNC_JOB: Final = "SyncJob"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTART_PARTITION: Final = "RestartPartition"
ABORT_JOB: Final = "AbortJob"
TERMINATE_JOB: Final = "TerminateJob"
COMPLETE_JOB: Final = "CompleteJob"
RESUME_JOB: Final = "ResumeJob"
ACTIONS: Final = (
    ABORT_JOB,
    RESTART_JOB,
    RESTART_TASK,
    RESTART_POD,
    RESTART_PARTITION,
    TERMINATE_JOB,
    COMPLETE_JOB,
    RESUME_JOB,
)
OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"

ANY_EVENT: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
POD_RUNNING: Final = "PodRunning"
JOB_UNKNOWN: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
EVENTS: Final = (
    ANY_EVENT,
    POD_FAILED,
    POD_EVICTED,
    POD_PENDING,
    POD_RUNNING,
    JOB_UNKNOWN,
    TASK_COMPLETED,
    TASK_FAILED,
)

DEPENDS_ANY: Final = "any"
DEPENDS_ALL: Final = "all"
JOB_PLUGINS: Final = (
    "env",
    "svc",
    "ssh",
    "tensorflow",
    "pytorch",
    "mpi",
    "ray",
    "hcclrank",
)
DEFAULT_MAX_RETRY: Final = 3

LABEL_JOB: Final = "volcano.sh/job-name"
LABEL_JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
LABEL_QUEUE: Final = "volcano.sh/queue-name"
LABEL_TASK_INDEX: Final = "volcano.sh/task-index"
LABEL_PARTITION: Final = "volcano.sh/partition-id"
"""Which part of a task with a partition policy a pod belongs to: what sub-groups are made of."""
ANNOTATION_JOB_VERSION: Final = "volcano.sh/job-version"
"""How often the job had been killed when the pod was made: an older pod belongs to the past."""
ANNOTATION_RETRIES: Final = "volcano.sh/job-retry-count"
ANNOTATION_TEMPLATE: Final = "volcano.sh/template-uid"
ANNOTATION_RESTARTED: Final = "volcano.sh/restarted-by-policy"
"""On a pod that a policy replaces: it is going because of us, and its end is no event."""


class LifecyclePolicy(Struct):
    """What is done when something happens."""

    action: Annotated[str, Schema("What is done.")] = ""
    event: Annotated[str, Schema("When this happens; excludes exitCode.")] = ""
    events: Annotated[tuple[str, ...], Schema("When one of these happens.")] = ()
    exit_code: Annotated[int | None, INT32, Schema("When a container ends with it; not 0.")] = None
    timeout: Annotated[Duration | None, Schema("How long it must last before it counts.")] = None

    @property
    def all_events(self) -> tuple[str, ...]:
        return (*((self.event,) if self.event else ()), *self.events)


class DependsOn(Struct):
    """Tasks whose pods must be ready before those of this one are made."""

    name: Annotated[tuple[str, ...], Schema("The other tasks.")] = ()
    iteration: Annotated[str, Schema("any of them, or all (all).", enum=["any", "all"])] = ""


class PartitionPolicy(Struct):
    """Divides the pods of a task into parts of one size, in the order of their indexes."""

    total_partitions: Annotated[int, INT32, Schema("How many parts.", minimum=1)]
    partition_size: Annotated[int, INT32, Schema("Pods of a part.", minimum=1)]
    min_partitions: Annotated[int, INT32, Schema("Parts that start together or not at all.")] = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(Struct):
    """Equal pods of a job."""

    name: Annotated[str, Schema("Pods are called JOB-TASK-INDEX (default0, default1, ...).")] = ""
    replicas: Annotated[int, INT32, Schema("How many pods.")] = 0
    min_available: Annotated[
        int | None,
        INT32,
        Schema("Of these, how many start together or not at all (all, or minPartitions)."),
    ] = None
    template: Annotated[Mapping[str, Any], Schema("Of the pods, as in a Deployment.")] = {}
    policies: Annotated[tuple[LifecyclePolicy, ...], Schema("Go before those of the job.")] = ()
    topology_policy: Annotated[str, Schema("Of NUMA zones, for the numaaware plugin.")] = ""
    max_retry: Annotated[
        int, INT32, Schema("Restarts of a pod's containers before the event TaskFailed (3).")
    ] = DEFAULT_MAX_RETRY
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class VolumeSpec(Struct):
    """A volume of every pod of the job."""

    mount_path: Annotated[str, Schema("Where containers see it.")] = ""
    volume_claim_name: Annotated[
        str, Schema("A claim that exists, or the name of the new one.")
    ] = ""
    volume_claim: Annotated[
        Mapping[str, Any] | None, Schema("Spec of a claim that is made for the job.")
    ] = None


class JobSpec(Struct):
    scheduler_name: Annotated[str, Schema("Of the pods (volcano).")] = ""
    min_available: Annotated[
        int | None, INT32, Schema("Pods that start together or not at all (sum of the tasks').")
    ] = None
    min_success: Annotated[
        int | None, INT32, Schema("Pods that must end well for the job to be done.", minimum=1)
    ] = None
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: Annotated[
        Mapping[str, tuple[str, ...]],
        Schema("env, svc, ssh, tensorflow, pytorch, mpi, ray, hcclrank."),
    ] = {}
    running_estimate: Annotated[Duration | None, Schema("For people.")] = None
    queue: Annotated[str, Schema("The queue that pays (default).")] = ""
    max_retry: Annotated[int, INT32, Schema("Restarts before the job fails (3).")] = (
        DEFAULT_MAX_RETRY
    )
    ttl_seconds_after_finished: Annotated[
        int | None, INT32, Schema("When a finished job is deleted; absent: never.")
    ] = None
    priority_class_name: Annotated[str, Schema("Of the PodGroup.")] = ""
    network_topology: NetworkTopology | None = None


class JobState(Struct):
    phase: Annotated[str, Schema("Where in its life the job is.")] = ""
    reason: Annotated[str, Schema("One word for machines.")] = ""
    message: Annotated[str, Schema("Why, for people.")] = ""
    last_transition_time: Annotated[Time | None, Schema("When the phase last changed.")] = None


class JobCondition(Struct):
    """A phase that the job came to."""

    status: str = ""
    last_transition_time: Time | None = None


class TaskState(Struct):
    phase: Annotated[Mapping[str, int], Schema("Pods by phase.")] = {}


class JobStatus(Struct):
    state: JobState = JobState()
    min_available: Annotated[int, INT32, Schema("As the spec says.")] = 0
    task_status_count: Annotated[Mapping[str, TaskState], Schema("Pods of each task.")] = {}
    pending: Annotated[int, INT32, Schema("Pods that wait.")] = 0
    running: Annotated[int, INT32, Schema("Pods that run.")] = 0
    succeeded: Annotated[int, INT32, Schema("Pods that ended well.")] = 0
    failed: Annotated[int, INT32, Schema("Pods that failed.")] = 0
    terminating: Annotated[int, INT32, Schema("Pods that are going.")] = 0
    unknown: Annotated[int, INT32, Schema("Pods that nobody hears of.")] = 0
    version: Annotated[int, INT32, Schema("How often all pods were killed.")] = 0
    retry_count: Annotated[int, INT32, Schema("How often the job was restarted.")] = 0
    running_duration: Annotated[str, Schema("From creation to the end.")] = ""
    controlled_resources: Annotated[
        Mapping[str, str], Schema("Plugins whose objects exist, and claims.")
    ] = {}
    conditions: Annotated[tuple[JobCondition, ...], Schema("Phases and when they began.")] = ()


class Job(ApiObject):
    """Tasks that are scheduled together, and what is done when something happens to them."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CommandTarget(OwnerReference):
    """The Job or Queue that a command is for."""


class Command(ApiObject):
    """Something that somebody wants done with a Job or a Queue; it is deleted when it was done."""

    action: str = ""
    target: CommandTarget | None = None
    reason: str = ""
    message: str = ""


class JobTemplate(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[Mapping[str, Any], Schema("As that of a Job.")] = {}


class CronJobSpec(Struct):
    schedule: Annotated[str, Schema("Five fields of cron.")] = ""
    time_zone: Annotated[str | None, Schema("A name such as Europe/Berlin (UTC).")] = None
    starting_deadline_seconds: Annotated[
        int | None, Schema("How late a job may start; absent: however late.", format="int64")
    ] = None
    concurrency_policy: Annotated[
        str, Schema("While one runs: another beside it, none, or in its place (Allow).")
    ] = ""
    suspend: Annotated[bool | None, Schema("Whether new jobs wait.")] = None
    job_template: JobTemplate = JobTemplate()
    successful_jobs_history_limit: Annotated[int | None, INT32, Schema("Kept (3).")] = None
    failed_jobs_history_limit: Annotated[int | None, INT32, Schema("Kept (1).")] = None


class JobReference(Struct):
    """One of the jobs of a cron job that has not ended."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class CronJobStatus(Struct):
    active: tuple[JobReference, ...] = ()
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(ApiObject):
    """A Job at every scheduled time."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class Terminated(Struct):
    exit_code: int = 0
    finished_at: Time | None = None


class ContainerState(Struct):
    terminated: Terminated | None = None


class ContainerStatus(Struct):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class JobPodStatus(Struct):
    phase: str = ""
    reason: str = ""
    start_time: Time | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class JobPod(ApiObject):
    """A pod as the controller of its job sees it: its labels, and how its containers ended."""

    status: JobPodStatus = JobPodStatus()
