"""Benchmarks measure what a user gets who configures nothing, and the picture what was measured."""

import re

from benchmarks import limits
from benchmarks.cases import engine
from tools import openb_picture

from muster.engine.hooks import LEAST_FRAGMENTATION
from muster.engine.policy import Policy
from muster.engine.session import Session
from muster.model.tables import snapshot_of
from muster.testing import make


def test_the_engine_is_measured_with_the_placement_that_nobody_has_to_ask_for() -> None:
    assert _placement(engine._POLICY) == LEAST_FRAGMENTATION
    assert _placement(engine._KAI_POLICY) != LEAST_FRAGMENTATION


def _placement(policy: Policy) -> object:
    return Session(snapshot_of(make.cluster(make.node("n", gpu=1))), policy, 0.0).packing.gpu


def test_every_policy_of_the_trace_has_a_line_that_ends_at_its_figure() -> None:
    asked = [0.0, 65.0, 130.0]
    curves = {name: [0.0, 60.0, 90.0 + at] for at, (name, _, _) in enumerate(openb_picture.LINES)}
    drawn = openb_picture.picture({"asked": asked, **curves})
    assert drawn.count("<polyline") == len(curves)
    labels = re.findall(r">([^<]+) (\d+\.\d) %</text>", drawn)
    assert dict(labels) == {
        name: f"{curves[policy][-1]:.1f}" for policy, name, _ in openb_picture.LINES
    }


def test_what_is_kept_of_the_trace_is_what_is_drawn() -> None:
    kept = limits.load()["openb"].get("measured")
    drawn = openb_picture._TO.read_text() if openb_picture._TO.exists() else None
    assert drawn == (kept and openb_picture.picture(kept["curves"]))
