"""How queues stood over the last hours, kept in bounds."""

import pytest
from tests.support.moments import moment_of

from muster.testing import make
from muster.web.board import Board
from muster.web.moment import Moment
from muster.web.tracks import Tracks
from muster.web.views.queues import queues


def _moment(runs: int, *more: make.Part) -> Moment:
    gang = make.gang("runs", runs, gpu=1, queue="a", nodes=("n1",) * runs)
    return moment_of(make.cluster(make.node("n1", gpu=8), make.queue("a"), *more, gang), 1)


def test_what_was_true_at_each_moment_is_told_from_the_first_look_until_now() -> None:
    tracks = Tracks()
    for at_s, runs in ((100.0, 2), (200.0, 6)):
        tracks.add(at_s, queues(_moment(runs)))
    found = tracks.series("held", ("a", "none"), 300.0, 5)
    assert found.t == [100, 150, 200, 250, 300]
    assert found.lines == {"a": [2, 2, 6, 6, 6], "none": [None] * 5}
    assert tracks.series("share", ("a",), 300.0, 2).lines["a"] == [2, 6]


def test_the_newest_look_of_a_step_counts() -> None:
    tracks = Tracks()
    for at_s, runs in ((0.0, 1), (1.0, 2), (1.5, 3)):
        tracks.add(at_s, queues(_moment(runs)))
    assert tracks.series("held", ("a",), 2.0, 3).lines["a"] == [1, 1, 3]


def test_a_queue_that_came_later_was_not_there_before() -> None:
    tracks = Tracks()
    tracks.add(0.0, queues(_moment(1)))
    tracks.add(100.0, queues(_moment(1, make.queue("b", quota_gpu=4))))
    assert tracks.series("asked", ("b",), 100.0, 2).lines["b"] == [None, 0]


@pytest.mark.parametrize("looks", [600, 601, 5_000])
def test_however_long_it_lasts_what_is_kept_is_bounded_and_reaches_back(looks: int) -> None:
    tracks, found = Tracks(), queues(_moment(1))
    for at in range(looks):
        tracks.add(at * 10.0, found)
    assert 100 < len(tracks._looks) <= 600
    assert tracks.series("held", ("a",), looks * 10.0, 2).t[0] == 0


def test_a_board_that_shows_nothing_yet_has_no_series() -> None:
    board = Board()
    assert board.tracks.series("share", ("a",), 1.0, 9).lines == {"a": []}
    board.show(_moment(3), b"{}")
    assert board.tracks.series("held", ("a",), 1.0, 2).lines["a"] == [3, 3]
