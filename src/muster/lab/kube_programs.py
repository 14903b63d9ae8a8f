"""Where the programs of a control plane are: etcd, kube-apiserver and the others.

`tools/kube/build.sh` of a checkout knows the pinned versions and the cache; nothing is built here.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NotHere:
    """There is no control plane to be had now, and why."""

    reason: str


def kube_programs(checkout: Path, minor: str = "") -> Path | NotHere:
    """The folder with all the programs, or why there is none. Without a minor: that of KUBE in the
    environment, else the newest."""
    script = checkout / "tools" / "kube" / "build.sh"
    if not script.exists():
        return NotHere("no kube-apiserver: not in a checkout of the sources")
    chosen = {**os.environ, "KUBE": minor} if minor else None
    found = subprocess.run([script, "--where"], capture_output=True, text=True, env=chosen)
    if found.returncode:
        return NotHere(found.stderr.strip() or f"{script} ended with {found.returncode}")
    return Path(found.stdout.strip())
