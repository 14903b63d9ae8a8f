"""The files of the schedulers: their configuration, and the folder to which they write cycles."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.lab.simulate.story import BreakDisk, Configure, Story

CONFIGURATIONS: Final[Mapping[str, bytes]] = {
    "built-in": b"",
    "not text": b"actions: \xff\xfe",
    "half written": b"actions: [allocate",
    "a list": b"- allocate\n",
    "unknown action": b"actions: allocate, conquer\n",
    "unknown plugin": b"actions: allocate\ntiers: [{plugins: [{name: nobody}]}]\n",
    "deep": b"[" * 5000,
    "no evictions": b"actions: allocate\n",
    "few evictions": b"disruptionBudget: {maxEvictedPerHour: 1}\n",
    "no time": b"scenarioSearchBudgets: {maxActionSearchDuration: {default: 1ms}}\n",
}
"""What somebody may write into the file, by mistake or not."""


@dataclass(frozen=True, slots=True)
class SchedulerFiles:
    """A folder of one story. Where no step is about files there is none."""

    folder: Path

    @property
    def conf(self) -> Path:
        return self.folder / "conf.yaml"

    @property
    def cycles(self) -> Path:
        return self.folder / "cycles"

    def configure(self, what: str) -> None:
        self.conf.write_bytes(CONFIGURATIONS[what])

    def break_disk(self) -> None:
        """A file stands where the folder was: whoever writes there gets an error of the disk."""
        if self.cycles.is_dir():
            self.cycles.rename(self.folder / "cycles-before")
        self.cycles.touch()

    def mend_disk(self) -> None:
        before = self.folder / "cycles-before"
        if self.cycles.is_file():
            self.cycles.unlink()
        if before.is_dir() and not self.cycles.exists():
            before.rename(self.cycles)


def needs_files(story: Story) -> bool:
    return any(isinstance(step, Configure | BreakDisk) for step in story.steps)
