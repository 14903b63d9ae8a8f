"""Which victim sets are proposed, and in which order.

Two streams read the accumulating victims. The first looks at one node at a time: after each batch,
all that was accumulated from jobs with a victim on the batch's nodes. The second is for gangs that
need several nodes at once: after each batch, the nodes with victims in order of what they would
have free, as many as the demand needs, then some more.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from muster.engine.search.candidates import Accumulation, Batch, VictimSearch
from muster.engine.search.filters import FreeAfterEvictions
from muster.engine.session import Session

Victims = tuple[Batch, ...]
Stream = Callable[[VictimSearch, Sequence[int], Victims], Iterator[Victims]]
"""Victim sets for the first tasks of an actor, given those recorded for fewer of them."""


def node_by_node(
    search: VictimSearch, tasks: Sequence[int], recorded: Victims
) -> Iterator[Victims]:
    """Victims of one node at a time."""
    free = FreeAfterEvictions(search, tasks, recorded)
    if recorded and free.suffices():
        yield recorded
    accumulation = Accumulation(search, _tasks_of(recorded))
    while (batch := accumulation.grow()) is not None:
        free.add(batch)
        if not free.suffices():
            continue
        seen: set[frozenset[int]] = set()
        for node in _nodes_of(search.session, batch):
            victims = recorded + _touching(search.session, accumulation.batches, {node})
            tasks_evicted = _tasks_of(victims)
            if tasks_evicted not in seen and free.suffices_with(victims):
                yield victims
            seen.add(tasks_evicted)


def many_nodes(search: VictimSearch, tasks: Sequence[int], recorded: Victims) -> Iterator[Victims]:
    """Victims of as many nodes as a gang needs."""
    free = FreeAfterEvictions(search, tasks, recorded)
    if recorded and free.suffices():
        yield recorded
    accumulation = Accumulation(search, _tasks_of(recorded))
    while (batch := accumulation.grow()) is not None:
        free.add(batch)
        if not free.suffices():
            continue
        for nodes in _prefixes(search, free, accumulation.batches, recorded):
            victims = recorded + _touching(search.session, accumulation.batches, nodes)
            if free.suffices_with(victims):
                yield victims


def _prefixes(
    search: VictimSearch, free: FreeAfterEvictions, batches: Sequence[Batch], recorded: Victims
) -> Iterator[set[int]]:
    """Sets of nodes, from the fewest that cover the demand to all that hold a victim."""
    appearance = dict.fromkeys(
        node for batch in batches for node in _nodes_of(search.session, batch)
    )
    useful = [node for node in appearance if free.gpus[node] >= free.smallest_need]
    by_capacity = sorted(useful, key=lambda node: free.gpus[node])
    elsewhere = search.feasible.copy()
    for batch in recorded:
        elsewhere[_nodes_of(search.session, batch)] = True
    elsewhere[list(appearance)] = False
    missing = free.demand - float(free.gpus[elsewhere].sum())
    covered = np.cumsum([free.gpus[node] for node in by_capacity])
    fewest = 0 if missing <= 0 else int(np.searchsorted(covered, missing - 1e-9)) + 1
    if fewest > len(by_capacity):
        return
    step = 1
    count = fewest
    while True:
        yield set(by_capacity[:count])
        if count >= len(by_capacity):
            return
        count = min(fewest + step, len(by_capacity))
        step *= 2


def _touching(session: Session, batches: Sequence[Batch], nodes: set[int]) -> Victims:
    """All batches of jobs that have a victim on one of the nodes, one per job."""
    on_nodes = {batch.job for batch in batches if not nodes.isdisjoint(_nodes_of(session, batch))}
    merged: dict[int, tuple[int, ...]] = {}
    for batch in batches:
        if batch.job in on_nodes:
            merged[batch.job] = merged.get(batch.job, ()) + batch.tasks
    return tuple(Batch(job, tasks) for job, tasks in merged.items())


def _nodes_of(session: Session, batch: Batch) -> list[int]:
    """The nodes of a batch in name order."""
    return sorted({int(session.ledger.node[task]) for task in batch.tasks})


def _tasks_of(victims: Victims) -> frozenset[int]:
    return frozenset(task for batch in victims for task in batch.tasks)
