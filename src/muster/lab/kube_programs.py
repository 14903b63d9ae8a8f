"""Where the programs of a control plane are: etcd, kube-apiserver and the others.

`tools/kube/build.sh` of a checkout knows the pinned versions and the cache; nothing is built here.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NotHere:
    """There is no control plane to be had now, and why."""

    reason: str


def kube_programs(checkout: Path) -> Path | NotHere:
    """The folder with all the programs, or why there is none."""
    script = checkout / "tools" / "kube" / "build.sh"
    if not script.exists():
        return NotHere("no kube-apiserver: not in a checkout of the sources")
    found = subprocess.run([script, "--where"], capture_output=True, text=True)
    if found.returncode:
        return NotHere(found.stderr.strip() or f"{script} ended with {found.returncode}")
    return Path(found.stdout.strip())
