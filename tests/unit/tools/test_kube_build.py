"""tools/kube/build.sh: when there is nothing to build, and when it cannot."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.services.operator.bootstrap import OLDEST_KUBERNETES

_FOLDER = Path(__file__).resolve().parents[3] / "tools" / "kube"
_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
)


def _build(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = ["/bin/bash", str(_FOLDER / "build.sh"), *arguments]
    chosen = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "PYTHON": "/nowhere", **environment}
    return subprocess.run(command, env=chosen, capture_output=True, text=True)


def _put_programs(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in _PROGRAMS:
        (folder / name).touch(mode=0o755)
    return folder


def _pins() -> dict[str, str]:
    text = (_FOLDER / "versions.env").read_text()
    return dict(re.findall(r"^(\w+)=([^(].*)$", text, re.MULTILINE)) | _minors()


def _minors() -> dict[str, str]:
    """Versions by minor."""
    text = (_FOLDER / "versions.env").read_text()
    return dict(re.findall(r"\[(1\.\d+)\]=(v[0-9.]+)", text))


def _folder(cache: Path, minor: str) -> Path:
    pins = _pins()
    versions = f"{pins[minor]}-etcd-{pins['ETCD_VERSION']}-kwok-{pins['KWOK_VERSION']}"
    return cache / "kube" / versions / "bin"


def test_programs_in_the_cache_are_used_and_nothing_is_built(tmp_path: Path) -> None:
    folder = _put_programs(_folder(tmp_path, _pins()["NEWEST"]))
    done = _build(MUSTER_CACHE=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert str(folder) in done.stdout
    assert _build("--where", MUSTER_CACHE=str(tmp_path)).stdout == f"{folder}\n"


@pytest.mark.parametrize("minor", sorted(_minors()))
def test_each_minor_has_programs_of_its_own(tmp_path: Path, minor: str) -> None:
    folder = _put_programs(_folder(tmp_path, minor))
    done = _build("--where", MUSTER_CACHE=str(tmp_path), KUBE=minor)
    assert done.stdout == f"{folder}\n", done.stderr


def test_a_minor_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    done = _build(KUBE="1.12", MUSTER_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "KUBE=1.12: write one of 1.33 1.34 1.35 1.36\n"


def test_programs_of_the_user_precede_the_cache(tmp_path: Path) -> None:
    folder = _put_programs(tmp_path / "mine")
    assert _build("--where", MUSTER_KUBE_BIN=str(folder)).stdout == f"{folder}\n"


@pytest.mark.parametrize("arguments", [(), ("--where",)])
def test_a_folder_of_the_user_that_lacks_a_program_is_refused_by_name(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    folder = _put_programs(tmp_path / "mine")
    (folder / "kwok").unlink()
    done = _build(*arguments, MUSTER_KUBE_BIN=str(folder))
    assert done.returncode == 3
    assert re.fullmatch(r"no kube-apiserver: .*lacks: kwok\n", done.stderr)


def test_without_programs_and_without_go_the_error_is_one_line(tmp_path: Path) -> None:
    # Of all programs of this machine the script sees only those it needs to say so.
    for name in ("dirname", "grep"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    done = _build(PATH=str(tmp_path), MUSTER_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "install Go, or set MUSTER_KUBE_BIN" in done.stderr


@pytest.mark.parametrize("minor", sorted(_minors()))
def test_the_go_module_requires_the_pinned_versions(minor: str) -> None:
    pins = _pins()
    is_newest = minor == pins["NEWEST"]
    module = (_FOLDER / ("" if is_newest else minor) / "go.mod").read_text()
    assert f"k8s.io/kubernetes {pins[minor]}\n" in module
    if is_newest:
        assert f"go.etcd.io/etcd/server/v3 {pins['ETCD_VERSION']}\n" in module
        assert f"sigs.k8s.io/kwok {pins['KWOK_VERSION']}\n" in module
    staging = set(re.findall(r"^\t\S+ => \S+ (\S+)$", module, re.MULTILINE))
    assert staging == {pins[minor].replace("v1.", "v0.")}


def test_the_oldest_minor_is_the_oldest_that_can_be_installed_on() -> None:
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    assert oldest == _pins()["OLDEST"] == sorted(_minors())[0]
