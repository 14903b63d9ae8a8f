"""The Dockerfile, followed without a container engine: what its steps read is sent to it, and it
makes what `make image` makes."""

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from tools.image import build, settings
from tools.image.rootfs import ROOT

_INSTRUCTIONS = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT"}
_SHELL = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Step:
    word: str
    rest: str


def _steps() -> list[Step]:
    text = "\n".join(
        line for line in (ROOT / "Dockerfile").read_text().splitlines() if line[:1] != "#"
    )
    joined = re.sub(r"\\\n\s*", " ", text)
    return [Step(*line.partition(" ")[::2]) for line in joined.splitlines() if line.strip()]


def _stages() -> list[list[Step]]:
    stages: list[list[Step]] = [[]]
    for step in _steps():
        if step.word == "FROM":
            stages.append([])
        stages[-1].append(step)
    return stages


def test_it_is_made_of_steps_that_are_understood() -> None:
    assert {step.word for step in _steps()} <= _INSTRUCTIONS
    before, first, last = _stages()
    given = {step.rest.partition("=")[0] for step in before}
    assert set(_SHELL.findall(first[0].rest)) <= given, "every variable has a value"
    assert first[0].rest.endswith(" AS build")
    base = dict(step.rest.partition("=")[::2] for step in before)["PYTHON"]
    assert ":" in base.rpartition("/")[2], "the base has a version"
    assert not base.endswith(":latest")
    assert last[0].rest == "scratch"
    assert [step.word for step in last] == ["FROM", "COPY", "ENV", "USER", "ENTRYPOINT"]


def test_its_interpreter_is_the_oldest_that_is_promised() -> None:
    (base,) = [step.rest for step in _steps() if step.word == "ARG"]
    promised = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert promised is not None
    assert f"python:{promised[1]}-" in base


def _is_in_context(path: str) -> bool:
    """As .dockerignore has it: the last line that fits decides, for what is below it too."""
    found = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            is_kept = pattern.startswith("!")
            parts = path.split("/")
            above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
            wanted = pattern.lstrip("!")
            anywhere = wanted.removeprefix("**/")
            names = parts if wanted.startswith("**/") else above
            if any(_fits(name, anywhere) for name in names):
                found = is_kept
    return found


def _fits(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a container engine would be sent."""
    folder = tmp_path_factory.mktemp("context")
    for path in _tracked():
        if _is_in_context(path):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, folder / path)
    return folder


def _tracked() -> Iterator[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    yield from (path for path in done.stdout.splitlines() if (ROOT / path).is_file())


def test_every_file_that_it_copies_is_sent(context: Path) -> None:
    for step in _stages()[1]:
        if step.word == "COPY":
            *sources, _ = shlex.split(step.rest)
            for source in sources:
                assert (context / source).exists(), source


def _wheel(folder: Path, made: Path) -> set[str]:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(made)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or done.stdout
    (wheel,) = made.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if "__pycache__" not in name}


@pytest.mark.slow
def test_the_wheel_of_what_is_sent_is_the_wheel_of_the_sources(
    context: Path, tmp_path: Path
) -> None:

    assert _wheel(context, tmp_path / "sent") == _wheel(ROOT, tmp_path / "whole")


def test_its_files_are_made_by_what_makes_the_layers_of_the_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One function makes the files; the image has two layers of them, the Dockerfile one."""
    (_, first, last) = _stages()
    command = shlex.split([step.rest for step in first if step.word == "RUN"][-1])
    (module,) = [word for word in command if word.startswith("tools.")]
    assert module == build.__name__
    made: list[Path] = []
    monkeypatch.setattr(build, "files", made.append)
    monkeypatch.setattr(sys, "argv", command[command.index(module) :])
    build.main()
    (copied,) = [step.rest for step in last if step.word == "COPY"]
    assert copied == f"--from=build {made[0]} /"
    assert {step.rest for step in last if step.word == "USER"} == {
        f"{settings.USER}:{settings.USER}"
    }


def test_what_it_installs_with_is_locked_or_pinned() -> None:
    (first, *_) = [step.rest for step in _steps() if step.word == "RUN"]
    for command in first.split("&&"):
        words = shlex.split(command)
        assert words[:2] == ["pip", "install"]
        packages = [word for word in words[2:] if not word.startswith("-") and ".lock" not in word]
        assert all("==" in word for word in packages)
        assert "--require-hashes" in words or packages
