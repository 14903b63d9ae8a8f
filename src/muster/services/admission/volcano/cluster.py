"""What reviews of Volcano's kinds ask the cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muster.api.volcano import Queue


def _nobody(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class VolcanoCluster:
    queue_of: Callable[[str], Queue | None] = _nobody
    children_of: Callable[[str], Sequence[Queue]] = lambda name: ()
    groups_in: Callable[[str], Sequence[str]] = lambda name: ()
    """Pod groups of a queue, as namespace/name."""
    annotations_of: Callable[[str], Mapping[str, str]] = lambda namespace: {}
    """Of a namespace."""
