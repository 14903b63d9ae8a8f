"""The picture of how far estimates are off, and what is told beside it, are of what is kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from tools import coverage_picture

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = json.loads((_ROOT / "benchmarks/when-coverage.json").read_text())


def test_the_picture_of_errors_is_drawn_from_what_is_kept() -> None:
    assert (_ROOT / "docs/pictures/when-error.svg").read_text() == coverage_picture.picture(_KEPT)


def test_the_kept_figures_are_of_the_kept_estimates() -> None:
    bench = yaml.safe_load((_ROOT / "benchmarks/limits.yaml").read_text())
    told = bench["when-coverage"]["measured"]
    likely, limits, started, is_covered = np.array(_KEPT).T
    assert told["estimates"] == len(_KEPT)
    assert told["coverage"] == pytest.approx(is_covered.mean())
    assert told["median_error_min"] == pytest.approx(np.median(abs(likely - started)), abs=0.1)
    by_limits = np.median(abs(limits - started))
    assert told["median_error_by_limits_min"] == pytest.approx(by_limits, abs=0.1)
