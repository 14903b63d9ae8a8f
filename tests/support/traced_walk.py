"""Creates a gang of two pods with half a GPU each in the lab, and prints which functions ran.

Run as a program of its own with NUMBA_DISABLE_JIT=1: kernels are then Python, and are seen too. One
line for each call of a function that is named on standard input, in the order of the calls.
"""

import json
import sys
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from tests.support.lab import JOB, Lab, in_lab, pod_body

import muster
from muster.numerics import ledger

_SOURCES = Path(muster.__file__).parent


class Trace:
    """A profile that remembers the calls of some functions, by module and name."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.calls: list[str] = []
        self._wanted = wanted
        self._names: dict[Any, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        name = self._names.get(code)
        if name is None:
            name = self._names[code] = _name(Path(code.co_filename), code.co_qualname)
        if name in self._wanted:
            self.calls.append(name)


def _name(file: Path, function: str) -> str:
    if not file.is_relative_to(_SOURCES):
        return ""
    return ".".join((*file.relative_to(_SOURCES).with_suffix("").parts, function))


def walked(wanted: frozenset[str]) -> list[str]:
    """The calls, from the creation of the Job until both pods run."""
    trace = Trace(wanted)

    async def scenario(lab: Lab) -> None:
        body = pod_body("", annotations={"gpu-fraction": "0.5"})
        body["spec"]["restartPolicy"] = "Never"
        metadata = {
            "name": "halves",
            "labels": body["metadata"]["labels"],
            "annotations": {"kai.scheduler/batch-min-member": "2"},
        }
        spec = {"parallelism": 2, "completions": 2, "template": body}
        sys.setprofile(trace)
        try:
            await lab.create(JOB, {"metadata": metadata, "spec": spec})
            await lab.until_running("halves", 2)
        finally:
            sys.setprofile(None)

    in_lab(scenario)
    return trace.calls


if __name__ == "__main__":
    # A handle is a compiled structure; the columns under their names are the same to a function.
    vars(ledger)["handle"] = lambda columns: SimpleNamespace(**columns._asdict())
    sys.stdout.write(json.dumps(walked(frozenset(json.loads(sys.stdin.read())))))
