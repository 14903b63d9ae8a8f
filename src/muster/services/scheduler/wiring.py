"""build(supervisor, config): the whole object graph of the scheduler, in one function."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from muster import __version__
from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.meta import Key, PartialObject
from muster.api.yaml_text import read_yaml
from muster.base.log import Log
from muster.base.spans import Collect, uncollected
from muster.client.informer import Informer
from muster.client.kinds import plainly
from muster.client.read import Selection
from muster.client.write import Writer
from muster.engine.config.conf import SchedulerConf
from muster.engine.config.profile import Profile
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult
from muster.engine.policy import Policy
from muster.engine.profiles.known import conf_of, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.engine.tiers.plugins.extender import settings_of
from muster.engine.warm import warm_up
from muster.foresight.journal.store import RecordedRules
from muster.model.snapshot import ClusterSnapshot
from muster.model.usage import QueueUsage, UtilisationSettings
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor
from muster.runtime.tracing import OtlpSpans
from muster.services.scheduler.active_conf import ActiveConf
from muster.services.scheduler.batch_objects import Reading, as_queue
from muster.services.scheduler.batch_reporter import BatchReporter
from muster.services.scheduler.bind_requests import RequestBinder, TimedBinder
from muster.services.scheduler.cache import SchedulerCache, SchedulerInformers
from muster.services.scheduler.cluster_objects import ClusterInformers, WatchedObjects
from muster.services.scheduler.committer import Committer
from muster.services.scheduler.conf_file import ConfFile
from muster.services.scheduler.conf_map import ConfMap
from muster.services.scheduler.cycle_dump import (
    CycleDump,
    encoded_parts,
    plain_plan,
    recorded_settings,
)
from muster.services.scheduler.cycle_log import CycleLog, CycleLogger
from muster.services.scheduler.eviction_history import EvictionHistory
from muster.services.scheduler.evictor import Evictor
from muster.services.scheduler.extender.asker import Asker
from muster.services.scheduler.extender.payloads import Objects
from muster.services.scheduler.extender.server import connect_with
from muster.services.scheduler.idle_gpus import IdleGpus
from muster.services.scheduler.journal import Journal, store_opener
from muster.services.scheduler.loop import ActivePolicy, SchedulingLoop
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.missing_groups import MissingGroups
from muster.services.scheduler.node_reader import without_images
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.services.scheduler.pod_interning import RAW_POD, PodInterner
from muster.services.scheduler.reporter import Reporter
from muster.services.scheduler.resync import Resync
from muster.services.scheduler.share_reporter import ShareReporter
from muster.services.scheduler.spare_room import SpareRoom
from muster.services.scheduler.stand_ins import with_stand_ins
from muster.services.scheduler.standby import keep_tables_ready
from muster.services.scheduler.status_updater import StatusUpdater
from muster.services.scheduler.usage_meters import UsageMeters, idle_meter, usage_page
from muster.services.scheduler.write_turns import WriteTurns
from muster.usage.cluster_copy import ClusterCopy
from muster.usage.fetcher import Fetcher, UsageFetcher
from muster.usage.sources import UsageSources
from muster.usage.utilisation import Utilisation

_OVERDUE_S = 600.0
"""Longer than the searches of a cycle may take together, with what budgets there are by default."""
_HUNG_S = 1800.0


def build(supervisor: Supervisor, config: SchedulerServiceConfig) -> SchedulingLoop:
    options = config.options
    meters = SchedulerMeters(supervisor.registry, options.names.metrics_prefix)
    profile = profile_of(options.profile)
    informers = scheduler_informers(supervisor, options)
    cache = SchedulerCache(informers, options, supervisor.clock)
    writer = Writer(supervisor.connection, "muster-scheduler")
    log = supervisor.log.child("scheduler")
    updater = StatusUpdater(writer, log, options.status_workers)
    meters.watch_status_updates(updater.__len__, lambda: updater.oldest_s)
    clock, recorder = supervisor.clock, supervisor.recorder
    collect = _collect(supervisor, config.otlp_endpoint)
    binder = TimedBinder(RequestBinder(writer, options), meters, clock, collect)
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
    meters.oldest_assumption_s.set_function(cache.assumptions.oldest_s)
    meters.being_written.set_function(lambda: committer.in_flight)
    meters.resync_depth.set_function(resync.__len__)
    shares = ShareReporter(updater, meters, clock, writes=not options.shard)
    reporter = (
        Reporter(cache, updater, options, clock, recorder, shares)
        if profile is None
        else BatchReporter(
            cache,
            updater,
            options,
            clock,
            recorder,
            shares,
            profile.reads[0],
            profile.has_status,
        )
    )
    if profile is not None and recorder is not None:
        recorder.speak_as(profile.event_component or options.names.scheduler)

    report = NoEffectReport(supervisor)
    usage = past_usage(supervisor, config, cache)
    utilisation = real_utilisation(
        supervisor,
        config,
        IdleGpus(
            cache, reporter, clock, idle_meter(supervisor.registry, options.names.metrics_prefix)
        ),
        SpareRoom(cache, updater, clock),
    )

    extender = _extender(supervisor, config, cache, informers)

    def on_conf(conf: SchedulerConf, policy: Policy) -> None:
        report.show(conf.no_effect)
        usage.configure(conf.usage)
        utilisation.configure(conf.utilisation)
        extender.configure(settings_of(policy))

    policy_file = policy_of_file(supervisor, config, cache, informers, on_conf)
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

    async def ready() -> None:
        await policy_file.first()
        await usage.first()

    loop.when_ready = ready
    loop.collect = collect
    loop.on_cycle.append(extender.note)
    if config.cycle_log_folder is not None:
        cycle_log = CycleLog(config.cycle_log_folder, config.cycle_log_files_max, log)
        supervisor.debug["journal"] = lambda: [str(file) for file in cycle_log.files()]
        logger = CycleLogger(cycle_log, config.offload, log)
        loop.on_decided = lambda snapshot, result, now_s: logger.write(
            partial(_cycle_dump, snapshot, now_s, policy_file.text, options, result)
        )
    if config.journal_folder is not None:
        journal = _journal(config, config.journal_folder, policy_file, log, meters)
        loop.on_cycle.append(journal.note)
        supervisor.add(Loop("journal", journal.run), Phase.SYNCED)
    supervisor.checks.append(partial(loop.overdue, _OVERDUE_S))
    supervisor.vital_checks.append(partial(loop.overdue, _HUNG_S))
    supervisor.debug["snapshot"] = lambda: _newest_cycle(loop, policy_file.text, options)
    supervisor.debug["conf"] = lambda: read_yaml(policy_file.text)
    missing_groups = MissingGroups(
        informers.pods, informers.pod_groups, informers.nodes, updater, options, clock, recorder
    )
    waiting = partial(keep_tables_ready, cache, clock, lambda: loop.has_begun)
    supervisor.add(Loop("standby", waiting), Phase.SYNCED)
    supervisor.add(Loop("meters", partial(meters.age, clock)), Phase.SYNCED)
    supervisor.add(Loop("usage", usage.run), Phase.SYNCED)
    supervisor.add(Loop("extender", extender.run), Phase.LEADING)
    supervisor.add(missing_groups, Phase.LEADING)
    supervisor.add(updater, Phase.LEADING)
    supervisor.add(resync, Phase.LEADING)
    supervisor.add(Loop("utilisation", partial(_followed, utilisation)), Phase.LEADING)
    supervisor.add(loop, Phase.LEADING)
    return loop


def _extender(
    supervisor: Supervisor,
    config: SchedulerServiceConfig,
    cache: SchedulerCache,
    informers: SchedulerInformers,
) -> Asker:
    """What keeps the cache told of what an extender says, as soon as one is configured."""
    objects = Objects(cache.pod, lambda name: informers.nodes.get(Key("", name)))
    log = supervisor.log.child("extender")
    connect = connect_with(supervisor.clock)
    return Asker(connect, objects, cache.set_extender, supervisor.clock, config.offload, log)


def _collect(supervisor: Supervisor, endpoint: str) -> Collect:
    """To whom spans go."""
    if not endpoint:
        return uncollected
    spans = OtlpSpans(endpoint, supervisor.name)

    async def until_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            spans.close()

    supervisor.add(Loop("traces", until_the_end), Phase.SERVING)
    return spans


def _journal(
    config: SchedulerServiceConfig,
    folder: Path,
    policy_file: ActiveConf,
    log: Log,
    meters: SchedulerMeters,
) -> Journal:
    settings = recorded_settings(config.options)

    def rules() -> RecordedRules:
        return RecordedRules(__version__, policy_file.text, settings)

    opener = store_opener(folder, config.journal_writer, config.journal_bounds)
    return Journal(opener, rules, config.offload, log, meters)


def policy_of_file(
    supervisor: Supervisor,
    config: SchedulerServiceConfig,
    cache: SchedulerCache,
    informers: SchedulerInformers,
    on_conf: Callable[[SchedulerConf, Policy], None],
) -> ActiveConf:
    """The policy of the configuration, read again when it changes; what its plugins name is
    watched. `on_conf` is told each configuration that can be used.
    """

    def watched(kind: Kind[Any]) -> Informer[Any]:
        # Whatever a plugin names may not be installed (yet).
        if kind in (kinds.NODE_RESOURCE_TOPOLOGY, kinds.NUMATOPOLOGY):
            # They become part of node records.
            informer = supervisor.informer(kind, is_optional=True)
            cache.watch_zones(informer)
        else:
            informer = supervisor.informer(plainly(kind), is_optional=True)
            informers.cluster_objects.watch(kind.full_name, informer)
        return informer

    def parse_policy(text: str, file: str) -> ActivePolicy:
        conf = conf_of(config.options.profile, text, file)
        made = active_policy(conf, config.options)
        on_conf(conf, made.policy)
        wanted = sorted(made.policy.watches, key=lambda kind: kind.full_name)
        return replace(made, informers=tuple(map(watched, wanted)))

    log = supervisor.log.child("scheduler")
    if config.conf_map is None:
        return ConfFile(config.conf_file, parse_policy, log, config.offload)
    namespace, name = config.conf_map
    only = Selection(namespace, fields=f"metadata.name={name}")
    maps = supervisor.informer(kinds.CONFIG_MAP, only)
    conf_map = ConfMap(config.conf_map, maps, parse_policy, log)
    maps.add_handler(lambda old, new: cache.changed.set())
    supervisor.checks.append(lambda: conf_map.trouble)
    return conf_map


def past_usage(
    supervisor: Supervisor, config: SchedulerServiceConfig, cache: SchedulerCache
) -> UsageFetcher:
    """What keeps the cache told of past usage, as soon as it is configured."""
    names, clock = config.options.names, supervisor.clock
    kept = partial(ClusterCopy, supervisor.reader, names.namespace)
    sources = UsageSources(config.environ, names.metrics_prefix, clock, config.offload, kept)
    fetcher = UsageFetcher(sources.source, clock, supervisor.log.child("usage"))
    meters = UsageMeters(supervisor.registry, fetcher, names.metrics_prefix)

    def heard(usage: QueueUsage | None) -> None:
        cache.set_usage({} if usage is None else usage.by_queue)
        meters.show(usage)

    fetcher.on_reading = heard
    supervisor.debug["usage"] = lambda: usage_page(fetcher)
    return fetcher


def real_utilisation(
    supervisor: Supervisor, config: SchedulerServiceConfig, idle: IdleGpus, spare: SpareRoom
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
        spare.heard(reading, None if settings is None else settings.overcommit)

    fetcher.on_reading = heard
    # Whoever was idle when we last looked may be at work by now.
    fetcher.on_stale = lambda: heard(None)
    return fetcher


async def _followed(utilisation: Fetcher[UtilisationSettings, Utilisation]) -> None:
    if utilisation.settings is None:
        # What an earlier scheduler offered, or marked, by a configuration that is gone.
        utilisation.on_reading(None)
    await utilisation.run()


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


def scheduler_informers(supervisor: Supervisor, options: Options) -> SchedulerInformers:
    """Of everything that a cycle reads."""
    profile = profile_of(options.profile)
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
    reads_images = profile is not None and profile.reads_images
    intern = PodInterner(reads_images)
    reading = Reading.of(profile, options) if profile is not None else None
    transform = intern if reading is None else reading.naming_its_group(intern)
    pods = supervisor.informer(RAW_POD, transform=transform)
    queues, groups, hyper_nodes = _queues_and_groups(supervisor, profile, reading)
    if reading is not None and reading.has_stand_ins:
        groups = with_stand_ins(supervisor, reading, groups, pods)
    return SchedulerInformers(
        pods=pods,
        nodes=supervisor.informer(kinds.NODE, transform=None if reads_images else without_images),
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
    supervisor: Supervisor, profile: Profile | None, reading: Reading | None
) -> tuple[Informer[Any], Informer[Any], Informer[Any] | None]:
    if profile is None or reading is None:
        return supervisor.informer(kinds.QUEUE), supervisor.informer(kinds.POD_GROUP), None
    group, queue, *others = profile.reads
    hyper_nodes = [supervisor.informer(kind, is_optional=True) for kind in others]
    queues: Informer[Any] = (
        supervisor.informer(
            _names_only(kinds.NAMESPACE), transform=cast(Any, reading.queue_of_namespace)
        )
        if reading.namespaces_are_queues
        else supervisor.informer(queue, transform=as_queue)
    )
    groups = supervisor.informer(group, transform=reading.group)
    return queues, groups, next(iter(hyper_nodes), None)


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
        acted_s=result.acted_s,
    )
