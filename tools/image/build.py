"""python -m tools.image.build: the image as an OCI layout, or only its files for the Dockerfile."""

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.image.layout import Labels, write_layout
from tools.image.rootfs import LOCK, ROOT, assemble, is_ours

from muster import __version__

FOLDER: Final = ROOT / "dist" / "image"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_KEPT: Final = ROOT / ".muster" / "image-kernels"


def build(folder: Path, *, compresses: bool = False) -> str:
    """Write the layout; its digest."""
    with tempfile.TemporaryDirectory(prefix="muster-image-") as scratch:
        root = Path(scratch) / "root"
        files(root)
        shutil.rmtree(folder, ignore_errors=True)
        labels = Labels(__version__, _ARCHITECTURES[platform.machine()], _revision())
        # Two layers: what changes with the lock, and what changes with every commit.
        layers = (lambda path: not is_ours(path), is_ours)
        return write_layout(folder, root, layers, labels, compresses=compresses)


def files(root: Path) -> None:
    """Only the files."""
    with tempfile.TemporaryDirectory(prefix="muster-wheel-") as made:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", made]
        done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr or done.stdout
        (wheel,) = Path(made).glob("kubemuster-*.whl")
        root.mkdir(parents=True)
        assemble(root, wheel, _KEPT / _kernels_digest())


def _kernels_digest() -> str:
    """Of all that compiled kernels follow from, beside the machine's architecture."""
    found = hashlib.sha256(f"{sys.version}{platform.machine()}".encode())
    found.update(LOCK.read_bytes())
    for source in sorted((ROOT / "src" / "muster" / "numerics").rglob("*.py")):
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def _revision() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the layout is written")
    parser.add_argument("--files", type=Path, help="write only the files of the image, here")
    parser.add_argument("--compress", action="store_true", help="gzip the layers")
    given = parser.parse_args()
    if given.files:
        files(given.files)
        return
    digest = build(given.folder, compresses=given.compress)
    print(f"{given.folder}: muster {__version__}, {digest}")


if __name__ == "__main__":
    main()
