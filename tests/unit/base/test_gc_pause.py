"""The collector rests while something is decided, and works again afterwards."""

import gc

import pytest

from muster.base.gc_pause import gc_paused


def test_the_garbage_collector_is_disabled_inside_and_enabled_afterwards() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_garbage_collector_is_enabled_after_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), gc_paused():
        raise ValueError("inside")
    assert gc.isenabled()


def test_a_garbage_collector_that_was_disabled_before_stays_disabled() -> None:
    with gc_paused():
        with gc_paused():
            pass
        assert not gc.isenabled()
