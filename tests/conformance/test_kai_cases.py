"""KAI's own table tests through the engine, where they lie beside the checkout."""

import os
from pathlib import Path

import pytest

from muster.testing.conformance import CaseVerdict, judge, selected, waivers_of
from muster.testing.kai_format import read_cases
from muster.testing.kai_session import run_session

_ROOT = Path(__file__).parents[2]
_FOLDER = Path(os.environ.get("MUSTER_CASES", _ROOT.parent / "shared" / "cases")) / "kai"
_FILES = sorted(_FOLDER.glob("*_test.json")) or [_FOLDER]


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_cases_of_kai_have_the_result_that_kai_expects(file: Path) -> None:
    waivers = waivers_of(Path(__file__).parent / "kai_waivers.yaml")
    cases = selected(read_cases(file), None, []) if file.is_file() else []
    judgements = [judge(case, run_session, waivers) for case in cases]
    failed = [f"{j.case.id}: {j.grounds}" for j in judgements if j.verdict is CaseVerdict.FAILED]
    assert failed == []
