"""Profile: what a scheduler of some name is, as data.

Which conf format it reads, which actions and plugins the names in it stand for, what is on where
nothing is said, and in which objects it reads groups and queues and writes what became of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from muster.api.kinds import Kind
from muster.api.volcano import DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class Profile:
    """One of the systems that the engine can be."""

    name: str
    scheduler_name: str
    default_conf: str
    """The text of the configuration that holds where there is none."""
    plugins: Mapping[str, str]
    """`module:attribute` by the name that configurations use."""
    actions: Mapping[str, str]
    reads: tuple[Kind[Any], ...]
    """Groups, then queues, then what else its plugins read."""
    is_tiered: bool = False
    """Whether plugins are of `engine.tiers`, in tiers that fall through."""
    off_unless_said: frozenset[str] = frozenset()
    """Switches that are off where nothing is said; all others are on."""
    always_silent: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By plugin: what it is never asked here, because another plugin of the profile says it."""
    companions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By plugin: another that comes with it, because there the one says what here two say."""
    conf_keys: tuple[str, ...] = ("actions", "tiers", "configurations")
    """What a configuration file may say beside plugins."""
    namespaces_are_queues: bool = False
    """Whether every namespace is a queue of weight one, and no other object is; an option may say
    otherwise."""
    default_queue: str = DEFAULT_QUEUE
    """Where a group that names no queue is; empty: in that of its namespace's name."""
    reads_images: bool = False
    """Whether it matters which images pods run and nodes have."""
    groups_bare_pods: bool = False
    """Whether pods that name no group are given one of their own."""
    budgets_are_jobs: bool = False
    """Whether a disruption budget with a controller makes a job of that controller's pods."""
    task_priority: int | None = None
    """That of pods that have none; None: what the cluster's default class says."""
    event_component: str = ""
    """In whose name events are recorded; empty: in that of the scheduler's own name."""
    has_status: bool = True
    """Whether groups and pods show why they wait; where not, an event says it."""
    action_arguments: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By action: its arguments, and of those that change nothing why."""
    removed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Keys and names that existed once or elsewhere, and what to use instead."""
