"""Victims without which every slot still fits are spared."""

import numpy as np
from tests.properties.test_victims import units_of

from muster.numerics.arrays import Bools
from muster.numerics.redundant_victims import without_redundant
from muster.numerics.victims import Units


def kept(units: Units, free: list[int], need: int, wanted: int) -> list[int]:
    chosen: Bools = np.ones(len(units.unit_cost), dtype=np.bool_)
    found = without_redundant(
        units,
        chosen,
        np.array(free, dtype=np.int64).reshape(-1, 1),
        np.array([need], dtype=np.int64),
        np.ones(len(free), dtype=np.bool_),
        wanted,
        np.argsort(-units.unit_cost, kind="stable").astype(np.int64),
    )
    return np.flatnonzero(found).tolist()


def test_the_most_expensive_redundant_victim_is_spared() -> None:
    units = units_of([[0], [0], [1]], [4, 1, 1], [0, 0, 0], nodes=2)
    assert kept(units, [0, 0], need=1, wanted=2) == [1, 2]


def test_no_victim_that_a_slot_needs_is_spared() -> None:
    units = units_of([[0], [1]], [2, 2], [0, 0], nodes=2)
    assert kept(units, [0, 0], need=2, wanted=2) == [0, 1]


def test_units_of_one_job_are_spared_from_the_last_on() -> None:
    units = units_of([[0], [0]], [3, 1], [0, 0], nodes=1)
    units = units._replace(unit_first=np.zeros(2, dtype=np.int64))
    assert kept(units, [0], need=1, wanted=1) == [0]
