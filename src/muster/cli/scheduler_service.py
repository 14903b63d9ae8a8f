"""muster scheduler: its flags, the original's and our own, and how it is built."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer

from muster.api import names
from muster.api.meta import Key
from muster.api.profiles import KUBE_BATCHES
from muster.cli.flags import (
    LEADER_ELECT,
    LIMITS,
    LOGGING,
    METRICS_NAMESPACE,
    QUEUE_LABEL,
    RESERVATION_NAMESPACE,
    SCALE_ADJUST_NAMESPACE,
    SCALING_POD_APP,
    WHOSE,
    bind_requests,
    listen,
    object_key,
    perhaps,
    profile_name,
    seconds,
    state_folder,
)
from muster.cli.service_command import Flag, Given, Service
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.options import SchedulerServiceConfig


class _Scheduler:
    """Loaded when it is to run: the engine is half of all there is to load, and no other service
    should wait for it, not even to start."""

    @staticmethod
    def build(supervisor: Supervisor, config: SchedulerServiceConfig) -> object:
        from muster.services.scheduler.wiring import build

        return build(supervisor, config)


def _limit(number: int, flag: str) -> int | None:
    return None if number < 0 else number


def _scheduler_lease(given: Given) -> str:
    return names.Names(scheduler=given["scheduler"]).scheduler_lease(given["shard"])


def _with_conf_map(config: SchedulerServiceConfig, given: Given) -> SchedulerServiceConfig:
    """The first kube-batch was told of a ConfigMap by the flag that is of a file elsewhere."""
    file: Path | None = config.conf_file
    if file is not None and config.conf_map is not None:
        both = f"--scheduler-conf {file} and --scheduler-conf-map {config.conf_map}"
        raise typer.BadParameter(f"{both}: the configuration is in one place: leave out the other")
    if file is None or file.exists() or config.options.profile not in KUBE_BATCHES:
        return config
    namespace, _, name = str(file).partition("/")
    if not namespace or not name or "/" in name:
        return config
    return replace(config, conf_file=None, conf_map=Key(namespace, name))


SCHEDULER: Final = Service(
    "scheduler",
    "Decide which pod runs where: the scheduler of one node pool.",
    _Scheduler,
    SchedulerServiceConfig(journal_writer=socket.gethostname()),
    _scheduler_lease,
    _with_conf_map,
    **WHOSE,
    profile=Flag(
        "--profile",
        "Whose objects and configuration to read: muster (as kai, with our own defaults), kai, "
        "volcano, kube-batch (0.4 and later) or kube-batch-0.2.",
        read=profile_name,
    ),
    conf_file=Flag(
        "--scheduler-conf",
        "Configuration file; read again when it changes. For kube-batch NAMESPACE/NAME of a"
        " ConfigMap too, where there is no such file.",
    ),
    conf_map=Flag(
        "--scheduler-conf-map",
        "NAMESPACE/NAME of a ConfigMap that holds the configuration instead.",
        "",
        object_key,
    ),
    namespaces_are_queues=Flag(
        "--enable-namespace-as-queue",
        "kube-batch: true, every namespace is a queue; false, Queue objects are; empty: true for "
        "0.2 and false since.",
        "",
        perhaps,
    ),
    default_queue=Flag(
        "--default-queue",
        "Volcano and kube-batch: the queue of groups that name none; empty: default, and in "
        "kube-batch 0.2 that of their namespace's name.",
    ),
    shard=Flag("--partition-label-value", "The node pool that this scheduler serves."),
    takes_unlabelled=Flag(
        "--takes-unlabelled",
        "Pod groups and queues that name no node pool are this scheduler's, too; nodes are not.",
    ),
    node_pool_label=Flag("--nodepool-label-key", "The label by which nodes belong to pools."),
    **QUEUE_LABEL,
    reservation_app=Flag("--resource-reservation-app-label", "The app label of reservation pods."),
    **RESERVATION_NAMESPACE,
    **SCALE_ADJUST_NAMESPACE,
    **SCALING_POD_APP,
    schedule_period_s=Flag(
        "--schedule-period", "The pause from the end of a cycle to the next.", "1s", seconds
    ),
    **LEADER_ELECT,
    **listen("--listen-address"),
    **METRICS_NAMESPACE,
    **LIMITS,
    staleness_grace_s=Flag(
        "--default-staleness-grace-period",
        "How long a broken gang is left alone; negative: for ever.",
        "60s",
        seconds,
    ),
    max_consolidation_victims=Flag(
        "--max-consolidation-preemptees",
        "Jobs that may be moved for one; 0: none, -1: any number.",
        read=_limit,
    ),
    allow_consolidating_reclaim=Flag(
        "--allow-consolidating-reclaim", "Victims of reclaim may be moved instead of lost."
    ),
    full_hierarchy_fairness=Flag(
        "--full-hierarchy-fairness", "Fair shares down the whole tree of queues."
    ),
    restrict_node_scheduling=Flag(
        "--restrict-node-scheduling", "Only nodes with a worker label take work."
    ),
    stuck_after_s=Flag(
        "--stuck-in-releasing-threshold",
        "When a pod that should have ended is no longer counted on to.",
        "2m",
        seconds,
    ),
    status_workers=Flag(
        "--num-of-status-recording-workers", "Conditions and annotations written at once.", least=1
    ),
    marks_evicted_pods=Flag(
        "--update-pod-eviction-condition", "Say on a pod why it is evicted, before it is."
    ),
    evicts_by_deletion=Flag(
        "--evict-by-deletion", "Delete victims, whatever their disruption budgets say."
    ),
    bind_requests=Flag(
        "--bind-requests",
        "Which pods are bound by a BindRequest: needed (those that need preparation; the others "
        "are bound directly) or always.",
        read=bind_requests,
    ),
    cycle_log_folder=Flag(
        "--journal", "Write what each deciding cycle saw and decided here, for muster replay."
    ),
    cycle_log_files_max=Flag("--journal-cycles", "How many of them; the oldest go first.", least=1),
    otlp_endpoint=Flag(
        "--otlp-endpoint", "Send traces of cycles and pods to this collector, by OTLP over HTTP."
    ),
    journal_folder=Flag(
        "--journal-folder",
        "Keep every decision here, for muster history and replay; auto: in the state folder of "
        "the user, empty: nowhere.",
        "auto",
        state_folder,
    ),
    decisions_s=Flag("--journal-retention", "How long decisions are kept.", "90d", seconds),
    inputs_s=Flag(
        "--journal-input-retention", "How long cycles can be decided again.", "1d", seconds
    ),
    size_max_bytes=Flag(
        "--journal-size-max-bytes", "How large the file may get; the oldest go first.", least=1
    ),
    **LOGGING,
)
