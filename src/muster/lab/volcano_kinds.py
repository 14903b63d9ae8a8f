"""The kinds of Volcano and of kube-batch, as files: what their users have installed already."""

from pathlib import Path
from typing import Any

import yaml


def definitions(system: str) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of `volcano` or `kube-batch`."""
    return [yaml.safe_load(path.read_text()) for path in sorted(_folder(system).glob("*.yaml"))]


def _folder(system: str) -> Path:
    """Inside an installed package, or beside a checkout's sources."""
    name = f"{system}-crds"
    packaged = Path(__file__).with_name(name)
    beside = Path(__file__).resolve().parents[3] / "deploy" / name
    return packaged if packaged.is_dir() else beside
