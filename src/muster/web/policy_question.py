"""Another policy, as somebody asks about it: queue fields, a configuration, nodes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from muster.engine.profiles.known import MUSTER
from muster.foresight.changes import more_like
from muster.foresight.lost_nodes import without_nodes
from muster.foresight.situation import Rules, rules_of
from muster.foresight.variants import Variants
from muster.model.record_changes import Delta
from muster.model.records import UNLIMITED, NodeRecord, QueueRecord

_CONF_LETTERS_MAX: Final = 1 << 16
_CONF_PARTS_MAX: Final = 64
_HOURS_MAX: Final = 24
_ADDED_MAX: Final = 1000
"""Nodes of one question, all kinds together: each makes each of its cycles dearer."""
_PRIORITY_MAX: Final = 2**31 - 1
"""As of pods: Kubernetes keeps 32 bits."""
_FIELDS: Final = {"gpu": 1000.0, "cpu": 1000.0, "memory": float(1 << 30)}


class BadQuestion(Exception):
    """It cannot be answered; the text names the parameter and what to write."""


class QueueChange(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a queue in GPUs, cores and GiB; -1: no bound."""

    quota: dict[str, float] = {}
    limit: dict[str, float] = {}
    weight: dict[str, float] = {}
    priority: int | None = None

    def made(self, queue: QueueRecord) -> QueueRecord:
        fields: dict[str, Any] = {}
        for field in ("quota", "limit", "weight"):
            if amounts := _amounts(field, getattr(self, field)):
                fields[field] = {**getattr(queue, field), **amounts}
        if self.priority is not None:
            if abs(self.priority) > _PRIORITY_MAX:
                raise BadQuestion(f"priority: write a whole number of at most {_PRIORITY_MAX}")
            fields["priority"] = self.priority
        return msgspec.structs.replace(queue, **fields)


class WhatIf(msgspec.Struct, forbid_unknown_fields=True):
    """Another policy: queue fields, a configuration, nodes that come, are lost or drained."""

    queues: dict[str, QueueChange] = {}
    conf: str | None = None
    without_nodes: list[str] = []
    drained_nodes: list[str] = []
    added_nodes: dict[str, int] = {}
    """How many more like each of these."""
    hours: float = 0.0
    """How far to look ahead; 0: at what is decided at once only."""

    def horizon_s(self) -> float:
        if not 0 <= self.hours <= _HOURS_MAX:
            raise BadQuestion(f"hours: write a number from 0 to {_HOURS_MAX}")
        return self.hours * 3600.0

    def rules(self) -> Rules | None:
        """Those of a configuration that somebody sent: as long as one that a scheduler is started
        with, and no longer, for each part of it makes a cycle dearer. None: those that there are.
        """
        if self.conf is None:
            return None
        if len(self.conf) > _CONF_LETTERS_MAX:
            raise BadQuestion(f"conf: is longer than {_CONF_LETTERS_MAX} letters: write less")
        rules = rules_of(self.conf, "conf", MUSTER)
        for name, found in (("actions", rules.actions), ("plugins", rules.policy.plugins)):
            if len(found) > _CONF_PARTS_MAX:
                raise BadQuestion(
                    f"conf: {name}: there are {len(found)}: at most {_CONF_PARTS_MAX}"
                )
        return rules

    def edit(self, state: Variants) -> Delta:
        """All but the configuration, as a change of the cluster."""
        for name in (*self.without_nodes, *self.drained_nodes, *self.added_nodes):
            if name not in state.nodes:
                raise BadQuestion(f"nodes: there is no node {name[:80]}")
        queues = tuple(self._queues(state))
        added = Delta(queues=queues, nodes=tuple(self._added(state)))
        return without_nodes(state, self.without_nodes, self.drained_nodes) + added

    def _queues(self, state: Variants) -> Iterator[QueueRecord]:
        for name, change in self.queues.items():
            if name not in state.queues:
                raise BadQuestion(f"queues: there is no queue {name[:80]}")
            yield change.made(state.queues[name])

    def _added(self, state: Variants) -> Iterator[NodeRecord]:
        counts = self.added_nodes
        for name, count in counts.items():
            if count < 1:
                raise BadQuestion(f"added_nodes: {name[:80]}: write 1 or more")
        if sum(counts.values()) > _ADDED_MAX:
            raise BadQuestion(f"added_nodes: write at most {_ADDED_MAX} all together")
        for name, count in counts.items():
            yield from more_like(state.nodes[name], count)


def _amounts(field: str, given: Mapping[str, float]) -> dict[str, float]:
    """In the units of records."""
    if unknown := set(given) - set(_FIELDS):
        raise BadQuestion(f"{field}: no resource {min(unknown)[:40]}: {', '.join(_FIELDS)}")
    is_weight = field == "weight"
    lowest = "0 to 1e9" if is_weight else "0 to 1e9, or -1 for no bound"
    for value in given.values():
        is_unbounded = value == UNLIMITED and not is_weight
        if not (0 <= value <= 1e9 or is_unbounded):
            raise BadQuestion(f"{field}: write a number from {lowest}")
    scale = dict.fromkeys(_FIELDS, 1.0) if is_weight else _FIELDS
    return {
        name: value if value == UNLIMITED else value * scale[name] for name, value in given.items()
    }
