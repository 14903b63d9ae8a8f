"""The image that `make image` writes: unpacked as a container engine would, and run."""

import json
import re
import resource
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.calibrate import calibration
from tools.image import settings
from tools.image.build import build
from tools.image.layout import unpack
from tools.image.rootfs import ROOT
from tools.image.sandbox import inside

import muster
from muster.cli.commands import COMMANDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.xdist_group("image"),
    pytest.mark.timeout(1200),  # Kernels are compiled, once; a busy machine takes its time.
]

_PYTHON = f"{settings.HOME}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
_START_WITHIN_S = 2.0
_IN_SLIM_DEBIAN = {
    *("libc", "libm", "libdl", "libpthread", "librt", "libutil", "libresolv", "ld-linux-x86-64"),
    *("ld-linux-aarch64", "libgcc_s", "libstdc++", "libcrypt", "libz", "libbz2", "liblzma"),
    *("libssl", "libcrypto", "libffi", "libsqlite3", "libuuid", "libexpat", "libpython3"),
}
"""Shared libraries that the base of the Dockerfile has: Debian's essential packages, and what its
Python loads."""
_USUAL_PYTHON_MS = 31.0
"""What `benchmarks.calibrate` shows on the machine that the seconds are meant for."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image") / "layout"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def unpacked(layout: Path) -> tuple[Path, dict[str, Any]]:
    root = layout.parent / "unpacked"
    return root, dict(unpack(layout, root))


@pytest.fixture(scope="module")
def run(unpacked: tuple[Path, dict[str, Any]]) -> Callable[..., Any]:
    """`muster WORDS` in the image, as its user, on its read-only root."""
    root, config = unpacked
    environment = dict(one.split("=", 1) for one in config["Env"])

    def run(*words: str, **more: str) -> Any:
        return inside(root, [*config["Entrypoint"], *words], {**environment, **more})

    return run


def test_every_command_starts_at_once(run: Callable[..., Any]) -> None:
    """Seconds of the processor, on a machine as fast as the one they are meant for."""
    slowness = max(1.0, calibration()["python_ms"] / _USUAL_PYTHON_MS)
    late = {}
    for name in COMMANDS:
        before = _children_s()
        done = run(name, "--help")
        spent_s = (_children_s() - before) / slowness
        assert done.returncode == 0, done.stderr
        assert "Usage:" in done.stdout
        if spent_s > _START_WITHIN_S:
            late[name] = round(spent_s, 2)
    assert late == {}


def test_kernels_need_no_compiling(run: Callable[..., Any]) -> None:
    """numba says of each whether it was loaded or compiled and stored."""
    done = run("kernels", NUMBA_DEBUG_CACHE="1")
    assert done.returncode == 0, done.stderr
    assert "data loaded from" in done.stdout
    assert "data saved to" not in done.stdout


def test_a_kernel_that_does_not_fit_is_compiled_where_there_is_room(
    unpacked: tuple[Path, dict[str, Any]],
) -> None:
    """For the processor of this machine instead of any; the root cannot be written to."""
    root, config = unpacked
    environment = dict(one.split("=", 1) for one in config["Env"])
    del environment["NUMBA_CPU_NAME"]
    command = [_PYTHON, "-c", "import muster.cli; import muster.numerics.divide"]
    done = inside(root, command, {**environment, "NUMBA_DEBUG_CACHE": "1"})
    assert done.returncode == 0, done.stderr
    assert "data saved to '/tmp/" in done.stdout


def test_it_holds_no_shell_and_nothing_that_its_user_may_write(
    unpacked: tuple[Path, dict[str, Any]],
) -> None:
    root, config = unpacked
    assert config["User"] == f"{settings.USER}:{settings.USER}"
    programs = {path.name for path in root.rglob("bin/*")}
    assert programs == {"muster", Path(_PYTHON).name}
    writable = [path for path in root.rglob("*") if not path.is_symlink() and _may_write(path)]
    assert writable == [root / "tmp"]


def test_it_wants_no_library_that_the_dockerfiles_base_lacks(
    unpacked: tuple[Path, dict[str, Any]],
) -> None:
    """Another machine that builds it from Python may have more."""
    root, _ = unpacked
    system = [path for path in root.rglob("*.so*") if not path.is_relative_to(root / "opt")]
    assert system
    assert {path.name.partition(".")[0] for path in system} - _IN_SLIM_DEBIAN == set()


def test_a_service_says_why_it_cannot_run(run: Callable[..., Any]) -> None:
    """Through the whole of it: interpreter, packages, name look-up, our own words."""
    done = run("binder", "--kubeconfig", "/nowhere")
    assert done.returncode == 1
    assert "/nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_layout_is_one_that_container_engines_read(layout: Path) -> None:
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    (named,) = json.loads((layout / "index.json").read_text())["manifests"]
    assert named["annotations"]["org.opencontainers.image.ref.name"] == muster.__version__


def test_the_dockerfile_says_the_same() -> None:
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    said = [line.partition(" ")[::2] for line in text.splitlines() if line[:1].isupper()]
    last = dict(said)
    assert dict(one.split("=", 1) for one in shlex.split(last["ENV"])) == settings.ENVIRONMENT
    assert last["USER"] == f"{settings.USER}:{settings.USER}"
    assert json.loads(last["ENTRYPOINT"]) == list(settings.ENTRYPOINT)
    assert [rest for word, rest in said if word == "FROM"][-1] == "scratch"


def test_it_holds_the_versions_that_everything_was_tested_with() -> None:
    pins = re.compile(r"^([a-z0-9-]+==\S+)(?: ; .*)? \\$", re.MULTILINE)
    runtime = set(pins.findall((ROOT / "requirements-runtime.lock").read_text()))
    assert runtime <= set(pins.findall((ROOT / "requirements.lock").read_text()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[<>=\[ ]", one)[0].lower() for one in project["dependencies"]}
    assert wanted <= {one.split("==")[0] for one in runtime}, "run `make lock`"


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _may_write(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o022)
