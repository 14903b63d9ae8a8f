"""Runs one benchmark case, or lists them all.

run.py                  list the cases with their bars and last kept figures
run.py NAME [--keep]    run one; the last line is JSON; --keep stores the figure in limits.yaml
"""

import argparse
import json
import sys
from datetime import UTC, datetime

from benchmarks import calibrate, limits, registry


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--keep", action="store_true")
    chosen = parser.parse_args()
    if not chosen.name:
        list_cases()
        return
    try:
        run_case(registry.find(chosen.name), keep=chosen.keep)
    except registry.UnknownCase as unknown:
        sys.exit(str(unknown))


def list_cases() -> None:
    known = limits.load()
    print("make bench CASE=name    (KEEP=1 stores the figure in benchmarks/limits.yaml)\n")
    for name, case in registry.all_cases().items():
        print(f"  {name:28} {case.why}")
        kept = known.get(name, {})
        for verdict in limits.verdicts(kept.get("measured", {}), kept):
            print(f"  {'':28}   {verdict}")


def run_case(case: registry.Case, *, keep: bool) -> None:
    print(f"{case.name}: {case.why}", flush=True)
    before = calibrate.calibration()
    measured = case.measure()
    after = calibrate.calibration()
    for verdict in limits.verdicts(measured, limits.load().get(case.name, {})):
        print(f"  {verdict}")
    # The machine was as fast as its better moment; the other one tells how noisy it is.
    figure = {
        "machine": calibrate.machine(),
        "calibration": {name: min(before[name], after[name]) for name in before},
        "calibration_worse": {name: max(before[name], after[name]) for name in before},
    }
    if keep:
        today = datetime.now(UTC).date().isoformat()
        limits.keep(case.name, {"measured": measured, **figure, "date": today})
        print(f"  kept in {limits.FILE.name}")
    print(json.dumps({"case": case.name, **measured, **figure}), flush=True)


if __name__ == "__main__":
    main()
