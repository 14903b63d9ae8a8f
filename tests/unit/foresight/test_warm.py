"""Kernels are compiled ahead: no question compiles one."""

import pytest

from muster.engine import warm as engine_warm
from muster.foresight import warm


def test_after_warming_up_the_queue_is_played_forward_without_compiling() -> None:
    said: list[str] = []
    warm.warm_up(said.append)
    compiled = engine_warm.compiled()
    assert compiled["muster.numerics.forward.play"] >= 1
    warm.warm_up(lambda name: pytest.fail(f"{name} a second time"))
    warm._play_forward()
    assert engine_warm.compiled() == compiled
