"""`make conformance CASES=folder`: run case files of KAI's format through the engine.

One line per case that does not end as expected: better, equal or worse by checked rules
(`compare`), or waived with a reason. Ends with `N same, N better, N equal, N worse`, which leaves
out the waived, and `N passed, N failed`: worse is failed.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import yaml
from tools.kai_cases import format as kai
from tools.kai_cases.cases import records_of
from tools.kai_cases.compare import Comparison, RunSession, compared
from tools.kai_cases.match import CaseSession, mismatches, over_bounds, written_back
from tools.kai_cases.session import run_session

from muster.model.records import ClusterRecords


class CaseVerdict(Enum):
    """How a case ended."""

    SAME = "same"
    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    WAIVED = "waived"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A case with its verdict and the grounds for it."""

    case: kai.Case
    verdict: CaseVerdict
    grounds: str = ""


def judge(case: kai.Case, run: RunSession, waivers: Mapping[str, str]) -> Judgement:
    """Run a case and judge it."""
    before = records_of(case)
    if case.runner == "integration":
        problems, after = _integration(case, run)
    else:
        session = run(case, before)
        problems, after = mismatches(case, session), session.after
    if not problems:
        return Judgement(case, CaseVerdict.SAME)
    found = Comparison.WORSE if after is None else compared(case, before, after, run)
    if found is Comparison.WORSE and case.id in waivers:
        return Judgement(case, CaseVerdict.WAIVED, waivers[case.id])
    return Judgement(case, CaseVerdict(found.value), "; ".join(problems))


def _integration(case: kai.Case, run: RunSession) -> tuple[list[str], ClusterRecords | None]:
    """Rounds until the match, a match of the rebuilt cluster, then rounds that must hold it.

    Also what was reached, if the later rounds changed nothing in it.
    """
    problems: list[str] = []
    for _ in range(case.rounds_until_match):
        session = run(case, records_of(case))
        problems.extend(over_bounds(case, session))
        case = written_back(case, session)
    reached = records_of(case)
    is_stable = True
    problems.extend(mismatches(case, CaseSession(reached)))
    for _ in range(case.rounds_after_match):
        session = run(case, records_of(case))
        problems.extend(mismatches(case, session))
        case = written_back(case, session)
        is_stable = is_stable and records_of(case) == reached
    return list(dict.fromkeys(problems)), reached if is_stable else None


def waivers_of(path: Path) -> dict[str, str]:
    """Case ids with the reason why KAI's expectation is not ours. The file maps reason to ids."""
    if not path.exists():
        return {}
    reasons: dict[str, list[str]] = yaml.safe_load(path.read_text()) or {}
    return {case: " ".join(why.split()) for why, cases in reasons.items() for case in cases}


def selected(cases: Iterable[kai.Case], only: str | None, ids: Sequence[str]) -> list[kai.Case]:
    """The cases with expectations, of a tag or with ids where asked; an id that no case has stands
    for all that begin with it.
    """
    cases = [case for case in cases if case.runner != "none"]
    whole = {case.id for case in cases}.intersection(ids)
    beginnings = tuple(set(ids) - whole)
    return [
        case
        for case in cases
        if (only is None or only in case.tags or case.actions == (only,))
        and (not ids or case.id in whole or case.id.startswith(beginnings))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("cases", nargs="?", default="../shared/cases/kai", type=Path)
    parser.add_argument("--only", metavar="TAG", help="a tag, or the single action of a case")
    parser.add_argument("--id", action="append", default=[], help="a case, or how its id begins")
    parser.add_argument("--waivers", type=Path, default=Path("tests/conformance/kai_waivers.yaml"))
    options = parser.parse_args(arguments)
    if not options.cases.exists():
        parser.error(f"{options.cases} does not exist")
    waivers = waivers_of(options.waivers)
    cases = selected(kai.read_cases(options.cases), options.only, options.id)
    return report((judge(case, run_session, waivers) for case in cases), sys.stdout.write)


def report(judgements: Iterable[Judgement], write: Callable[[str], object]) -> int:
    """Print what does not end as expected, and the sums; 1 if something is worse."""
    counts = dict.fromkeys(CaseVerdict, 0)
    for judgement in judgements:
        counts[judgement.verdict] += 1
        if judgement.verdict is not CaseVerdict.SAME:
            label = judgement.verdict.value.upper()
            write(f"{label} {judgement.case.id} ({judgement.case.name}): {judgement.grounds}\n")
    if counts[CaseVerdict.WAIVED]:
        write(f"of the passed, {counts[CaseVerdict.WAIVED]} waived\n")
    classes = (CaseVerdict(each.value) for each in Comparison)
    write(", ".join(f"{counts[each]} {each.value}" for each in classes) + "\n")
    worse = counts[CaseVerdict.WORSE]
    write(f"{sum(counts.values()) - worse} passed, {worse} failed\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
