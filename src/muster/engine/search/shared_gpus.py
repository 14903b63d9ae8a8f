"""Large searches where GPUs are shared: the few nodes on which room costs least, set by set.

Columns know what a victim frees by itself. A GPU with several tenants is freed by some of them
together, and a part of one by any that is large enough: that is the business of the search of small
clusters. So the nodes are found from columns, by what the cheapest tenants to go would cost, and
that search looks at those who are there.
"""

from dataclasses import replace

import numpy as np

from muster.engine.search.candidates import VictimSearch
from muster.engine.search.idle_resources import free_amounts
from muster.engine.search.solver import CONSOLIDATION, Solved, Unsolved, solve
from muster.engine.search.victim_table import VictimTable
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.gpu_shares import TOO_LARGE
from muster.numerics.ledger_size import SHARES

_NODES_PER_TASK = 2
_MOST_TASKS = 4
"""Larger chunks are not served like this."""
_NEVER = 1 << 60
_FREE = -1
"""The class of a GPU for which nobody has to go."""


def wants_parts(search: VictimSearch) -> bool:
    """Whether some task of the actor wants a part of a GPU."""
    snapshot = search.session.snapshot
    rows = np.unique(snapshot.tasks.shape[search.actor.tasks]).tolist()
    return any(snapshot.shapes[row].is_shared for row in rows)


def solve_nearby(search: VictimSearch, table: VictimTable) -> Solved | Unsolved | None:
    """Victims on the nodes where a place costs least; None where there is nobody to ask."""
    session, tasks = search.session, search.actor.tasks
    if not table.has_shared or len(tasks) > _MOST_TASKS:
        return None
    eligible = table.eligible(search.candidates)
    if search.action == CONSOLIDATION:
        eligible = eligible & table.movable()
    shape = session.snapshot.shapes[int(session.snapshot.tasks.shape[tasks[0]])]
    nodes = _Prices(search, table, eligible, shape).cheapest(_NODES_PER_TASK * len(tasks))
    units = table.units
    there = np.isin(units.entry_node, nodes) & eligible[units.entry_unit]
    jobs = np.unique(table.unit_job[units.entry_unit[there]])
    nearby = search.candidates[np.isin(search.candidates, jobs)]
    if len(nearby) == 0:
        return None
    return solve(replace(search, candidates=nearby, failed=set()))


class _Prices:
    """What it costs to free GPUs for one task, by node."""

    def __init__(
        self, search: VictimSearch, table: VictimTable, eligible: Bools, shape: Shape
    ) -> None:
        self._session, self._table, self._eligible = search.session, table, eligible
        self._shape = shape
        nodes, demand = self._session.snapshot.nodes, self._session.snapshot.demand
        self._free = free_amounts(self._session)
        if shape.is_shared:
            row = int(demand.sharing[shape.row])
            self._wanted = int(demand.devices[row])
            self._need: Ints = demand.need_mib[row][nodes.gpu_size].astype(np.int64)
        else:
            self._wanted = int(shape.request[GPU]) // GPU_UNIT
            self._need = nodes.gpu_memory_mib.astype(np.int64)

    def cheapest(self, count: int) -> Rows:
        """The nodes with the least price, where all other needs could be met."""
        if self._wanted == 0:
            return np.zeros(0, dtype=np.int64)
        devices = np.concatenate([self._idle(), self._whole(), self._shared()])
        # By node: the cheapest GPUs first. A price is a class, a cost, and how far it reaches.
        devices = devices[np.lexsort(devices.T[::-1])]
        node = devices[:, 0]
        first = np.searchsorted(node, node)
        devices = devices[np.arange(len(node)) - first < self._wanted]
        at = np.unique(devices[:, 0], return_index=True)[1]
        if len(at) == 0:
            return np.zeros(0, dtype=np.int64)
        counts = np.diff(np.append(at, len(devices)))
        price = np.column_stack(
            [
                np.maximum.reduceat(devices[:, 1], at),
                np.add.reduceat(devices[:, 2], at),
                np.maximum.reduceat(devices[:, 3], at),
                devices[at, 0],
            ]
        )
        may = (counts == self._wanted) & self._could_run()[devices[at, 0]]
        found = price[may]
        chosen: Rows = found[np.lexsort(found.T[::-1])][:count, 3]
        return chosen

    def _could_run(self) -> Bools:
        """Nodes that have everything but GPUs once all who may go have gone: bool[N]."""
        units = self._table.units
        free, entries = self._free.copy(), self._eligible[units.entry_unit]
        np.add.at(free, units.entry_node[entries], units.entry_freed[entries])
        request = self._shape.request.copy()
        request[GPU] = 0
        enough = (free >= request) | (request == 0)
        fits = self._session.answers(self._shape).fits
        found: Bools = enough.all(axis=1) & fits & (self._need != TOO_LARGE)
        return found

    def _idle(self) -> Ints:
        """Whole GPUs that are free: rows of node, class, cost, reach."""
        count = np.clip(self._free[:, GPU] // GPU_UNIT, 0, self._wanted)
        return _rows(np.repeat(np.arange(len(count)), count))

    def _whole(self) -> Ints:
        """Whole GPUs that one unit frees by itself."""
        units = self._table.units
        entries = np.flatnonzero(self._eligible[units.entry_unit])
        gpus = np.clip(units.entry_freed[entries, GPU] // GPU_UNIT, 0, self._wanted)
        entries = np.repeat(entries, gpus)
        unit = units.entry_unit[entries]
        cost = units.unit_cost[unit] // np.repeat(np.maximum(gpus, 1), gpus)
        return _rows(units.entry_node[entries], units.unit_class[unit], cost, unit)

    def _shared(self) -> Ints:
        """Shared GPUs with enough free once the cheapest of their tenants have left."""
        columns = self._session.ledger.columns
        count = int(columns.size[SHARES])
        node = columns.share_node[:count]
        physical, leaves = columns.share_physical[:count], columns.share_releasing[:count]
        waits = columns.share_pipelined[:count]
        # One that everybody leaves is a whole GPU again, and counted as that.
        is_shared = (physical > leaves) | (waits > 0)
        left = self._session.snapshot.nodes.gpu_memory_mib[node] - physical + leaves - waits
        missing = np.where(is_shared, self._need[node] - left, _NEVER)
        open_now = np.flatnonzero(missing <= 0)
        tenants, units = self._table.tenants, self._table.units
        rows = np.flatnonzero(self._eligible[tenants.unit] & (missing[tenants.share] > 0))
        unit, share, mib = tenants.unit[rows], tenants.share[rows], tenants.mib[rows]
        order = np.lexsort((unit, units.unit_cost[unit], units.unit_class[unit], share))
        unit, share, mib = unit[order], share[order], mib[order]
        first = np.searchsorted(share, share)
        freed, cost = _sums_since(mib, first), _sums_since(units.unit_cost[unit], first)
        # The first tenant with whom there is enough, of each GPU.
        enough = np.flatnonzero((freed >= missing[share]) & (freed - mib < missing[share]))
        unit, share = unit[enough], share[enough]
        priced = _rows(node[share], units.unit_class[unit], cost[enough], unit)
        return np.concatenate([_rows(node[open_now]), priced])


def _rows(
    node: Rows, classes: Ints | None = None, cost: Ints | None = None, reach: Ints | None = None
) -> Ints:
    none = np.zeros(len(node), dtype=np.int64)
    columns = (none + _FREE if classes is None else classes, none if cost is None else cost)
    return np.column_stack([node, *columns, none if reach is None else reach]).astype(np.int64)


def _sums_since(amounts: Ints, first: Ints) -> Ints:
    """Running sums that begin anew at `first`."""
    total = np.append(0, np.cumsum(amounts))
    found: Ints = total[1:] - total[first]
    return found
