"""A newcomer's first hour: every command of the pages, word for word, with the real kubectl.

The steps are in tests/docs/first_hour.yaml. They run in a folder of their own that has what the
commands name (examples, deploy), on the cluster of `muster up` with all services.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.code_names import ROOT
from tests.support.page_commands import manifest

from muster.base.clock import SystemClock
from muster.lab.programs import free_ports

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(600)]

_HOUR: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "docs" / "first_hour.yaml").read_text()
)["hour"]
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Somebody at a terminal."""

    folder: Path
    environ: dict[str, str]
    pages_port: int
    dashboard: str

    def run(self, command: str) -> tuple[int, str]:
        """How it ended, and all that it said. The pages may be on another port than told."""
        told = command.replace("localhost:8080", f"localhost:{self.pages_port}")
        told = told.replace("localhost:8765", self.dashboard)
        ended = subprocess.run(
            ["bash", "-uo", "pipefail", "-c", told],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def until(self, command: str) -> str:
        """Again and again, until it succeeds; what it said last if it never did."""
        clock = SystemClock()
        until_s = clock.monotonic_s() + _PATIENCE_S
        while True:
            code, said = self.run(command)
            if code == 0:
                return ""
            if clock.monotonic_s() > until_s:
                return said or f"exit code {code}"


@pytest.fixture
def newcomer(kube_folder: Path, tmp_path: Path) -> Iterator[Newcomer]:
    for name in ("examples", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = Path(sys.executable).parent
    config = tmp_path / ".muster" / "kubeconfig"
    environ = {
        **os.environ,
        "PATH": f"{kube_folder}:{programs}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(config),
        "COLUMNS": "200",
    }
    (port,) = free_ports(1)
    process = subprocess.Popen(
        ["muster", "up", "--stay", "--no-story", "--pages-port", str(port)],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        assert f"export KUBECONFIG={config}" in said, said
        (dashboard,) = re.findall(r"Its dashboard is at http://(\S+)", said)
        yield Newcomer(tmp_path, environ, port, dashboard)
        # The last step of the hour stops it.
        assert process.wait(timeout=60) == 0
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()


def test_everything_that_the_pages_tell_people_to_run_does_what_they_say(
    newcomer: Newcomer,
) -> None:
    wrong = [problem for step in _HOUR if (problem := _problem(newcomer, step))]
    assert not wrong, "\n\n".join(wrong)


def _problem(newcomer: Newcomer, step: dict[str, Any]) -> str:
    """What is wrong with a step; empty when it went as the page says."""
    if "as" in step:
        text = manifest(ROOT / step["page"], step["manifest"])
        (newcomer.folder / step["as"]).write_text(text)
        return ""
    if "until" in step:
        said = newcomer.until(step["until"])
        return f"{step['until']}: {said}" if said else ""
    command = step["run"] if "run" in step else f"kubectl apply -f {step['apply']}"
    if "name" in step:
        command = command.replace("NAME", newcomer.run(step["name"])[1].strip())
    code, said = newcomer.run(command)
    missing = [words for words in step.get("says") or () if words not in said]
    unwanted = [words for words in step.get("never") or () if words in said]
    is_right = (code != 0) == step.get("fails", False)
    if is_right and not missing and not unwanted:
        return ""
    return f"{command}: exit code {code}, without {missing}, with {unwanted}: {said}"
