"""The questions in a notebook: from a file that a scheduler wrote, with pictures."""

import gzip
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster import foresight
from muster.foresight import plots
from muster.foresight.arrivals import Past
from muster.foresight.cycle_input import NotACycle
from muster.foresight.outlook import outlook
from muster.foresight.situation import Situation
from muster.foresight.variants import Variants
from muster.foresight.whatif import ahead
from muster.foresight.when import Asked, when
from muster.foresight.why import NoSuchJob, State
from muster.model.record_changes import Delta
from muster.services.scheduler.cycle_dump import CycleDump, encode_dump, recorded_settings
from muster.services.scheduler.options import Options
from muster.testing import make

_WORLD = make.cluster(
    make.node("n1", gpu=4),
    make.queue("a", quota_gpu=8),
    make.queue("b", quota_gpu=8),
    make.gang("old", 1, gpu=4, queue="b", nodes=("n1",), expected_runtime_s=7200.0),
    make.gang("train", 1, gpu=2, queue="a", expected_runtime_s=3600.0),
)
_FEW = Asked(samples=5, horizon_s=6 * 3600.0)


class Drawn:
    """Axes that remember what was asked of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **_: self.calls.append((name, given))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [given for called, given in self.calls if called == name]


def situation() -> Situation:
    return Situation.of(_WORLD, make.NOW_S)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_of_the_scheduler_is_asked_as_the_cluster_itself(tmp_path: Path, pack: Any) -> None:
    file = tmp_path / "cycle.json"
    settings = recorded_settings(Options())
    file.write_bytes(pack(encode_dump(CycleDump(make.NOW_S, "", _WORLD, settings))))
    read = foresight.read_situation(file)
    assert read.result.plan == situation().result.plan
    asked = foresight.Questions(read).why("default/train", float("inf"))
    found = foresight.Questions(situation()).why("default/train", float("inf"))
    assert [(one.what, one.after) for one in asked.changes] == [
        (one.what, one.after) for one in found.changes
    ]


_GUIDE = Path(__file__).parents[3] / "docs/guides/ask-before-you-submit.md"
_JOB = """
apiVersion: v1
kind: Pod
metadata: {name: new, labels: {kai.scheduler/queue: llm}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_what_the_guide_says_of_notebooks_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it in one notebook, beside files of these names."""
    world = make.cluster(
        make.node("n1", gpu=4),
        make.node("n2", gpu=1),
        make.queue("llm", quota_gpu=8),
        make.gang("old", 1, gpu=4, queue="llm", nodes=("n1",), expected_runtime_s=7200.0),
        make.gang("train", 1, gpu=2, queue="llm", expected_runtime_s=3600.0),
    )
    dump = CycleDump(make.NOW_S, "", world, recorded_settings(Options()))
    (tmp_path / "cycle.json").write_bytes(encode_dump(dump))
    (tmp_path / "job.yaml").write_text(_JOB)
    drawn = Drawn()
    pyplot = SimpleNamespace(subplots=lambda: (None, drawn))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    monkeypatch.chdir(tmp_path)
    _, *blocks = _GUIDE.read_text().split("```python\n")
    notebook: dict[str, Any] = {}
    for block in blocks:
        exec(block.partition("```")[0].replace("team/train", "default/train"), notebook)
    said = capsys.readouterr().out.splitlines()
    assert "starts now [{'n2': 1}]" in said
    assert "1 pods lose their node" in said[-1]
    assert drawn.of("barh") or drawn.of("plot")


def test_a_job_is_asked_about_by_the_name_of_its_owner() -> None:
    """As in the guide: nobody knows the uid in the name of the group that was made for it."""
    group = "pg-train-f26bf956-f871-4f48-abc1-e83d96c9b54e"
    world = make.cluster(
        make.node("n1", gpu=4),
        make.queue("a", quota_gpu=8),
        make.gang(group, 1, gpu=8, queue="a"),
    )
    questions = foresight.Questions(Situation.of(world, make.NOW_S))
    assert questions.why("default/train") == questions.why(f"default/{group}")
    assert questions.why("default/train").state is State.WAITING
    with pytest.raises(NoSuchJob):
        questions.why("default/trai")


@pytest.mark.parametrize("content", [b"{}", b"no json", b"\x1f\x8bno gzip"])
def test_a_file_that_is_no_cycle_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(NotACycle):
        foresight.read_situation(tmp_path / "x.json")


def test_a_picture_of_starts_has_a_bar_and_a_dot_for_each_job_that_is_known() -> None:
    drawn = Drawn()
    estimates = when(situation(), Past(), _FEW)
    assert plots.starts(estimates, make.NOW_S, drawn) is drawn
    (likely, at), *_ = drawn.of("plot")[0][:2], None
    assert at == [0]
    assert 0.0 < likely[0] < 6.0
    assert drawn.of("set_yticks")[0][1] == ["default/train"]


def test_a_picture_of_the_next_hours_has_a_line_for_each_queue() -> None:
    drawn = Drawn()
    plots.held(outlook(situation(), Past(), _FEW), drawn)
    a, b = drawn.of("plot")
    assert a[0] == b[0] == [0.75 * at for at in range(9)]
    assert (a[1][0], b[1][0]) == (0.0, 4.0)
    assert max(a[1]) > 0.0


def test_a_picture_of_waits_stands_both_policies_side_by_side() -> None:
    drawn = Drawn()
    more = Delta(nodes=(make.node("n2", gpu=4),))
    world = situation()
    plots.waits(ahead(world, Variants(world.records), more, None, Past(), _FEW), drawn)
    without, with_it = (heights for _, heights, *_ in drawn.of("bar"))
    assert without[0] > with_it[0] == 0.0


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(plots.NoPlots, match=r"kubemuster\[plots\]"):
        plots.starts({}, 0.0)
