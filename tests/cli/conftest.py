"""Clusters of a test are not those of the person who runs it, nor of another test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
