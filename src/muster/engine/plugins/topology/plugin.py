"""KAI's `topology`: node sets for groups with a topology constraint.

A group is tried in the tightest domain of the lowest acceptable level first, then in wider ones up
to the required level. Inside a set, nodes of the roomier preferred domains score higher, so that a
group which must span several domains fills the largest first. Nesting comes from the groups: each
divides the set that its parent got.
"""

from collections.abc import Sequence

import numpy as np

from muster.engine.hooks import (
    NodeSubset,
    NoSubset,
    SessionPlugin,
    SubGroupRequest,
    View,
    WithoutArguments,
)
from muster.engine.plugins.topology.domains import (
    DomainChoice,
    DomainResources,
    Levels,
    SubGroupDemand,
)
from muster.model.gpu_request import Use, is_gpu_class, least_units, shared_units
from muster.model.reasons import Evidence, Reason, Refusal, Room
from muster.model.records import TopologyConstraint
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.model.topology import TopologyTree, topology_tree
from muster.numerics import gpu_shares
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import FIXED, GPU, PODS
from muster.numerics.fit import all_slots


class Topology(WithoutArguments):
    """KAI's `topology`."""

    name = "topology"

    def open(self, view: View) -> SessionPlugin:
        return _Domains(view)


_MOST_DOMAINS = 256
"""Of a level, to be measured one by one for a refusal."""


class _Domains(SessionPlugin):
    def __init__(self, view: View) -> None:
        self._view = view
        self._trees: dict[str, TopologyTree] = {}
        self._counted = _counted_columns(view)
        self._when_empty: dict[tuple[tuple[str, ...], int, int], int] = {}

    def node_subsets(
        self, request: SubGroupRequest, within: Bools
    ) -> Sequence[NodeSubset] | NoSubset | None:
        constraint = request.sub_group.topology
        if constraint is None or not constraint.topology or not len(request.tasks):
            return None
        tree = self._tree(constraint.topology)
        if tree is None:
            return _no_subset(request, Reason.TOPOLOGY_MISSING, constraint.topology)
        levels = _levels(tree, constraint)
        if isinstance(levels, str):
            return _no_subset(request, Reason.TOPOLOGY_LEVEL_MISSING, levels)
        if not levels.lowest:
            return None
        demand, resources = self._demand(request.tasks), self._resources(request.tasks)
        return self._sets(request, DomainChoice(tree, demand, resources, within), tree, levels)

    def _sets(
        self, request: SubGroupRequest, choice: DomainChoice, tree: TopologyTree, levels: Levels
    ) -> Sequence[NodeSubset] | NoSubset:
        held = self._view.ledger.node[request.allocated]
        candidates = choice.candidates(levels, held[held >= 0])
        if not candidates:
            return self._full(request, choice, tree, levels)
        scores = choice.scores(levels)
        return [
            NodeSubset(choice.nodes & tree.nodes_in(domain), scores, tree.ids[domain])
            for domain in candidates
        ]

    def _tree(self, name: str) -> TopologyTree | None:
        if name not in self._trees:
            record = self._view.snapshot.topologies.get(name)
            if record is None:
                return None
            index = self._view.snapshot.nodes.index
            columns = [index.label(level) for level in record.levels]
            self._trees[name] = topology_tree(record.levels, columns)
        return self._trees[name]

    def _demand(self, tasks: Rows) -> SubGroupDemand:
        """What the tasks ask for together; parts of GPUs are counted as parts.

        The order of domains is KAI's, which counts memory of GPUs for nothing; whether tasks fit
        counts the least that any of them takes of it, so that no domain is passed over in which
        they could run.
        """
        snapshot = self._view.snapshot
        rows, counts = np.unique(snapshot.tasks.shape[tasks], return_counts=True)
        shapes = [snapshot.shapes[row] for row in rows.tolist()]
        asked = np.array([_asked(shape) for shape in shapes], np.int64)
        is_uniform = _is_uniform(asked, self._counted)
        return SubGroupDemand(
            tasks=len(tasks),
            total=(asked * counts[:, None]).sum(axis=0),
            largest=self._largest(shapes, asked) if is_uniform else None,
            columns=self._counted,
        )

    def _largest(self, shapes: Sequence[Shape], asked: Ints) -> Ints:
        """int64[R]: what a place for any of the tasks must have."""
        sizes_mib = self._view.snapshot.nodes.gpu_sizes_mib.tolist()
        taken = asked.copy()
        for at, shape in enumerate(shapes):
            if shape.is_shared:
                taken[at, GPU] = shape.request[GPU] + least_units(shape.gpu, sizes_mib)
        largest: Ints = taken.max(axis=0)
        if not asked[:, GPU].any():
            largest[GPU] = taken[:, GPU].min()
        return largest

    def _resources(self, tasks: Rows) -> DomainResources:
        """Idle and releasing; for tasks with parts of GPUs also what shared GPUs have left."""
        view = self._view
        whole: Ints = view.ledger.idle + view.ledger.releasing
        shapes = view.snapshot.tasks.shape[tasks]
        if not any(view.snapshot.shapes[row].is_shared for row in np.unique(shapes).tolist()):
            return DomainResources(whole, whole)
        parts = whole.copy()
        parts[:, GPU] += gpu_shares.free_units(view.ledger.handle)
        return DomainResources(whole, parts)

    def _full(
        self, request: SubGroupRequest, choice: DomainChoice, tree: TopologyTree, levels: Levels
    ) -> NoSubset:
        """What the best domain of the required level lacks."""
        demand = self._demand(request.tasks)
        depth = levels.required
        domains = np.flatnonzero(tree.depth == depth)
        level = tree.levels[depth - 1] if depth else "the cluster"
        if not len(domains):
            bare = tree.unlabelled[0] if tree.unlabelled else " and ".join(tree.levels)
            return _no_subset(request, Reason.TOPOLOGY_UNLABELLED, bare)
        best = int(domains[np.argmin(choice.ratio[domains])])
        if choice.places is not None:
            best = int(domains[np.argmax(choice.places[domains])])
            found = int(choice.places[best])
        else:
            found = 0
        names = self._view.snapshot.axis.names
        evidence = tuple(
            Evidence(names[c], int(demand.total[c]), int(choice.free[best, c]), tree.ids[best])
            for c in np.flatnonzero(demand.total > 0).tolist()
            if demand.total[c] > choice.free[best, c]
        )
        refusal = Refusal(
            Reason.TOPOLOGY_FULL,
            subject=level,
            sub_group=request.sub_group.name,
            found=found,
            minimum=len(request.tasks),
            evidence=evidence,
            room=self._largest_domain(request.tasks, tree, domains),
        )
        return NoSubset(refusal)

    def _largest_domain(self, tasks: Rows, tree: TopologyTree, domains: Rows) -> Room | None:
        """Places for equal tasks of whole resources in the largest domain, if it were empty."""
        snapshot = self._view.snapshot
        rows = np.unique(snapshot.tasks.shape[tasks])
        shape = snapshot.shapes[int(rows[0])]
        if len(rows) > 1 or shape.is_shared or len(domains) > _MOST_DOMAINS:
            return None
        key = (tree.levels, int(tree.depth[domains[0]]), shape.row)
        known = self._when_empty.get(key)
        if known is None:
            slots = all_slots(snapshot.nodes.allocatable, shape.request, _everywhere(snapshot))
            known = max(int(slots[tree.nodes_in(domain)].sum()) for domain in domains.tolist())
            self._when_empty[key] = known
        return Room(eligible=0, free=0, when_empty=known)


def _levels(tree: TopologyTree, constraint: TopologyConstraint) -> Levels | str:
    """The depths of the constraint's levels, or the name of one that the topology lacks."""
    depths = []
    for level in (constraint.required, constraint.preferred):
        depth = tree.depth_of(level) if level else 0
        if depth is None:
            return level
        depths.append(depth)
    required, preferred = depths
    # A preference that is wider than what is required is met by it.
    return Levels(required, preferred if preferred > required else 0)


def _asked(shape: Shape) -> Ints:
    """int64[R]: a task's request, with fractions of GPUs in the GPU column."""
    asked = shape.request.copy()
    if shape.is_shared:
        asked[GPU] += int(shared_units(shape.gpu, Use.PENDING, gpu_memory_mib=0))
    return asked


def _is_uniform(asked: Ints, columns: Ints) -> bool:
    """Whether every task asks for the same kinds of things: GPUs, and each extended resource."""
    kinds = [c for c in columns.tolist() if c == GPU or c >= len(FIXED)]
    uses = asked[:, kinds] > 0
    return bool((uses.all(axis=0) | ~uses.any(axis=0)).all())


def _counted_columns(view: View) -> Ints:
    """Resources that count: not pod slots, and not what device classes stand for."""
    classes = view.snapshot.cluster_objects.device_classes.values()
    backed = {
        found.spec.extended_resource_name
        for found in classes
        if found.spec.extended_resource_name and not is_gpu_class(found.metadata.name)
    }
    names = view.snapshot.axis.names
    counted = [c for c, name in enumerate(names) if c != PODS and name not in backed]
    return np.array(counted, np.int64)


def _everywhere(snapshot: ClusterSnapshot) -> Bools:
    return np.ones(len(snapshot.nodes), np.bool_)


def _no_subset(request: SubGroupRequest, reason: Reason, subject: str) -> NoSubset:
    return NoSubset(Refusal(reason, subject=subject, sub_group=request.sub_group.name))
