"""build(supervisor, config): the whole object graph of the scheduler, in one function."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.meta import PartialObject
from muster.base.offload import Offload, in_thread
from muster.client.informer import Informer
from muster.client.kinds import plainly
from muster.client.write import Writer
from muster.engine.config.conf import SchedulerConf
from muster.engine.config.profile import Profile
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult
from muster.engine.profiles.known import parse_for, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.engine.warm import warm_up
from muster.model.snapshot import ClusterSnapshot
from muster.model.usage import QueueUsage, UtilisationSettings
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.batch_objects import as_group, as_queue, naming_its_group
from muster.services.scheduler.batch_reporter import BatchReporter
from muster.services.scheduler.bind_requests import RequestBinder, TimedBinder
from muster.services.scheduler.cache import SchedulerCache, SchedulerInformers
from muster.services.scheduler.cluster_objects import ClusterInformers, WatchedObjects
from muster.services.scheduler.committer import Committer
from muster.services.scheduler.conf_file import ConfFile
from muster.services.scheduler.cycle_dump import (
    CycleDump,
    encoded_parts,
    plain_plan,
    recorded_settings,
)
from muster.services.scheduler.cycle_log import CycleLog, CycleLogger
from muster.services.scheduler.eviction_history import EvictionHistory
from muster.services.scheduler.evictor import Evictor
from muster.services.scheduler.idle_gpus import IdleGpus
from muster.services.scheduler.loop import ActivePolicy, SchedulingLoop
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.missing_groups import MissingGroups
from muster.services.scheduler.options import Options
from muster.services.scheduler.pod_interning import RAW_POD, PodInterner
from muster.services.scheduler.reporter import Reporter
from muster.services.scheduler.resync import Resync
from muster.services.scheduler.standby import keep_tables_ready
from muster.services.scheduler.status_updater import StatusUpdater
from muster.services.scheduler.usage_meters import UsageMeters, usage_page
from muster.services.scheduler.write_turns import WriteTurns
from muster.usage.fetcher import Fetcher, UsageFetcher
from muster.usage.sources import UsageSources
from muster.usage.utilisation import Utilisation


@dataclass(frozen=True, slots=True)
class SchedulerServiceConfig:
    options: Options = field(default_factory=Options)
    conf_file: Path | None = None
    """Where the configuration is; None: the built-in default."""
    cycle_log_folder: Path | None = None
    """Where cycles that decided something are kept; None: nowhere."""
    cycle_log_files_max: int = 1000
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Where the configuration may say that an address is."""
    offload: Offload = in_thread
    """Where decisions are calculated and cycles are written to disk."""


_OVERDUE_S = 600.0
"""Longer than the searches of a cycle may take together, with what budgets there are by default."""
_HUNG_S = 1800.0


def build(supervisor: Supervisor, config: SchedulerServiceConfig) -> SchedulingLoop:
    options = config.options
    meters = SchedulerMeters(supervisor.registry, options.names.metrics_prefix)
    profile = profile_of(options.profile)
    informers = _informers(supervisor, options, profile)
    cache = SchedulerCache(informers, options, supervisor.clock)
    writer = Writer(supervisor.connection, "muster-scheduler")
    log = supervisor.log.child("scheduler")
    updater = StatusUpdater(writer, log, options.status_workers)
    meters.watch_status_updates(updater.__len__, lambda: updater.oldest_s)
    clock, recorder = supervisor.clock, supervisor.recorder
    binder = TimedBinder(RequestBinder(writer, options), meters, clock)
    resync = Resync(cache, supervisor.reader, binder, clock, log, meters)
    turns = WriteTurns(options.write_workers)
    evictor = Evictor(cache, writer, resync, updater, turns, options, clock, log, meters, recorder)
    history = EvictionHistory(cache, supervisor.reader, writer, options, clock, log)
    committer = Committer(
        cache,
        binder,
        evictor,
        history,
        resync,
        updater,
        turns,
        options,
        clock,
        log,
        meters,
        recorder,
    )
    meters.oldest_assumption_s.set_function(cache.oldest_assumption_s)
    meters.being_written.set_function(lambda: committer.in_flight)
    reporter = (
        Reporter(cache, updater, options, clock, recorder)
        if profile is None
        else BatchReporter(cache, updater, options, clock, recorder, profile.reads[0])
    )

    report = NoEffectReport(supervisor)

    def watched(kind: Kind[Any]) -> Informer[Any]:
        # Whatever a plugin names may not be installed (yet).
        if kind == kinds.NODE_RESOURCE_TOPOLOGY:
            # They become part of node records.
            informer = supervisor.informer(kind, is_optional=True)
            cache.watch_zones(informer)
        else:
            informer = supervisor.informer(plainly(kind), is_optional=True)
            informers.cluster_objects.watch(kind.full_name, informer)
        return informer

    usage = past_usage(supervisor, config, cache)
    utilisation = real_utilisation(supervisor, config, IdleGpus(cache, reporter, clock))

    def parse_policy(text: str, file: str) -> ActivePolicy:
        conf = parse_for(profile, text, file)
        made = active_policy(conf, options)
        report.show(conf.no_effect)
        usage.configure(conf.usage)
        utilisation.configure(conf.utilisation)
        return replace(made, informers=tuple(map(watched, made.policy.watches)))

    policy_file = ConfFile(config.conf_file, parse_policy, log, config.offload)
    warm_up(lambda what: log.info("compiling kernels", what=what))
    loop = SchedulingLoop(
        cache,
        committer,
        reporter,
        history,
        policy_file.current,
        options,
        clock,
        log,
        meters,
        config.offload,
    )
    loop.on_begin = policy_file.look
    loop.when_ready = usage.first
    if config.cycle_log_folder is not None:
        cycle_log = CycleLog(config.cycle_log_folder, config.cycle_log_files_max, log)
        logger = CycleLogger(cycle_log, config.offload, log)
        loop.on_decided = lambda snapshot, result, now_s: logger.write(
            partial(_cycle_dump, snapshot, now_s, policy_file.text, options, result)
        )
    supervisor.checks.append(partial(loop.overdue, _OVERDUE_S))
    supervisor.vital_checks.append(partial(loop.overdue, _HUNG_S))
    supervisor.debug["snapshot"] = lambda: _newest_cycle(loop, policy_file.text, options)
    missing_groups = MissingGroups(
        informers.pods, informers.pod_groups, informers.nodes, updater, options, clock, recorder
    )
    waiting = partial(keep_tables_ready, cache, clock, lambda: loop.has_begun)
    supervisor.add(Loop("standby", waiting), Phase.SYNCED)
    supervisor.add(Loop("usage", usage.run), Phase.SYNCED)
    supervisor.add(missing_groups, Phase.LEADING)
    supervisor.add(updater, Phase.LEADING)
    supervisor.add(resync, Phase.LEADING)
    supervisor.add(Loop("utilisation", utilisation.run), Phase.LEADING)
    supervisor.add(loop, Phase.LEADING)
    return loop


def past_usage(
    supervisor: Supervisor, config: SchedulerServiceConfig, cache: SchedulerCache
) -> UsageFetcher:
    """What keeps the cache told of past usage, as soon as it is configured."""
    names, clock = config.options.names, supervisor.clock
    sources = UsageSources(config.environ, names.metrics_prefix, clock, config.offload)
    fetcher = UsageFetcher(sources.source, clock, supervisor.log.child("usage"))
    meters = UsageMeters(supervisor.registry, fetcher, names.metrics_prefix)

    def heard(usage: QueueUsage | None) -> None:
        by_queue = {} if usage is None else usage.by_queue
        cache.set_usage(by_queue)
        meters.show(by_queue)

    fetcher.on_reading = heard
    supervisor.debug["usage"] = lambda: usage_page(fetcher)
    return fetcher


def real_utilisation(
    supervisor: Supervisor, config: SchedulerServiceConfig, idle: IdleGpus
) -> Fetcher[UtilisationSettings, Utilisation]:
    """What keeps the cache told of what pods really use, as soon as it is configured."""
    clock, log = supervisor.clock, supervisor.log.child("utilisation")
    sources = UsageSources(
        config.environ, config.options.names.metrics_prefix, clock, config.offload
    )
    fetcher = Fetcher(sources.utilisation, clock, log)

    def heard(reading: Utilisation | None) -> None:
        settings = fetcher.settings
        idle.heard(reading, None if settings is None else settings.idle)

    fetcher.on_reading = heard
    # Whoever was idle when we last looked may be at work by now.
    fetcher.on_stale = lambda: heard(None)
    return fetcher


def active_policy(conf: SchedulerConf, options: Options) -> ActivePolicy:
    """Policy and actions of a configuration; a ConfigError names what is wrong in it."""
    profile = profile_of(options.profile)
    settings = EngineSettings(
        max_consolidation_victims=options.max_consolidation_victims,
        allow_consolidating_reclaim=options.allow_consolidating_reclaim,
        staleness_grace_s=options.staleness_grace_s,
        restrict_node_scheduling=options.restrict_node_scheduling,
    )
    return ActivePolicy(build_policy(conf, settings, profile), build_actions(conf, profile))


def _informers(
    supervisor: Supervisor, options: Options, profile: Profile | None = None
) -> SchedulerInformers:
    # Kubernetes before 1.34, or one without dynamic resources, does not serve these.
    claims, slices, classes = (
        (
            supervisor.informer(kinds.RESOURCE_CLAIM, is_optional=True),
            supervisor.informer(kinds.RESOURCE_SLICE, is_optional=True),
            supervisor.informer(kinds.DEVICE_CLASS, is_optional=True),
        )
        if options.watches_claims
        else (None, None, None)
    )
    cluster_objects = ClusterInformers(
        namespaces=supervisor.informer(_names_only(kinds.NAMESPACE)),
        config_maps=supervisor.informer(_names_only(kinds.CONFIG_MAP)),
        volume_claims=supervisor.informer(kinds.PERSISTENT_VOLUME_CLAIM),
        volumes=supervisor.informer(kinds.PERSISTENT_VOLUME),
        storage_classes=supervisor.informer(kinds.STORAGE_CLASS),
        storage_capacities=supervisor.informer(kinds.CSI_STORAGE_CAPACITY),
        storage_drivers=supervisor.informer(kinds.CSI_DRIVER),
        storage_nodes=supervisor.informer(kinds.CSI_NODE),
        device_classes=classes,
        device_slices=slices,
        device_claims=claims,
        disruption_budgets=(
            None if options.evicts_by_deletion else supervisor.informer(kinds.POD_DISRUPTION_BUDGET)
        ),
    )
    intern = PodInterner()
    queues, groups, hyper_nodes = _queues_and_groups(supervisor, profile)
    return SchedulerInformers(
        pods=supervisor.informer(
            RAW_POD, transform=intern if profile is None else naming_its_group(intern)
        ),
        nodes=supervisor.informer(kinds.NODE),
        queues=queues,
        pod_groups=groups,
        hyper_nodes=hyper_nodes,
        bind_requests=supervisor.informer(kinds.BIND_REQUEST),
        priority_classes=supervisor.informer(kinds.PRIORITY_CLASS),
        topologies=supervisor.informer(kinds.TOPOLOGY),
        claims=claims,
        slices=slices,
        cluster_objects=WatchedObjects(cluster_objects),
    )


def _queues_and_groups(
    supervisor: Supervisor, profile: Profile | None
) -> tuple[Informer[Any], Informer[Any], Informer[Any] | None]:
    if profile is None:
        return supervisor.informer(kinds.QUEUE), supervisor.informer(kinds.POD_GROUP), None
    group, queue, *others = profile.reads
    hyper_nodes = [supervisor.informer(kind, is_optional=True) for kind in others]
    return (
        supervisor.informer(queue, transform=as_queue),
        supervisor.informer(group, transform=as_group),
        next(iter(hyper_nodes), None),
    )


def _names_only(kind: Kind[Any]) -> Kind[PartialObject]:
    """The same kind without its contents: of config maps we only ask whether they exist."""
    return Kind(PartialObject, kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)


def _newest_cycle(loop: SchedulingLoop, conf: str, options: Options) -> Iterator[bytes] | None:
    """What the newest cycle saw and decided, for `muster replay`; None before the first. It is
    encoded by whoever goes through it, part by part, from values that never change.
    """
    return None if loop.last is None else _dump_parts(loop.last, conf, options)


def _dump_parts(
    last: tuple[ClusterSnapshot, CycleResult, float], conf: str, options: Options
) -> Iterator[bytes]:
    snapshot, result, now_s = last
    yield from encoded_parts(_cycle_dump(snapshot, now_s, conf, options, result))


def _cycle_dump(
    snapshot: ClusterSnapshot,
    now_s: float,
    conf: str,
    options: Options,
    result: CycleResult,
) -> CycleDump:
    return CycleDump(
        now_s,
        conf,
        snapshot.to_records(),
        settings=recorded_settings(options),
        plan=plain_plan(result.plan),
        holds=result.held,
    )
