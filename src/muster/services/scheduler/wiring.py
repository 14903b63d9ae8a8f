"""build(supervisor, config): the whole object graph of the scheduler, in one function."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.meta import PartialObject
from muster.client.informer import Informer
from muster.client.kinds import plainly
from muster.client.write import Writer
from muster.engine.config.conf import SchedulerConf, parse_conf
from muster.engine.config.settings import Settings
from muster.engine.cycle import CycleResult
from muster.engine.registry import build_actions, build_policy
from muster.engine.warm import warm_up
from muster.model.snapshot import ClusterSnapshot
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.parts import Phase
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.cache import SchedulerCache, Stores
from muster.services.scheduler.committer import Committer
from muster.services.scheduler.conf_file import ConfFile
from muster.services.scheduler.evictor import Evictor
from muster.services.scheduler.handing_over import RequestBinder, TimedBinder
from muster.services.scheduler.journal import Journal
from muster.services.scheduler.keep import SENT_POD, PodKeeper
from muster.services.scheduler.loop import Rules, SchedulingLoop
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.past_evictions import PastEvictions
from muster.services.scheduler.recording import Recording, plain_plan, settings_of, shown
from muster.services.scheduler.reporter import Reporter
from muster.services.scheduler.resync import Resync
from muster.services.scheduler.status_updater import StatusUpdater
from muster.services.scheduler.surroundings import Around, AroundStores


@dataclass(frozen=True, slots=True)
class Config:
    options: Options = field(default_factory=Options)
    conf_file: Path | None = None
    """Where the configuration is; None: the built-in default."""
    journal_folder: Path | None = None
    """Where cycles that decided something are kept; None: nowhere."""
    journal_cycles: int = 1000


def build(supervisor: Supervisor, config: Config) -> SchedulingLoop:
    options = config.options
    meters = SchedulerMeters(supervisor.registry, options.names.metrics_prefix)
    stores = _stores(supervisor, options)
    cache = SchedulerCache(stores, options, supervisor.clock)
    writer = Writer(supervisor.connection, "muster-scheduler")
    log = supervisor.log.child("scheduler")
    updater = StatusUpdater(writer, log, options.status_workers)
    clock, recorder = supervisor.clock, supervisor.recorder
    binder = TimedBinder(RequestBinder(writer, options), meters, clock)
    resync = Resync(cache, supervisor.reader, binder, clock, log)
    evictor = Evictor(cache, writer, resync, options, clock, log, meters, recorder)
    committer = Committer(cache, binder, evictor, resync, updater, options, clock, log, recorder)
    reporter = Reporter(cache, updater, options, clock, recorder)

    report = NoEffectReport(supervisor)

    def followed(kind: Kind[Any]) -> Informer[Any]:
        if kind == kinds.NODE_RESOURCE_TOPOLOGY:
            # They become part of node records; few clusters have them.
            informer = supervisor.informer(kind, is_optional=True)
            cache.follow_zones(informer)
        else:
            informer = supervisor.informer(plainly(kind))
            stores.around.follow(kind.full_name, informer)
        return informer

    def rules_in(text: str, file: str) -> Rules:
        conf = parse_conf(text, file)
        made = rules_of(conf, options)
        report.show(conf.no_effect)
        return replace(made, informers=tuple(map(followed, made.policy.watches)))

    rules = ConfFile(config.conf_file, rules_in, log)
    warm_up(lambda what: log.info("preparing kernels", what=what))
    past = PastEvictions(cache, supervisor.reader, writer, options, clock, log)
    loop = SchedulingLoop(
        cache, committer, reporter, past, rules.current, options, clock, log, meters
    )
    if config.journal_folder is not None:
        journal = Journal(config.journal_folder, config.journal_cycles, log)
        loop.on_decided = lambda snapshot, result, now_s: journal.keep(
            _recording(snapshot, now_s, rules, options, result)
        )
    supervisor.debug["snapshot"] = lambda: _dump(loop, rules, options)
    supervisor.add(updater, Phase.LEADING)
    supervisor.add(resync, Phase.LEADING)
    supervisor.add(loop, Phase.LEADING)
    return loop


def rules_of(conf: SchedulerConf, options: Options) -> Rules:
    """Policy and actions of a configuration; a ConfigError names what is wrong in it."""
    settings = Settings(
        max_consolidation_victims=options.max_consolidation_victims,
        allow_consolidating_reclaim=options.allow_consolidating_reclaim,
        staleness_grace_s=options.staleness_grace_s,
        restrict_node_scheduling=options.restrict_node_scheduling,
    )
    return Rules(build_policy(conf, settings), build_actions(conf))


def _stores(supervisor: Supervisor, options: Options) -> Stores:
    claims = supervisor.informer(kinds.RESOURCE_CLAIM) if options.watches_claims else None
    slices = supervisor.informer(kinds.RESOURCE_SLICE) if options.watches_claims else None
    classes = supervisor.informer(kinds.DEVICE_CLASS) if options.watches_claims else None
    around = AroundStores(
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
    return Stores(
        pods=supervisor.informer(SENT_POD, keep=PodKeeper()),
        nodes=supervisor.informer(kinds.NODE),
        queues=supervisor.informer(kinds.QUEUE),
        pod_groups=supervisor.informer(kinds.POD_GROUP),
        bind_requests=supervisor.informer(kinds.BIND_REQUEST),
        priority_classes=supervisor.informer(kinds.PRIORITY_CLASS),
        topologies=supervisor.informer(kinds.TOPOLOGY),
        claims=claims,
        slices=slices,
        around=Around(around),
    )


def _names_only(kind: Kind[Any]) -> Kind[PartialObject]:
    """The same kind without its contents: of config maps we only ask whether they exist."""
    return Kind(PartialObject, kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)


def _dump(loop: SchedulingLoop, rules: ConfFile, options: Options) -> object:
    """What the newest cycle saw and decided, for `muster replay`; None before the first."""
    if loop.last is None:
        return None
    snapshot, result, now_s = loop.last
    return shown(_recording(snapshot, now_s, rules, options, result))


def _recording(
    snapshot: ClusterSnapshot, now_s: float, rules: ConfFile, options: Options, result: CycleResult
) -> Recording:
    return Recording(
        now_s,
        rules.text,
        snapshot.to_records(),
        settings=settings_of(options),
        plan=plain_plan(result.plan),
    )
