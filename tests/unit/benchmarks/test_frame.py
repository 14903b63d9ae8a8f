"""The runner of benchmarks: its output, its stored figures, its errors."""

import json
from pathlib import Path

import pytest
from benchmarks import calibrate, limits, registry, run


@pytest.fixture
def limits_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "limits.yaml"
    path.write_text("quick:\n  bars: [{measure: seconds, at_most: 2, why: people wait}]\n")
    monkeypatch.setattr(limits, "FILE", path)
    return path


def _quick() -> registry.Case:
    sizes = [{"nodes": 1, "seconds": 0.5}, {"nodes": 2, "seconds": 1.5}]
    return registry.Case("quick", "because", lambda: {"seconds": 1.5, "sizes": sizes})


def test_the_last_line_is_json_with_the_case_its_seconds_and_the_calibration(
    limits_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.run_case(_quick(), keep=False)
    lines = capsys.readouterr().out.splitlines()
    last = json.loads(lines[-1])
    assert (last["case"], last["seconds"], len(last["sizes"])) == ("quick", 1.5, 2)
    assert last["calibration"].keys() == {"python_ms", "numpy_ms"}
    assert "  met      seconds at most 2 (people wait): 1.5" in lines


def test_a_stored_figure_leaves_the_limits_unchanged(limits_file: Path) -> None:
    before = limits.load()["quick"]["bars"]
    run.run_case(_quick(), keep=True)
    kept = limits.load()["quick"]
    assert kept["bars"] == before
    assert kept["measured"]["seconds"] == 1.5
    assert kept["machine"] == calibrate.machine()


@pytest.mark.parametrize(
    ("bar", "value", "met"),
    [
        ({"measure": "x", "at_most": 2}, 2, True),
        ({"measure": "x", "at_most": 2}, 2.1, False),
        ({"measure": "x", "at_least": 2}, 2, True),
        ({"measure": "x", "at_least": 2}, 1.9, False),
        ({"measure": "y", "at_least": 2}, 5, None),
    ],
)
def test_a_limit_is_met_on_its_side_and_never_without_a_measurement(
    bar: dict[str, object], value: float, met: bool | None
) -> None:
    (verdict,) = limits.verdicts({"x": value}, {"bars": [bar]})
    assert verdict.met is met


def test_an_unknown_case_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(registry.UnknownCase, match=r"no benchmark case 'x'.*apiserver-ceiling"):
        registry.find("x")


def test_two_cases_cannot_share_a_name() -> None:
    registry.all_cases()
    with pytest.raises(ValueError, match="two benchmark cases"):
        registry.case("apiserver-ceiling", why="again")(dict)


def test_every_limit_belongs_to_a_case() -> None:
    assert set(limits.load()) <= set(registry.all_cases())
