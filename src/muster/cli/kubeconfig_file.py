"""The kubeconfig that `muster up` writes; a file that holds anything of others is never touched."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from muster.sim.apiserver.kubeconfig import MARK

_LISTS: Final = ("clusters", "users", "contexts")


class NotOurs(Exception):
    """There is a file that muster did not write, or that belongs to another cluster."""


class KubeconfigFile:
    """A path, and the cluster that it is to lead to."""

    def __init__(self, path: Path, name: str) -> None:
        # A link stays a link: what is written, and removed, is the file that it leads to.
        self.path = path.resolve() if path.is_symlink() else path
        self._name = name

    def check(self, running: frozenset[str] = frozenset()) -> None:
        """Raises NotOurs if the file must stay as it is. `running`: names of other clusters."""
        if not self.path.exists():
            return
        owner = _owner(self.path)
        if owner is None:
            raise NotOurs(
                f"{self.path} exists and was not written by muster up, which would replace it: "
                "name another file with --kubeconfig"
            )
        if owner != self._name and owner in running:
            raise NotOurs(
                f"{self.path} leads to the cluster {owner}, which runs: name another file with "
                "--kubeconfig"
            )

    def write(self, text: str) -> None:
        """Readable by its owner alone: it holds the administrator's token."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f"{self.path.name}.{self._name}.new")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        try:
            # Once more: somebody may have written it since the start.
            self.check()
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)

    def remove(self) -> None:
        """If it still leads to this cluster and to nothing else."""
        if self.path.exists() and _owner(self.path) == self._name:
            self.path.unlink(missing_ok=True)


def _owner(path: Path) -> str | None:
    """The cluster of muster up that the file leads to; None if anything in it is of others."""
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    names = {_marked(entry) for entry in _entries(found, "clusters")}
    owner = names.pop() if len(names) == 1 else None
    others = {str(entry.get("name")) for name in _LISTS for entry in _entries(found, name)}
    return owner if owner and others == {owner} else None


def _entries(config: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = config.get(name)
    return [entry for entry in listed or () if isinstance(entry, dict)]


def _marked(entry: Mapping[str, Any]) -> str | None:
    """The name of an entry that muster up made: kubectl keeps extensions when it edits a file."""
    cluster = entry.get("cluster")
    extensions = cluster.get("extensions") if isinstance(cluster, dict) else None
    marks = [one for one in extensions or () if isinstance(one, dict) and one.get("name") == MARK]
    return str(entry.get("name")) if marks else None
