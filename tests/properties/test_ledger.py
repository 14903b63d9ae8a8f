"""Whatever was posted, undoing it restores every column of the ledger to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine import node_choice
from muster.engine.config.conf import parse_conf
from muster.engine.registry import build_policy
from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.model.ledger import NO_SHARES, EntryKind, Ledger
from muster.model.records import ClusterRecords
from muster.model.status import ACTIVE_ALLOCATED, IllegalTransition, TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics.gpu_shares import OPEN
from muster.numerics.ledger import JOURNAL_COLUMNS, SHARE_COLUMNS, LedgerColumns
from muster.testing import make
from muster.testing.strategies import ALL, clusters

POLICY = build_policy(parse_conf("actions: allocate\n"))
COLUMNS = ("idle", "releasing", "status", "node", "counts", "queue_allocated",
           "queue_allocated_non_preemptible", "decided_at")  # fmt: skip
_NOT_UNDONE = {"node_version", "first_start", "first_held", *JOURNAL_COLUMNS}
"""What only grows, is read when it is first needed, or says how to undo."""
_CHANGED = tuple(
    name
    for name in LedgerColumns._fields[LedgerColumns._fields.index("idle") :]
    if name not in _NOT_UNDONE
)


def _state(ledger: Ledger) -> dict[str, object]:
    """Everything that entries change, as plain values."""
    state: dict[str, object] = {name: getattr(ledger, name).tolist() for name in COLUMNS}
    nodes = range(len(ledger.snapshot.nodes))
    state["groups"] = [dict(ledger.gpu_shares_on(node)) for node in nodes]
    tasks = ledger.snapshot.tasks.row.values()
    state["groups of tasks"] = {task: ledger.gpu_shares_of(task) for task in tasks}
    state["decided"] = ledger.version
    state["handle"] = {name: _standing(ledger, name) for name in _CHANGED}
    return state


def _standing(ledger: Ledger, name: str) -> object:
    """A column of the handle, as far as something stands in it."""
    column, (_, _, shares, held) = getattr(ledger.columns, name), ledger.columns.size.tolist()
    length = {"held": held}.get(name, shares if name in SHARE_COLUMNS else len(column))
    return column[:length].tolist()


def _post_something(session: Session, statement: Statement, choice: st.DataObject) -> None:
    """One legal entry, sensible or not: the ledger does not judge."""
    task = choice.draw(st.sampled_from(sorted(session.snapshot.tasks.row.values())))
    node = choice.draw(st.integers(0, len(session.snapshot.nodes) - 1))
    status = TaskStatus(int(session.ledger.status[task]))
    if status is TaskStatus.PENDING:
        shares = NO_SHARES
        if session.snapshot.shape_of(task).is_shared:
            shape = session.snapshot.shape_of(task)
            chosen, _ = node_choice.chosen_shares(session, shape, node)
            opened = np.full(shape.gpu.devices - len(chosen), OPEN, dtype=np.int64)
            shares = np.append(chosen, opened)
        post = choice.draw(st.sampled_from([statement.allocate, statement.pipeline]))
        post(task, node, shares)
    elif status is TaskStatus.ALLOCATED and choice.draw(st.booleans()):
        statement.postpone(task)
    elif status in ACTIVE_ALLOCATED:
        statement.evict(task, Eviction("test", -1))
    elif status is TaskStatus.RELEASING and session.ledger.decided_at[task] >= 0:
        statement.restore(task)


@given(clusters(ALL), st.data())
@settings(max_examples=60, deadline=None)
def test_undo_restores_the_ledger_exactly(records: ClusterRecords, data: st.DataObject) -> None:
    session = Session(snapshot_of(records), POLICY, make.NOW_S)
    states, checkpoints = [_state(session.ledger)], [0]
    with Statement(session) as statement:
        for _ in range(data.draw(st.integers(1, 10))):
            _post_something(session, statement, data)
            states.append(_state(session.ledger))
            checkpoints.append(statement.checkpoint())
        at = data.draw(st.integers(0, len(states) - 1))
        statement.rollback(checkpoints[at])
        assert _state(session.ledger) == states[at]
    assert _state(session.ledger) == states[0]


@given(clusters(ALL), st.data())
@settings(max_examples=40, deadline=None)
def test_the_ledger_equals_a_snapshot_rebuilt_from_its_tasks(
    records: ClusterRecords, data: st.DataObject
) -> None:
    session = Session(snapshot_of(records), POLICY, make.NOW_S)
    with Statement(session) as statement:
        for _ in range(data.draw(st.integers(1, 8))):
            _post_something(session, statement, data)
        ledger, tasks = session.ledger, session.snapshot.tasks
        if any(_is_in_two_places(session, task) for task in tasks.row.values()):
            return
        names = (*session.snapshot.nodes.names, "")
        after = tuple(
            make.with_fields(
                tasks.records[row],
                status=TaskStatus(int(ledger.status[row])),
                node=names[ledger.node[row]],
                gpu_shares=ledger.gpu_shares_of(row),
            )
            for row in tasks.row.values()
        )
        rebuilt = snapshot_of(make.with_fields(records, tasks=after))
        assert np.array_equal(rebuilt.nodes.idle, ledger.idle)
        assert np.array_equal(rebuilt.nodes.releasing, ledger.releasing)


def _is_in_two_places(session: Session, task: int) -> bool:
    """A waiting task that is evicted leaves nothing behind, unlike a running one."""
    ledger = session.ledger
    entries = ledger.entries_since(0)
    mine = np.flatnonzero(entries.task == task)
    waited = ledger.columns.old_status[mine] == TaskStatus.PIPELINED
    waits = np.isin(entries.kind[mine], [EntryKind.PIPELINE, EntryKind.POSTPONE])
    return bool((waited | waits).any())


def test_what_is_committed_is_not_evicted_here_any_more() -> None:
    world = make.cluster(
        make.node("n", gpu=1), make.queue("q"), make.gang("g", 1, queue="q", nodes=("n",))
    )
    ledger = Ledger(snapshot_of(world))
    ledger.evict(0)
    assert ledger.is_evicted_here(0)
    ledger.commit()
    assert not ledger.is_evicted_here(0)


def test_an_illegal_status_transition_is_refused() -> None:
    world = make.cluster(
        make.node("n", gpu=1), make.queue("q"), make.gang("g", 1, queue="q", nodes=("n",))
    )
    ledger = Ledger(snapshot_of(world))
    with pytest.raises(IllegalTransition, match="g-0 cannot go from RUNNING to ALLOCATED"):
        ledger.allocate(0, 0)
