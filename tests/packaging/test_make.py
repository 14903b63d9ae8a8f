"""What the verbs of the Makefile run in."""

import os
import subprocess
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPYCACHEPREFIX")


def test_what_python_compiled_is_kept_in_a_folder_of_its_own_whatever_the_environment_says() -> (
    None
):
    environment = {key: value for key, value in os.environ.items() if key not in _OF_MAKE}
    shown = subprocess.run(
        ["make", "--no-print-directory", "--eval=shown: ; @env", "shown"],
        cwd=_ROOT,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert f"PYTHONPYCACHEPREFIX={_ROOT}/.muster/pycache" in shown
    assert [line for line in shown if line.startswith("PYTHONDONTWRITEBYTECODE")] == []
