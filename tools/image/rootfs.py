"""The files of the image: an interpreter with what it loads, locked packages, our wheel, kernels.

There is no distribution below it, and no shell: every shared library is there because something
asks for it.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from tools.image.sandbox import inside
from tools.image.settings import ENVIRONMENT, EPOCH_S, HOME, USER

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / "requirements-runtime.lock"
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY: Final = HOME / "lib" / _VERSION
_PACKAGES: Final = _LIBRARY / "site-packages"
_PYTHON: Final = HOME / "bin" / _VERSION
_LEFT_OUT: Final = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "config-*"),
    *("site-packages", "__pycache__", "_tkinter*", "_test*", "_ctypes_test*", "xx*", "turtle.py"),
    *("_curses*", "readline*", "_gdbm*", "_dbm*", "nis.*"),
)
"""Of the standard library: tests, windows, what wants a terminal."""
_UNUSED: Final = ("numba/np/ufunc/tbbpool*", "numba/np/ufunc/omppool*")
"""Ways to run loops in parallel that want libraries which slim systems lack; kernels use one
thread."""
_COMMAND: Final = f"""#!{_PYTHON}
import sys

from muster.cli.entry import main

sys.exit(main())
"""
_SYSTEM: Final = (Path("/lib"), Path("/lib64"), Path("/usr/lib"), Path("/usr/lib64"))


def assemble(root: Path, wheel: Path, kernels: Path | None = None) -> None:
    """Fill an empty folder. `kernels`: where compiled ones are kept from one time to the next."""
    _interpreter(root)
    _packages(root, wheel)
    _shared_libraries(root)
    _around(root)
    _compile_bytecode(root)
    _set_times(root)
    _compile_kernels(root, kernels)
    _set_times(root)


def is_ours(path: PurePosixPath) -> bool:
    """Whether a file (absolute, in the image) changes with every commit."""
    ours = (_PACKAGES / "muster", HOME / "kernels", HOME / "bin" / "muster")
    about = str(path).startswith(f"{_PACKAGES}/kubemuster-")
    return about or any(path.is_relative_to(one) for one in ours)


def at(root: Path, path: PurePosixPath | str) -> Path:
    """Where a path of the image is on this machine."""
    return root / str(path).lstrip("/")


def _interpreter(root: Path) -> None:
    binary = Path(sys.base_prefix) / "bin" / _VERSION
    at(root, HOME / "bin").mkdir(parents=True)
    shutil.copyfile(binary.resolve(), at(root, _PYTHON))
    at(root, _PYTHON).chmod(0o755)
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, at(root, _LIBRARY), ignore=shutil.ignore_patterns(*_LEFT_OUT))


def _packages(root: Path, wheel: Path) -> None:
    """Everything by its hash, but for ourselves."""
    target = at(root, _PACKAGES)
    uv: list[str | Path] = [
        Path(sys.executable).with_name("uv"),
        "pip",
        "install",
        "--system-certs",
        "--quiet",
    ]
    into: list[str | Path] = ["--python", sys.executable, "--no-deps", "--target", target]
    _run(*uv, *into, "--require-hashes", "-r", LOCK)
    _run(*uv, *into, wheel)
    shutil.rmtree(target / "bin", ignore_errors=True)
    for path in (*(one for unused in _UNUSED for one in target.glob(unused)), target / ".lock"):
        path.unlink(missing_ok=True)
    for folder in [*target.rglob("tests")]:
        shutil.rmtree(folder, ignore_errors=True)
    command = at(root, HOME / "bin" / "muster")
    command.write_text(_COMMAND)
    command.chmod(0o755)


def _shared_libraries(root: Path) -> None:
    files = [at(root, _PYTHON), *sorted(at(root, HOME).rglob("*.so*"))]
    beside = next(Path(found).parent for found in _asked_for(files[:1]) if "libc.so" in found)
    for found in sorted(_asked_for(files)):
        library = Path(found)
        # What is not the system's (a Python of one's own) goes where the loader looks.
        is_system = any(library.is_relative_to(folder) for folder in _SYSTEM)
        place = at(root, str(library if is_system else beside / library.name))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library.resolve(), place)
        place.chmod(0o755)


def _asked_for(files: Sequence[Path]) -> set[str]:
    """Shared libraries outside the image that these files load, the loader included."""
    said = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True).stdout
    found = re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", said, re.MULTILINE)
    if missing := set(re.findall(r"^\t(\S+) => not found", said, re.MULTILINE)):
        carried = {file.name for file in files}
        assert missing <= carried, f"shared libraries that nobody has: {missing - carried}"
    inside_image = str(files[0].parents[1])
    return {name for name in found if not name.startswith(inside_image)}


def _around(root: Path) -> None:
    """Who runs it, names it looks up, authorities it trusts."""
    texts = {
        "etc/passwd": f"nonroot:x:{USER}:{USER}:nonroot:/tmp:/sbin/nologin\n",
        "etc/group": f"nonroot:x:{USER}:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }
    for name, text in texts.items():
        at(root, name).parent.mkdir(parents=True, exist_ok=True)
        at(root, name).write_text(text)
    trusted = at(root, ENVIRONMENT["SSL_CERT_FILE"])
    trusted.parent.mkdir(parents=True)
    here = Path(ENVIRONMENT["SSL_CERT_FILE"])
    trusted.write_bytes(here.read_bytes() if here.exists() else b"")
    for folder in ("tmp", "proc", "dev", "sys"):
        at(root, folder).mkdir(mode=0o755)
    at(root, "tmp").chmod(0o1777)


def _compile_bytecode(root: Path) -> None:
    """By contents, not by time: nobody can write newer ones, and the layout stays the same."""
    script = (
        "import compileall, sys, py_compile;"
        f"sys.exit(not compileall.compile_dir('{_LIBRARY}', quiet=1,"
        " invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH))"
    )
    _run_inside(root, [str(_PYTHON), "-c", script], {})


def _compile_kernels(root: Path, kept: Path | None) -> None:
    """In the image itself: numba looks for kernels by the path of their sources."""
    folder = at(root, ENVIRONMENT["MUSTER_KERNELS"])
    if kept is not None and kept.exists():
        shutil.copytree(kept, folder, dirs_exist_ok=True)
    # Here, and only here, numba may write to where the kernels stay.
    _run_inside(root, ["/opt/muster/bin/muster", "kernels"], _WRITING)
    if kept is not None:
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)


_WRITING: Final = {"NUMBA_CACHE_DIR": ENVIRONMENT["MUSTER_KERNELS"], "MUSTER_KERNELS": ""}


def _run_inside(root: Path, command: Sequence[str], environment: dict[str, str]) -> None:
    done = inside(root, command, {**ENVIRONMENT, **environment}, is_build=True)
    assert done.returncode == 0, f"{command[0]}: {done.stderr or done.stdout}"


def _set_times(root: Path) -> None:
    for path in root.rglob("*"):
        os.utime(path, (EPOCH_S, EPOCH_S), follow_symlinks=False)


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr or done.stdout
