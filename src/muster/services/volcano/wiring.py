"""build(supervisor, config): the whole object graph of Volcano's controllers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster.api.kinds import (
    HYPER_NODE,
    JOB_POD,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    VOLCANO_COMMAND,
    VOLCANO_CRON_JOB,
    VOLCANO_JOB,
    VOLCANO_JOB_FLOW,
    VOLCANO_JOB_TEMPLATE,
    VOLCANO_POD_GROUP,
    VOLCANO_QUEUE,
)
from muster.api.meta import Key
from muster.api.names import Names
from muster.api.volcano import Queue
from muster.api.volcano_batch import LABEL_JOB, Command
from muster.api.volcano_defaults import SCHEDULER
from muster.client.read import Reader, Selection
from muster.client.write import Writer
from muster.runtime.controller import Pace, own_key
from muster.runtime.supervisor import Supervisor
from muster.services.volcano.reconciler import flows, hyper_nodes, others
from muster.services.volcano.reconciler import jobs as job_controller
from muster.services.volcano.reconciler.flows import JobFlowReconciler, JobTemplateReconciler
from muster.services.volcano.reconciler.hyper_nodes import HyperNodeReconciler
from muster.services.volcano.reconciler.jobs import JobReconciler
from muster.services.volcano.reconciler.others import (
    CronJobReconciler,
    QueueReconciler,
)
from muster.services.volcano.reconciler.plain_pods import (
    PlainPodReconciler,
    ScaledAwayReconciler,
    group_of,
)

_GATHER_S: Final = 0.1
"""The pods of a gang start together: their job looks at them once."""


@dataclass(frozen=True, slots=True)
class VolcanoServiceConfig:
    names: Names = field(default_factory=Names)
    scheduler_name: str = SCHEDULER
    """Whose pods get a group."""
    queue_commands_namespace: str = "default"
    """Where commands about queues count, which belong to the whole cluster: that of vcctl."""
    workers: int = 16


def build(supervisor: Supervisor, config: VolcanoServiceConfig) -> None:
    writer = Writer(supervisor.connection, "muster-volcano")
    _jobs(supervisor, config, writer)
    _flows(supervisor, config, writer)
    _queues(supervisor, config, writer)
    _plain_pods(supervisor, config, writer)
    _hyper_nodes(supervisor, writer)


def _jobs(supervisor: Supervisor, config: VolcanoServiceConfig, writer: Writer) -> None:
    jobs = supervisor.informer(VOLCANO_JOB)
    pods = supervisor.informer(JOB_POD, Selection(labels=LABEL_JOB))
    groups = supervisor.informer(VOLCANO_POD_GROUP)
    commands = supervisor.informer(VOLCANO_COMMAND)
    classes = supervisor.informer(PRIORITY_CLASS)

    def priority_of(name: str) -> int:
        found = classes.get(Key("", name)) if name else None
        return found.value if found is not None else 0

    reconciler = JobReconciler(
        jobs,
        pods.add_index(job_controller.job_of),
        groups,
        commands.add_index(job_controller.job_of_command),
        priority_of,
        Reader(supervisor.connection),
        writer,
        supervisor.clock,
        supervisor.recorder,
    )
    pods.add_handler(reconciler.on_pod)
    pace = Pace(workers=config.workers, gather_s=_GATHER_S)
    controller = supervisor.controller("volcano jobs", reconciler, pace)
    controller.watch(jobs, own_key)
    controller.watch(pods, job_controller.job_of)
    controller.watch(groups, job_controller.job_of_group)
    controller.watch(commands, job_controller.job_of_command)

    cron_jobs = supervisor.informer(VOLCANO_CRON_JOB, is_optional=True)
    cron = CronJobReconciler(
        cron_jobs, jobs.add_index(others.cron_job_of), writer, supervisor.clock, supervisor.recorder
    )
    watching = supervisor.controller("volcano cron jobs", cron, Pace(workers=config.workers))
    watching.watch(cron_jobs, own_key)
    watching.watch(jobs, others.cron_job_of)


def _flows(supervisor: Supervisor, config: VolcanoServiceConfig, writer: Writer) -> None:
    jobs = supervisor.informer(VOLCANO_JOB)
    made = supervisor.informer(VOLCANO_JOB_FLOW, is_optional=True)
    templates = supervisor.informer(VOLCANO_JOB_TEMPLATE, is_optional=True)
    flows_from = made.add_index(flows.templates_of)
    reconciler = JobFlowReconciler(
        made, templates, jobs, jobs.add_index(flows.flow_of), writer, supervisor.recorder
    )
    controller = supervisor.controller("volcano job flows", reconciler, Pace(config.workers))
    controller.watch(made, own_key)
    controller.watch(jobs, flows.flow_of)
    controller.watch(templates, lambda one: [flow.key for flow in flows_from.get(one.key)])
    named = JobTemplateReconciler(templates, jobs.add_index(flows.template_of), writer)
    pace = Pace(workers=config.workers, gather_s=1.0)
    controller = supervisor.controller("volcano job templates", named, pace)
    controller.watch(templates, own_key)
    controller.watch(jobs, flows.template_of)


def _queues(supervisor: Supervisor, config: VolcanoServiceConfig, writer: Writer) -> None:
    queues = supervisor.informer(VOLCANO_QUEUE)
    groups = supervisor.informer(VOLCANO_POD_GROUP)
    commands = supervisor.informer(VOLCANO_COMMAND)
    children = queues.add_index(lambda queue: (others.parent_of(queue),))

    def about_queues(command: Command) -> tuple[Key, ...]:
        is_heard = command.metadata.namespace == config.queue_commands_namespace
        return others.queue_of_command(command) if is_heard else ()

    def with_children(queue: Queue) -> Iterable[Key]:
        return (queue.key, *(child.key for child in children.get(queue.metadata.name)))

    reconciler = QueueReconciler(
        queues,
        groups.add_index(others.queue_of),
        commands.add_index(about_queues),
        writer,
        supervisor.recorder,
    )
    pace = Pace(workers=config.workers, gather_s=1.0)
    controller = supervisor.controller("volcano queues", reconciler, pace)
    controller.watch(queues, with_children)
    controller.watch(groups, others.queue_of)
    controller.watch(commands, about_queues)


def _plain_pods(supervisor: Supervisor, config: VolcanoServiceConfig, writer: Writer) -> None:
    of_ours = Selection(fields=f"spec.schedulerName={config.scheduler_name}")
    pods = supervisor.informer(POD, of_ours)
    groups = supervisor.informer(VOLCANO_POD_GROUP)
    namespaces = supervisor.informer(NAMESPACE)
    reader = Reader(supervisor.connection)
    pods_of = pods.add_index(group_of)
    reconciler = PlainPodReconciler(
        pods, groups, namespaces, reader, writer, config.scheduler_name, supervisor.recorder
    )
    pace = Pace(workers=config.workers)
    controller = supervisor.controller("volcano plain pods", reconciler, pace)
    controller.watch(pods, own_key)
    # One that goes while pods come is made anew.
    controller.watch(
        groups, lambda group: [pod.key for pod in pods_of.get(group.key)], _is_deletion
    )
    scaled = ScaledAwayReconciler(groups, pods_of, reader, writer)
    pace = Pace(workers=config.workers, gather_s=1.0)
    controller = supervisor.controller("volcano groups scaled away", scaled, pace)
    controller.watch(groups, own_key)
    controller.watch(pods, group_of)


def _hyper_nodes(supervisor: Supervisor, writer: Writer) -> None:
    found = supervisor.informer(HYPER_NODE, is_optional=True)
    nodes = supervisor.informer(NODE)
    reconciler = HyperNodeReconciler(found, nodes, writer)
    controller = supervisor.controller("volcano hyper nodes", reconciler, Pace(gather_s=1.0))
    controller.watch(found, hyper_nodes.all_of_them)
    controller.watch(nodes, hyper_nodes.all_of_them, hyper_nodes.is_another_node)


def _is_deletion(old: object, new: object) -> bool:
    return new is None
