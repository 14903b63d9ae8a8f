"""`make conformance CASES=../shared/cases/volcano`: Volcano's table tests through the engine.

One line per case that does not end as expected: better by a checked rule (`better`), or failed.
Ends with `N passed, N failed`.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.volcano_cases.better import why_better
from tools.volcano_cases.cases import Case, read_cases
from tools.volcano_cases.cluster import records_of
from tools.volcano_cases.session import Ended, run_session

_BOUND_BY_JOB: Mapping[str, Mapping[str, int]] = {
    "rescaling test": {"default/pg1": 5, "default/pg21": 5, "default/pg22": 5},
    "blocking nodes test": {
        "default/pg1": 10,
        "default/pg2": 10,
        "default/pg31": 10,
        "default/pg32": 15,
        "default/pg4": 15,
    },
}
"""What cases divide among jobs, where their file does not say it."""


def differences(case: Case, ended: Ended) -> list[str]:
    """What is not as the case wants it."""
    expected, found = case.expected, []
    binds = expected.get("binds")
    is_minimal = expected.get("minimalBindCheck")  # then only their number counts
    if binds is not None and not is_minimal and dict(ended.binds) != binds:
        found.append(f"binds {dict(ended.binds)} instead of {binds}")
    by_job = Counter(bind.job for bind in ended.plan.binds)
    counts = _BOUND_BY_JOB.get(case.name) or {
        job: numbers.get("Binding", 0)
        for job, numbers in (expected.get("taskStatusNums") or {}).items()
    }
    for job, number in counts.items():
        if by_job[job] != number:
            found.append(f"{by_job[job]} tasks of {job} are bound instead of {number}")
    if not counts and len(ended.binds) != expected["bindsNum"]:
        found.append(f"{len(ended.binds)} binds instead of {expected['bindsNum']}")
    evicted = expected.get("evicted")
    if evicted is not None and list(ended.evicted) != sorted(evicted):
        found.append(f"evicts {list(ended.evicted)} instead of {sorted(evicted)}")
    elif len(ended.evicted) != expected["evictNum"]:
        found.append(f"{len(ended.evicted)} evictions instead of {expected['evictNum']}")
    for job, nodes in (expected.get("pipelined") or {}).items():
        waits = ended.waits_for.get(job, [])
        if not waits or not set(waits) <= set(nodes):
            found.append(f"{job} waits for {waits} instead of {nodes}")
    for job, phase in (expected.get("podGroupPhase") or {}).items():
        if ended.phases.get(job) != phase:
            found.append(f"{job} is {ended.phases.get(job)} instead of {phase}")
    in_groups = expected.get("bindNumsInHyperNode")
    if in_groups is not None:
        members = case.objects.get("hyperNodeMembers") or {}
        tiers = case.objects.get("hyperNodesByTier") or {}
        lowest: list[str] = tiers.get(min(tiers, default=""), []) if tiers else []
        there = [
            sum(node in members.get(name, ()) for node in ended.binds.values()) for name in lowest
        ]
        if sorted(n for n in there if n) != sorted(n for n in in_groups if n):
            found.append(f"binds {there} per hyper node instead of {in_groups}")
    return found


def judged(cases: Sequence[Case], write: Callable[[str], object]) -> int:
    """Run them, a line for each that ends otherwise; 1 if some failed."""
    failed = better = 0
    for case in cases:
        records = records_of(case)
        ended = run_session(case, records)
        problems = differences(case, ended)
        if not problems:
            continue
        why = why_better(case, records, ended)
        if why is not None:
            better += 1
            write(f"BETTER {case.id} ({case.name}): {'; '.join(problems)}: {why}\n")
        else:
            failed += 1
            write(f"FAILED {case.id} ({case.name}): {'; '.join(problems)}\n")
    write(f"{len(cases) - failed - better} same, {better} better, {failed} worse\n")
    write(f"{len(cases) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("cases", nargs="?", default="../shared/cases/volcano", type=Path)
    parser.add_argument("--only", metavar="TAG", help="the package that a case comes from")
    parser.add_argument("--id", action="append", default=[], help="a case, or how its id begins")
    options = parser.parse_args(arguments)
    if not options.cases.exists():
        parser.error(f"{options.cases} does not exist")
    cases = [
        case
        for case in read_cases(options.cases)
        if (options.only is None or case.id.startswith(f"{options.only}."))
        and (not options.id or case.id.startswith(tuple(options.id)))
    ]
    return judged(cases, sys.stdout.write)


if __name__ == "__main__":
    sys.exit(main())
