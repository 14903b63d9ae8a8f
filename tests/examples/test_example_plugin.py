"""The example plugin is a package to install and a name to configure, as its page says."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PLUGIN = _ROOT / "examples" / "plugin-cheap-nodes"


@pytest.mark.slow
@pytest.mark.row(116)
def test_the_example_plugin_installs_and_passes_its_own_tests(tmp_path: Path) -> None:
    """In an environment of its own that sees our packages, so that nothing is installed here."""
    environment = tmp_path / "env"
    venv.create(environment, with_pip=False, system_site_packages=False)
    site = next((environment / "lib").glob("python*")) / "site-packages"
    ours = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (site / "ours.pth").write_text(f"{ours}\n{_ROOT / 'src'}\n")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    install += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([*install, str(_PLUGIN)], check=True, capture_output=True)
    tests = [str(environment / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*tests, "--rootdir", str(_PLUGIN), "-c", "/dev/null", str(_PLUGIN / "tests")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout
