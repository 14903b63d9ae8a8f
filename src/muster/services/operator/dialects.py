"""Shards that schedule for the users of Volcano or kube-batch, and what else those need. Pure.

Such a shard says `args: {profile: volcano}`. Its scheduler serves the pods that name that system as
their scheduler, and reads that system's own configuration: a ConfigMap of the user's, or else what
the system does by itself. What only KAI's configuration has a word for does nothing there.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api import kinds, names, volcano
from muster.api.codec import builtins
from muster.api.profiles import ProfileName
from muster.api.shard import SchedulingShard
from muster.api.validation.problems import Problem, warning
from muster.services.operator.objects import Json, Wanted, kept, whole
from muster.services.operator.settings import Settings

QUEUES: Final = {
    ProfileName.VOLCANO: whole(kinds.VOLCANO_QUEUE),
    ProfileName.KUBE_BATCH: whole(kinds.KUBE_BATCH_QUEUE),
    ProfileName.KUBE_BATCH_02: whole(kinds.KUBE_BATCH_QUEUE),
}
"""By which it is seen whether a cluster serves the kinds of a system."""
CONF_MAP: Final = "conf-config-map"
"""Where the configuration of another profile is: the name of a ConfigMap, or name/key."""
_CONF_KEY: Final = "config.yaml"
_PROFILE: Final = "spec.args[profile]"
_KAI_ONLY: Final = (
    "placementStrategy",
    "queueDepthPerAction",
    "minRuntime",
    "kValue",
    "usageDBConfig",
    "plugins",
    "actions",
    "scenarioSearchBudgets",
)


def profile_of(shard: SchedulingShard) -> ProfileName:
    """KAI's where it names none that there is: what is wrong with that, `profile_problems` says."""
    given = shard.spec.args.get("profile", ProfileName.KAI)
    return ProfileName(given) if given in tuple(ProfileName) else ProfileName.KAI


def scheduler_of(shard: SchedulingShard, settings: Settings) -> str:
    """The schedulerName of the pods that a shard serves."""
    profile = profile_of(shard)
    return settings.names.scheduler if profile.speaks_kai else profile.system


def takes_unlabelled(
    shard: SchedulingShard, shards: Iterable[SchedulingShard], settings: Settings
) -> bool:
    """Volcano and kube-batch know no node pools, so their groups and queues name none: one shard of
    each system has these, the one without a pool or else the oldest.
    """
    system = scheduler_of(shard, settings)
    same = [one for one in shards if scheduler_of(one, settings) == system]
    pools = {one.spec.partition_label_value for one in same}
    oldest = min(same, key=lambda one: one.metadata.age_order)
    is_other = not profile_of(shard).speaks_kai
    return is_other and "" not in pools and oldest.metadata.name == shard.metadata.name


def lease_of(shard: SchedulingShard, settings: Settings) -> str:
    known = names.Names(scheduler=scheduler_of(shard, settings))
    return known.scheduler_lease(shard.spec.partition_label_value)


def kept_for(
    shards: Iterable[SchedulingShard], settings: Settings, served: frozenset[str]
) -> tuple[list[str], frozenset[ProfileName]]:
    """The leases and the profiles of all shards whose profile can be, those with other faults
    included: what runs for them now goes on.
    """
    able = [one for one in shards if not any(profile_problems(one, served))]
    leases = sorted({lease_of(one, settings) for one in able})
    return leases, frozenset(profile_of(one) for one in able)


def other_schedulers(profiles: Iterable[ProfileName]) -> list[str]:
    """Under which names of other systems we schedule."""
    return sorted({each.system for each in profiles if not each.speaks_kai})


def profile_problems(shard: SchedulingShard, served: frozenset[str]) -> Iterator[Problem]:
    given = shard.spec.args.get("profile", ProfileName.KAI.value)
    if given not in tuple(ProfileName):
        yield Problem(_PROFILE, f"there is no profile {given}", f"write {', '.join(ProfileName)}")
        return
    queue = QUEUES.get(profile_of(shard))
    if queue is not None and queue.full_name not in served:
        why = f"the cluster does not serve {queue.full_name}"
        yield Problem(
            _PROFILE, why, f"kubectl apply --server-side -f deploy/{profile_of(shard).system}-crds"
        )
    if queue is None and CONF_MAP in shard.spec.args:
        fix = "write actions and plugins in the shard, or name another profile"
        yield Problem(
            f"spec.args[{CONF_MAP}]", f"the conf of profile {given} follows the shard", fix
        )


def without_effect(shard: SchedulingShard) -> Iterator[Problem]:
    """What a shard of another profile says in KAI's words."""
    profile = profile_of(shard)
    if profile.speaks_kai:
        return
    spec = builtins(shard.spec)
    for field in _KAI_ONLY:
        if spec.get(field):
            why = f"has no effect: the scheduler of profile {profile} has a conf of its own"
            yield warning(f"spec.{field}", why, f"write it there, and name it in args[{CONF_MAP}]")


def conf_source(shard: SchedulingShard, file: str) -> Json | None:
    """The volume with the conf of a shard of another profile, as `file`; None: it has none."""
    given = shard.spec.args.get(CONF_MAP, "")
    name, _, key = given.partition("/")
    if not name:
        return None
    items = [{"key": key or _CONF_KEY, "path": file}]
    return {"configMap": {"name": name, "items": items}}


def first_queues(profiles: Iterable[ProfileName]) -> Iterator[Wanted]:
    """The queues that each system is installed with; the first kube-batch has namespaces."""
    for profile in sorted(set(profiles) - {ProfileName.KUBE_BATCH_02}):
        if queue := QUEUES.get(profile):
            for name in (volcano.ROOT_QUEUE, volcano.DEFAULT_QUEUE):
                yield kept(queue, name, spec={"weight": 1})
