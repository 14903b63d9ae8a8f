"""Volume claims that several pods share and whose volume is yet to be chosen.

The pod that gets its node first decides where the volume is; every other pod of the claim must go
where that volume can be used. Kubernetes' scheduler does the same: what it has assumed for the
first pod (a volume, or the node for which one is made) holds for all that come after it.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from muster.model.constraints import Constraints
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.model.volumes import Volumes
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import GPU

_SETS_MAX = 32
"""Sets of nodes that are tried for tasks which share a volume: each costs a whole attempt."""


class SharedClaims:
    """Such claims of one snapshot, and on which nodes the pods are that use them."""

    def __init__(self, snapshot: ClusterSnapshot, volumes: Volumes) -> None:
        self._snapshot = snapshot
        self._volumes = volumes
        self._served: dict[tuple[str, str, int], Bools] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._users)

    def concerns(self, constraints: Constraints) -> bool:
        """Whether the pod has such a claim."""
        return any(True for _ in self._of(constraints))

    def allowed(self, constraints: Constraints) -> Bools:
        """bool[N]: nodes where the volumes that others have decided on can be used."""
        mask = np.ones(len(self._snapshot.nodes), np.bool_)
        for key, name in self._of(constraints):
            for node, users in self._users[key].items():
                if users > 0:
                    mask &= self._served_with(constraints, name, node)
        return mask

    def _served_with(self, constraints: Constraints, name: str, node: int) -> Bools:
        key = (constraints.namespace, name, node)
        if key not in self._served:
            self._served[key] = self._volumes.served_with(constraints, name, node)
        return self._served[key]

    def post(self, constraints: Constraints, node: int, sign: int) -> None:
        """A pod comes to a node, or leaves it."""
        for key, _ in self._of(constraints):
            users = self._users[key]
            users[node] = users.get(node, 0) + sign

    def node_sets(self, tasks: Rows, within: Bools, free: Ints) -> list[Bools]:
        """Sets of nodes in which one volume serves all of the tasks that share a claim nobody has
        decided on, and which have room for these, the fullest first. `free` is int64[N, R].

        Empty if no two of the tasks share such a claim.
        """
        found = self._most_shared(tasks)
        if found is None:
            return []
        constraints, name, sharing = found
        shapes = self._snapshot.tasks.shape[sharing]
        demand: Ints = self._snapshot.demand.request[shapes].sum(axis=0)
        order = np.lexsort((*free.T, free[:, GPU]))
        seen = ~within
        sets: list[Bools] = []
        for node in order.tolist():
            if seen[node] or len(sets) == _SETS_MAX:
                continue
            nodes = self._volumes.served_with(constraints, name, node) & within
            seen |= nodes
            room = np.maximum(free[nodes], 0).sum(axis=0)
            if (room >= demand)[demand > 0].all():
                sets.append(nodes)
        return sets

    def _most_shared(self, tasks: Rows) -> tuple[Constraints, str, Rows] | None:
        """The undecided claim that most of the tasks share: a pod of it, its name, the tasks."""
        shapes = self._snapshot.tasks.shape[tasks]
        users: dict[str, list[int]] = {}
        named: dict[str, tuple[Constraints, str]] = {}
        for row in np.unique(shapes).tolist():
            constraints = self._snapshot.shapes[row].constraints
            for key, name in self._of(constraints):
                if not any(count > 0 for count in self._users[key].values()):
                    users.setdefault(key, []).append(row)
                    named[key] = (constraints, name)
        sharing = {key: tasks[np.isin(shapes, rows)] for key, rows in users.items()}
        best = max(sharing, key=lambda key: (len(sharing[key]), key), default=None)
        if best is None or len(sharing[best]) < 2:
            return None
        return (*named[best], sharing[best])

    def _of(self, constraints: Constraints) -> Iterator[tuple[str, str]]:
        """Key and name of each such claim of a pod."""
        for name in constraints.volume_claims:
            key = f"{constraints.namespace}/{name}"
            if key in self._users:
                yield key, name

    @cached_property
    def _users(self) -> dict[str, dict[int, int]]:
        """By claim: how many of its pods are on each node, or on their way there."""
        snapshot, tasks = self._snapshot, self._snapshot.tasks
        if not any(constraints.volume_claims for constraints in snapshot.constraints):
            return {}
        counts = np.bincount(tasks.shape[tasks.live], minlength=len(snapshot.shapes))
        pods: dict[str, int] = {}
        for shape, count in zip(snapshot.shapes, counts.tolist(), strict=True):
            for name in shape.constraints.volume_claims:
                if self._volumes.is_undecided(shape.constraints, name):
                    key = f"{shape.constraints.namespace}/{name}"
                    pods[key] = pods.get(key, 0) + count
        users: dict[str, dict[int, int]] = {key: {} for key, count in pods.items() if count > 1}
        if users:
            self._enter_placed(users)
        return users

    def _enter_placed(self, users: dict[str, dict[int, int]]) -> None:
        snapshot, tasks = self._snapshot, self._snapshot.tasks
        with_claims = np.fromiter(
            (bool(s.constraints.volume_claims) for s in snapshot.shapes), bool
        )
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_ALLOCATED[tasks.status]
        for task in np.flatnonzero(there & with_claims[tasks.shape]).tolist():
            constraints, node = snapshot.shape_of(task).constraints, int(tasks.node[task])
            for name in constraints.volume_claims:
                claim = users.get(f"{constraints.namespace}/{name}")
                if claim is not None:
                    claim[node] = claim.get(node, 0) + 1
