"""The switches beside a plugin's name: which of its answers are not asked for.

`disableJobOrder: true` and `enableJobOrder: false` say the same; the three systems write it in
these two ways. A switch that is not there leaves the answer on.
"""

from collections.abc import Mapping

from muster.engine.config.reader import ConfigError

HOOKS_OF: Mapping[str, tuple[str, ...]] = {
    "JobOrder": ("job_keys",),
    "TaskOrder": ("task_keys",),
    "QueueOrder": ("queue_shares",),
    "SubGroupOrder": ("sub_group_keys",),
    "Predicate": ("fits", "filter_reasons", "pre_filter"),
    "NodeOrder": (
        "score",
        "packing",
        "availability_score",
        "sharing_score",
        "device_scores",
    ),
    "Preemptable": ("may_preempt", "victims of preempt"),
    "Reclaimable": ("may_reclaim", "max_reclaimable", "victims of reclaim"),
    "JobReady": (),
    "JobPipelined": (),
}
"""Hooks by the part of a switch's name behind enable or disable. Gangs are the engine's own
business: what decides whether a job is ready is no plugin's answer."""


def silenced(
    switches: Mapping[str, bool], where: str, hooks_of: Mapping[str, tuple[str, ...]] = HOOKS_OF
) -> frozenset[str]:
    """The hooks that a plugin with these switches is not asked; `hooks_of` those of its profile."""
    found: set[str] = set()
    for switch, value in switches.items():
        what = switch.removeprefix("disable").removeprefix("enabled").removeprefix("enable")
        if what not in hooks_of:
            known = ", ".join(f"enable{name}" for name in hooks_of)
            raise ConfigError(where, f'no switch "{switch}"; known are {known} (and disable…)')
        if value is switch.startswith("disable"):
            found.update(hooks_of[what])
    return frozenset(found)
