"""KAI's own table tests through the engine, where they lie beside the checkout."""

from pathlib import Path

import pytest
from tests.support.cases import cases_folder
from tools.kai_cases.conformance import CaseVerdict, judge, selected, waivers_of
from tools.kai_cases.format import read_cases
from tools.kai_cases.session import run_session

# Some files hold only cases without expectations, which nothing could be compared with.
_CASES = {
    file: cases
    for file in sorted((cases_folder() / "kai").glob("*_test.json"))
    if (cases := selected(read_cases(file), None, []))
}


@pytest.mark.cases("kai")
@pytest.mark.parametrize("file", _CASES, ids=lambda file: file.stem)
def test_cases_of_kai_have_the_result_that_kai_expects(file: Path) -> None:
    waivers = waivers_of(Path(__file__).parent / "kai_waivers.yaml")
    judgements = [judge(case, run_session, waivers) for case in _CASES[file]]
    failed = [f"{j.case.id}: {j.grounds}" for j in judgements if j.verdict is CaseVerdict.WORSE]
    assert failed == []
