"""Helm, for the tests of the chart (marker `helm`): the one on the path, or that of tools/helm."""

import subprocess
from functools import cache
from pathlib import Path

from muster.lab.kube_programs import NotHere


@cache
def helm_program(checkout: Path) -> Path | NotHere:
    """The program, or why there is none; nothing is built here."""
    script = checkout / "tools" / "helm" / "build.sh"
    found = subprocess.run([script, "--where"], capture_output=True, text=True)
    if found.returncode:
        return NotHere(found.stderr.strip())
    return Path(found.stdout.strip())
