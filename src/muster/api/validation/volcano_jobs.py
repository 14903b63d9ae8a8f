"""Jobs and cron jobs of Volcano: numbers that fit together, policies that mean something, names
that pods can have."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from muster.api.bounds import (
    VOLCANO_JOB_PODS_MAX,
    VOLCANO_JOB_TASKS_MAX,
    VOLCANO_JOB_VOLUMES_MAX,
    VOLCANO_PLUGIN_ARGUMENTS_MAX,
    VOLCANO_POLICIES_MAX,
)
from muster.api.codec import Unreadable, from_builtins
from muster.api.core import PodSpec
from muster.api.duration import Duration
from muster.api.meta import ObjectMeta, Struct
from muster.api.validation.problems import (
    DNS_LABEL_MAX,
    Problem,
    Problems,
    is_dns_label,
    unlike,
)
from muster.api.volcano_batch import (
    ACTIONS,
    ANY_EVENT,
    DEPENDS_ALL,
    DEPENDS_ANY,
    EVENTS,
    JOB_PLUGINS,
    POD_PENDING,
    CronJob,
    Job,
    LifecyclePolicy,
    TaskSpec,
)
from muster.api.volcano_defaults import with_defaults
from muster.base.cron import BadSchedule, parsed

_PENDING_LEAST: Final = Duration("1s")
"""A pod that is replaced sooner never runs: it would be made and deleted without pause."""
_MOVABLE: Final = (
    "tasks",
    "min_available",
    "priority_class_name",
    "max_retry",
    "ttl_seconds_after_finished",
)
_TASK_MOVABLE: Final = ("replicas", "min_available", "max_retry")
_TOPOLOGIES: Final = ("none", "best-effort", "restricted", "single-numa-node")


class PodTemplate(Struct):
    """What of a template must be readable."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


def job_problems(job: Job) -> Problems:
    """What is wrong with a job by itself, its defaults filled in."""
    spec = with_defaults(job).spec
    if not spec.tasks:
        yield Problem("spec.tasks", "there is no task", "write at least one task")
    if len(spec.tasks) > VOLCANO_JOB_TASKS_MAX:
        message = f"{len(spec.tasks)} tasks are more than {VOLCANO_JOB_TASKS_MAX}"
        yield Problem("spec.tasks", message, "merge tasks with equal templates")
        return
    yield from _count_problems(job.spec.min_available, spec.tasks)
    yield from _numbers(job)
    yield from _policy_problems("spec.policies", spec.policies)
    yield from _plugin_problems(spec.plugins)
    yield from _name_problems(job.metadata.name, spec.tasks)
    for index, task in enumerate(spec.tasks):
        yield from _task_problems(f"spec.tasks[{index}]", task)
    yield from _dependency_problems(spec.tasks)
    if len(spec.volumes) > VOLCANO_JOB_VOLUMES_MAX:
        message = f"{len(spec.volumes)} volumes are more than {VOLCANO_JOB_VOLUMES_MAX}"
        yield Problem("spec.volumes", message, "put what belongs together into one volume")
        return
    for index, volume in enumerate(spec.volumes):
        path = f"spec.volumes[{index}]"
        if not volume.mount_path:
            yield Problem(f"{path}.mountPath", "it is empty", "write where containers see it")
        if not volume.volume_claim_name and volume.volume_claim is None:
            fix = "write volumeClaimName of a claim that exists, or volumeClaim"
            yield Problem(f"{path}.volumeClaim", "no claim is named or described", fix)


def cron_job_problems(cron: CronJob) -> Problems:
    spec = cron.spec
    if "TZ=" in spec.schedule:
        yield Problem("spec.schedule", "it names a time zone", "write it into spec.timeZone")
    else:
        try:
            parsed(spec.schedule, spec.time_zone or "")
        except BadSchedule as bad:
            zone = "time zone" in str(bad)
            path = "spec.timeZone" if zone else "spec.schedule"
            fix = "write a name of the IANA list" if zone else "write five fields of cron"
            yield Problem(path, str(bad), fix)
    if spec.concurrency_policy:
        policies = ("Allow", "Forbid", "Replace")
        yield from unlike("spec.concurrencyPolicy", spec.concurrency_policy, policies)
    for path, number in (
        ("spec.startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        if number is not None and number < 0:
            yield Problem(path, f"{number} is negative", "write 0 or more")
    try:
        inner = from_builtins(Job, {"spec": spec.job_template.spec})
    except Unreadable as error:
        path = "spec.jobTemplate" + error.path.removeprefix("$")
        yield Problem(path, error.reason, "write the field with the type that a Job has there")
        return
    for problem in job_problems(inner):
        path = f"spec.jobTemplate.{problem.path}"
        yield Problem(path, problem.message, problem.fix, problem.severity)


def change_problems(old: Job, new: Job) -> Problems:
    """What may change of a job: how many pods it has and needs, its priority, retries and time to
    live. Everything else is in pods that run."""
    before, after = with_defaults(old).spec, with_defaults(new).spec
    yield from _fixed("spec", before, after, _MOVABLE)
    if [task.name for task in before.tasks] != [task.name for task in after.tasks]:
        fix = "keep names and order, or make another job"
        yield Problem("spec.tasks", "tasks cannot be added, removed or renamed", fix)
        return
    for index, (one, other) in enumerate(zip(before.tasks, after.tasks, strict=True)):
        yield from _fixed(f"spec.tasks[{index}]", one, other, _TASK_MOVABLE)


def _fixed(path: str, before: Struct, after: Struct, movable: Sequence[str]) -> Problems:
    described: Any = before
    for field in msgspec.structs.fields(described):
        if field.name not in movable and getattr(before, field.name) != getattr(after, field.name):
            where = f"{path}.{field.encode_name}"
            yield Problem(where, "it cannot be changed", "make another job")


def _count_problems(given: int | None, tasks: Sequence[TaskSpec]) -> Problems:
    total = sum(max(task.replicas, 0) for task in tasks)
    if total > VOLCANO_JOB_PODS_MAX:
        message = f"{total} pods are more than {VOLCANO_JOB_PODS_MAX}"
        yield Problem("spec.tasks", message, "divide the work among several jobs")
    if given is not None and given > total:
        message = f"{given} is more than the {total} pods of all tasks"
        yield Problem("spec.minAvailable", message, f"write {total} or less")


def _numbers(job: Job) -> Problems:
    spec = job.spec
    for path, number in (
        ("spec.minAvailable", spec.min_available),
        ("spec.maxRetry", spec.max_retry),
        ("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
    ):
        if number is not None and number < 0:
            yield Problem(path, f"{number} is negative", "write 0 or more")
    if spec.min_success is not None and spec.min_success < 1:
        yield Problem("spec.minSuccess", f"{spec.min_success} is below 1", "write 1 or more")


def _task_problems(path: str, task: TaskSpec) -> Problems:
    least = task.min_available or 0
    for field, number in (
        ("replicas", task.replicas),
        ("minAvailable", least),
        ("maxRetry", task.max_retry),
    ):
        if number < 0:
            yield Problem(f"{path}.{field}", f"{number} is negative", "write 0 or more")
    if least > max(task.replicas, 0):
        message = f"{least} is more than the {task.replicas} replicas"
        yield Problem(f"{path}.minAvailable", message, f"write {task.replicas} or less")
    if task.topology_policy:
        yield from unlike(f"{path}.topologyPolicy", task.topology_policy, _TOPOLOGIES)
    yield from _policy_problems(f"{path}.policies", task.policies)
    yield from _partition_problems(path, task)
    yield from _template_problems(f"{path}.template", task)


def _template_problems(path: str, task: TaskSpec) -> Problems:
    try:
        template = from_builtins(PodTemplate, task.template)
    except Unreadable as error:
        where = path + error.path.removeprefix("$")
        yield Problem(where, error.reason, "write the field with the type that a pod has there")
        return
    if not template.spec.containers:
        where = f"{path}.spec.containers"
        yield Problem(where, "there is no container", "write at least one container")


def _partition_problems(path: str, task: TaskSpec) -> Problems:
    parts = task.partition_policy
    if parts is None:
        return
    where = f"{path}.partitionPolicy"
    if parts.total_partitions < 1 or parts.partition_size < 1:
        yield Problem(where, "parts and their size must be 1 or more", "write 1 or more for both")
    elif parts.total_partitions * parts.partition_size != task.replicas:
        message = (
            f"{parts.total_partitions} parts of {parts.partition_size} are not the "
            f"{task.replicas} replicas"
        )
        yield Problem(where, message, "write numbers whose product is the replicas")
    if not 0 <= parts.min_partitions <= max(parts.total_partitions, 0):
        message = f"{parts.min_partitions} is not between 0 and {parts.total_partitions}"
        yield Problem(f"{where}.minPartitions", message, "write a number between them")


def _policy_problems(path: str, policies: Sequence[LifecyclePolicy]) -> Problems:
    if len(policies) > VOLCANO_POLICIES_MAX:
        message = f"{len(policies)} policies are more than {VOLCANO_POLICIES_MAX}"
        yield Problem(path, message, "write fewer")
        return
    seen: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        yield from _one_policy(f"{path}[{index}]", policy)
        for event in policy.all_events:
            if event in seen:
                yield Problem(f"{path}[{index}].event", f"{event} stands twice", "remove one")
            seen.add(event)
        if policy.exit_code is not None:
            if policy.exit_code in codes:
                message = f"{policy.exit_code} stands twice"
                yield Problem(f"{path}[{index}].exitCode", message, "remove one")
            codes.add(policy.exit_code)
    if ANY_EVENT in seen and len(seen) > 1:
        yield Problem(path, "* stands beside other events", "write * alone, or the events")


def _one_policy(path: str, policy: LifecyclePolicy) -> Problems:
    events = policy.all_events
    if policy.event and policy.events:
        yield Problem(f"{path}.events", "event and events are both given", "write one of them")
    if not events and policy.exit_code is None:
        fix = "write event, events or exitCode"
        yield Problem(path, "it does not say when it applies", fix)
    if events and policy.exit_code is not None:
        fix = "write one of them, or two policies"
        yield Problem(f"{path}.exitCode", "events and an exit code are both given", fix)
    if policy.exit_code == 0:
        fix = "write another number, or the event TaskCompleted"
        yield Problem(f"{path}.exitCode", "0 is no failure", fix)
    for event in events:
        yield from unlike(f"{path}.event", event, EVENTS)
    yield from unlike(f"{path}.action", policy.action, ACTIONS)
    if POD_PENDING in events:
        yield from _pending_problems(f"{path}.timeout", policy.timeout)


def _pending_problems(path: str, timeout: Duration | None) -> Problems:
    if timeout is None:
        yield Problem(path, "PodPending without a timeout", "write how long a pod may wait")
    elif timeout < _PENDING_LEAST:
        message = f"PodPending after {timeout}: every pod is pending for so long"
        yield Problem(path, message, f"write {_PENDING_LEAST} or more")


def _plugin_problems(plugins: Mapping[str, tuple[str, ...]]) -> Problems:
    for name in sorted(plugins):
        if name not in JOB_PLUGINS:
            known = ", ".join(JOB_PLUGINS)
            yield Problem(f"spec.plugins.{name}", "there is no such plugin", f"write {known}")
        if len(plugins[name]) > VOLCANO_PLUGIN_ARGUMENTS_MAX:
            message = f"{len(plugins[name])} arguments are more than {VOLCANO_PLUGIN_ARGUMENTS_MAX}"
            yield Problem(f"spec.plugins.{name}", message, "write each argument once")


def _name_problems(job: str, tasks: Sequence[TaskSpec]) -> Problems:
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        path = f"spec.tasks[{index}].name"
        if task.name in seen:
            yield Problem(path, f"{task.name} stands twice", "give every task its own name")
        seen.add(task.name)
        if not is_dns_label(task.name):
            fix = "use up to 63 lower-case letters, digits and -"
            yield Problem(path, f"{task.name!r} cannot be part of the name of a pod", fix)
        longest = f"{job}-{task.name}-{max(task.replicas - 1, 0)}"
        if len(longest) > DNS_LABEL_MAX:
            message = f"pods would be called {longest}, {len(longest)} letters"
            fix = f"shorten the names of job and task by {len(longest) - DNS_LABEL_MAX}"
            yield Problem(path, message, fix)


def _dependency_problems(tasks: Sequence[TaskSpec]) -> Problems:
    known = {task.name for task in tasks}
    needs: dict[str, tuple[str, ...]] = {}
    for index, task in enumerate(tasks):
        if task.depends_on is None:
            continue
        path = f"spec.tasks[{index}].dependsOn"
        if task.depends_on.iteration:
            choices = (DEPENDS_ANY, DEPENDS_ALL)
            yield from unlike(f"{path}.iteration", task.depends_on.iteration, choices)
        for name in task.depends_on.name:
            if name not in known:
                yield Problem(f"{path}.name", f"there is no task {name}", "name another task")
        needs[task.name] = task.depends_on.name
    if found := circle(needs):
        fix = "let one of them depend on none of the others"
        yield Problem("spec.tasks", f"tasks wait for each other: {' -> '.join(found)}", fix)


def circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """A way from a task to itself, or nothing."""
    done: set[str] = set()
    for start in needs:
        path: dict[str, None] = {}
        waiting: list[Iterator[str]] = [iter((start,))]
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                on_the_way = list(path)
                return [*on_the_way[on_the_way.index(name) :], name]
            elif name not in done:
                path[name] = None
                waiting.append(iter(needs.get(name, ())))
    return []
