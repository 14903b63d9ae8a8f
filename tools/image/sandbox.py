"""Commands inside an unpacked image: a root of its own, as a container would have.

By user namespaces of the kernel (`unshare`); nothing is installed and nobody need be root.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.image.settings import USER

_BUILD_S = 3600.0
"""For kernels on a machine that has more to do, or only plays the processor that they are for."""
_PRIVATE = """
set -e
path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --bind "$0" "$0"
mount --rbind /proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount -o remount,bind,ro "$0"
root=$0 unshare=$(command -v unshare)
PATH=$path
exec "$unshare" --user --map-user={user} --map-group={user} --root="$root" --wd=/ -- "$@"
"""


def inside(
    root: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    is_build: bool = False,
    timeout_s: float = 600.0,
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end: as the image's user on a read-only root, unless it is being built."""
    words = [*(_building(root) if is_build else _running(root)), *command]
    return subprocess.run(
        words,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_BUILD_S if is_build else timeout_s,
    )


def _building(root: Path) -> list[str]:
    # In a container engine's build step there are no namespaces to be had, but chroot is.
    if os.geteuid() == 0:
        return ["/usr/sbin/chroot", str(root)]
    return ["/usr/bin/unshare", "--user", "--map-root-user", f"--root={root}", "--wd=/", "--"]


def _running(root: Path) -> list[str]:
    script = _PRIVATE.format(user=USER)
    private = ["/usr/bin/unshare", "--user", "--map-root-user", "--mount"]
    return [*private, "/bin/bash", "-c", script, str(root)]
