"""The compiled loop never writes behind its columns."""

import numpy as np
import pytest

from muster.engine import kernel
from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make

POLICY = build_policy(parse_conf("actions: allocate\n"))


def test_fractions_are_placed_although_the_columns_were_reserved_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "_most_shares", lambda session, waiting: 0)
    jobs = [make.gang(f"j{at}", 2, queue="q", gpu=0.5) for at in range(6)]
    world = make.cluster(make.node("n1", gpu=4), make.node("n2", gpu=4), make.queue("q"), *jobs)
    session = Session(snapshot_of(world), POLICY, make.NOW_S)
    allocate.execute(session)
    assert (session.ledger.status == TaskStatus.ALLOCATED).all()
    shares = [use for node in (0, 1) for use in session.ledger.gpu_shares_on(node).values()]
    assert len(shares) == 6
    assert np.all([use.physical == 80_000 for use in shares])
