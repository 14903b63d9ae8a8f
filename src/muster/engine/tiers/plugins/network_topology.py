"""`network-topology-aware`: jobs stay within hyper nodes, and fill those that are full already."""

from collections.abc import Mapping, Sequence

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.tiers.groups import IS_HELD, SubJob
from muster.engine.tiers.hyper_nodes import CLUSTER
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.requests import resource_column
from muster.model.shapes import Shape
from muster.numerics.arrays import Floats, Ints, Rows

_FULL = 100.0
_PACK = "hypernode.binpack"
_EVICT_MAX = "hypernode.gradient.evict.max-hypernodes"


class NetworkTopology:
    """Volcano's `network-topology-aware`."""

    name = "network-topology-aware"

    def __init__(self, arguments: Reader) -> None:
        named = arguments.key(f"{_PACK}.resources").text("").split(",")
        names = [one.strip() for one in named if one.strip()]
        arguments.allow_only(
            (
                "weight",
                f"{_PACK}.cpu",
                f"{_PACK}.memory",
                f"{_PACK}.resources",
                f"{_PACK}.normal-pod.enable",
                f"{_PACK}.normal-pod.fading",
                _EVICT_MAX,
                *(f"{_PACK}.resources.{one}" for one in names),
            )
        )
        self.weight = arguments.key("weight").integer(1)
        self.resources = {
            "cpu": arguments.key(f"{_PACK}.cpu").integer(1),
            "memory": arguments.key(f"{_PACK}.memory").integer(1),
            **{
                resource_column(one): arguments.key(f"{_PACK}.resources.{one}").integer(1)
                for one in names
            },
        }
        self.packs_others = arguments.key(f"{_PACK}.normal-pod.enable").flag(True)
        self.fading = max(arguments.key(f"{_PACK}.normal-pod.fading").number(0.8), 0.0)
        self.most_for_eviction = max(arguments.key(_EVICT_MAX).integer(8), 1)

    def open(self, view: View) -> SessionPlugin:
        return _Near(view, self)


class _Near(TieredPlugin):
    def __init__(self, view: View, settings: NetworkTopology) -> None:
        self._view, self._settings = view, settings
        column = view.snapshot.axis.column
        self._weights = np.zeros(len(view.snapshot.axis))
        for name, weight in settings.resources.items():
            if name in column:
                self._weights[column[name]] = max(weight, 0)

    def begin(self, tiers: Rules) -> None:
        self._groups, self._hyper = tiers.groups, tiers.hyper

    # -- where to try --------------------------------------------------------------------------

    def hyper_nodes(self, part: SubJob, within: str, is_job: bool) -> list[list[str]]:
        """Those of an allowed tier that have room, nearest tier first."""
        tier = self._highest(part)
        if tier is None:
            return [[within]]
        root = self._root(part, within, tier)
        if root is None:
            return []
        needs = self._needs(part, is_job)
        found: dict[int, list[str]] = {}
        for name in self._hyper.below(root):
            here = self._hyper.tier[name]
            if here <= tier and (part.hyper_node or self._has_room(name, needs)):
                found.setdefault(here, []).append(name)
        return [found[tier] for tier in sorted(found)]

    def _highest(self, part: SubJob) -> int | None:
        """The widest tier that the part may use; None where it has no wish."""
        wish = part.nearness
        if wish is None or (wish.is_hard and wish.tier is None and not wish.tier_name):
            return None
        if not wish.is_hard:
            return self._hyper.top_tier
        return self._hyper.tier_by_name.get(wish.tier_name) if wish.tier is None else wish.tier

    def _root(self, part: SubJob, within: str, tier: int) -> str | None:
        """What is allowed around the tasks that have nodes already, inside `within`."""
        if not part.hyper_node:
            return within
        allowed = [n for n in self._hyper.chain(part.hyper_node) if self._hyper.tier[n] <= tier]
        if not allowed:
            return None
        widest = allowed[-1]
        common = self._hyper.common(within, widest)
        if common == widest:
            return within
        return widest if common == within else None

    def _needs(self, part: SubJob, is_job: bool) -> Ints:
        if is_job:
            return self._groups.vector(self._groups.terms(part.job).min_resources or {})[0]
        tasks = np.array(part.tasks, dtype=np.int64)
        pending = tasks[self._groups.ledger.status[tasks] == 0] if len(tasks) else tasks
        return self._groups.sum_of(pending)

    def _has_room(self, name: str, needs: Ints) -> bool:
        ledger, nodes = self._view.ledger, self._hyper.nodes[name]
        asked = needs > 0
        free = ledger.idle[nodes].clip(0).sum(axis=0)
        later = (ledger.idle[nodes] + ledger.releasing[nodes]).clip(0).sum(axis=0)
        return bool((free[asked] >= needs[asked]).all() or (later[asked] >= needs[asked]).all())

    # -- which is better -----------------------------------------------------------------------

    def hyper_node_scores(self, part: SubJob, names: Sequence[str]) -> Mapping[str, float]:
        request = self._groups.sum_of(part.tasks)
        scores = {name: self._packed(name, request) for name in names}
        best = max(scores.values(), default=0.0)
        tied = [name for name, score in scores.items() if score == best]
        if len(tied) > 1:
            for name in tied:
                scores[name] += self._part_there(part, name)
        return {name: score * _FULL * self._settings.weight for name, score in scores.items()}

    def _packed(self, name: str, request: Ints) -> float:
        """How full the hyper node would be: 0 to 1; 0 where it has too little."""
        nodes = self._hyper.nodes[name]
        there = self._view.snapshot.nodes.allocatable[nodes].sum(axis=0)
        used = there - self._view.ledger.idle[nodes].sum(axis=0) + request
        matters = (request > 0) & (self._weights > 0)
        if not matters.any() or (used > there)[matters].any():
            return 0.0
        weights = self._weights[matters]
        return float(((used[matters] / there[matters]) * weights).sum() / weights.sum())

    def _part_there(self, part: SubJob, name: str) -> float:
        """Which part of the tasks is in the hyper node already."""
        ledger, nodes = self._groups.ledger, self._hyper.nodes[name]
        there = sum(
            1
            for task in part.tasks
            if IS_HELD[ledger.status[task]] and nodes[int(ledger.node[task])]
        )
        return there / max(len(part.tasks), 1)

    def dependence(self, shape: Shape) -> Dependence:
        is_needed = self._hyper.there_are_some and self._settings.packs_others
        return Dependence.CLUSTER if is_needed else Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        """Ordinary pods fill hyper nodes that are full already, near tiers above all."""
        hyper, total, weights = self._hyper, np.zeros(len(rows)), 0.0
        tiers = sorted(set(hyper.tier.values()) - {hyper.top_tier})
        for tier in tiers:
            weight = self._settings.fading ** (tier - 1)
            weights += weight
            here = np.ones(len(rows))
            for name in (n for n, t in hyper.tier.items() if t == tier and n != CLUSTER):
                inside = hyper.nodes[name][rows]
                if inside.any():
                    here[inside] = self._packed(name, shape.request)
            total += weight * here
        return total * (_FULL * self._settings.weight / weights) if weights else total
