"""Volcano's own table tests through the engine, where they lie beside the checkout."""

from collections.abc import Callable

import pytest
from tests.support.cases import cases_folder
from tools.volcano_cases.better import why_better
from tools.volcano_cases.cases import Case, read_cases
from tools.volcano_cases.cluster import records_of
from tools.volcano_cases.conformance import differences
from tools.volcano_cases.session import run_session
from tools.volcano_cases.varied import amounts, renamed, reordered

_SEED = 20

_CASES: dict[str, list[Case]] = {}
for _case in read_cases(cases_folder() / "volcano"):
    _CASES.setdefault(_case.id.partition(".")[0], []).append(_case)


@pytest.mark.cases("volcano")
@pytest.mark.parametrize("package", _CASES)
def test_cases_of_volcano_end_as_volcano_expects_or_better(package: str) -> None:
    failed = []
    for case in _CASES[package]:
        records = records_of(case)
        ended = run_session(case, records)
        problems = differences(case, ended)
        if problems and why_better(case, records, ended) is None:
            failed.append(f"{case.id}: {'; '.join(problems)}")
    assert failed == []


@pytest.mark.cases("volcano")
@pytest.mark.parametrize("package", _CASES)
@pytest.mark.parametrize("varied", [reordered, renamed])
def test_neither_order_nor_names_matter_to_how_much_is_decided(
    package: str, varied: Callable[[Case, int], Case | None]
) -> None:
    differs = []
    for case in _CASES[package]:
        other = varied(case, _SEED)
        if other is None:
            continue
        told = amounts(run_session(case, records_of(case)))
        ended = run_session(other, records_of(other))
        if amounts(ended) != told:
            differs.append(f"{case.id}: {amounts(ended)} instead of {told}")
        if varied is renamed:
            assert all(node.startswith("other-") for node in ended.binds.values())
    assert differs == []
