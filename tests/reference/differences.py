"""Differences from the originals that we chose, each with its reason, from a YAML file."""

from functools import cache
from pathlib import Path

import yaml


@cache
def differences(name: str) -> dict[str, str]:
    """Case id -> why ours is otherwise."""
    path = Path(__file__).with_name(f"{name}_differences.yaml")
    found: dict[str, str] = yaml.safe_load(path.read_text())
    return found
