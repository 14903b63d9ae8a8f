"""The collector rests while something is decided, and works again afterwards."""

import gc

import pytest

from muster.base.garbage import collection_paused


def test_the_collector_rests_inside_and_works_afterwards() -> None:
    assert gc.isenabled()
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_works_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), collection_paused():
        raise ValueError("inside")
    assert gc.isenabled()


def test_whoever_paused_it_before_keeps_it_paused() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
