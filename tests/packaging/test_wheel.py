"""What a user gets: a wheel, built from the source archive, in an environment with nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

import muster

_ROOT = Path(__file__).resolve().parents[2]
_UV = Path(sys.executable).with_name("uv")

# Modules for authors of plugins; `kubemuster[testing]` brings what they need.
_NEED_AN_EXTRA = {
    "muster.testing.contended",
    "muster.testing.shared_gpus",
    "muster.testing.strategies",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds the wheel, its locked dependencies and nothing more."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, _ROOT)
    (wheel,) = folder.glob("kubemuster-*.whl")
    environment = folder / "environment"
    _run(_UV, "venv", "--quiet", "--python", sys.executable, environment)
    lock = _ROOT / "requirements.lock"
    python = environment / "bin" / "python"
    _run(
        _UV,
        "pip",
        "install",
        "--system-certs",
        "--quiet",
        "--python",
        python,
        "--constraint",
        lock,
        wheel,
    )
    return environment


def test_the_installed_command_prints_its_version(clean_environment: Path, tmp_path: Path) -> None:
    said = _run(clean_environment / "bin" / "muster", "--version", cwd=tmp_path)
    assert said.strip() == f"muster {muster.__version__}"


def test_every_module_of_the_wheel_can_be_imported_without_the_development_tools(
    clean_environment: Path, tmp_path: Path
) -> None:
    script = (
        "import importlib, pkgutil, muster\n"
        "names = [m.name for m in pkgutil.walk_packages(muster.__path__, 'muster.')]\n"
        f"left_out = {_NEED_AN_EXTRA}\n"
        "wanted = [n for n in names if n not in left_out and not n.endswith('__main__')]\n"
        "[importlib.import_module(name) for name in wanted]\n"
        "print(len(names))"
    )
    said = _run(clean_environment / "bin" / "python", "-c", script, cwd=tmp_path)
    assert int(said) > 50


def test_the_wheel_contains_every_data_file(clean_environment: Path) -> None:
    (package,) = clean_environment.glob("lib/python*/site-packages/muster")
    source = _ROOT / "src" / "muster"
    ours = {path.relative_to(source) for path in source.rglob("*") if _is_data(path)}
    assert {path for path in ours if not (package / path).exists()} == set()
    assert ours, "there is nothing to lose"


def _is_data(path: Path) -> bool:
    return path.is_file() and path.suffix not in {".py", ".pyc", ".nbi", ".nbc"}


def _run(*command: str | Path, cwd: Path = _ROOT) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout
