"""`imagelocality` of `nodeorder`: nodes that have a pod's images go first, as Kubernetes counts it.

An image counts its bytes times the share of all nodes that have it, so that a large image on one
node does not draw every pod there; below 23 MiB nothing counts, from 1000 MiB per container on all.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from muster.model.records import NodeRecord
from muster.numerics.arrays import Floats

_MIB = 1 << 20
_LEAST = 23.0 * _MIB
_MOST_PER_CONTAINER = 1000.0 * _MIB
_FULL = 100.0


class ImageTable:
    """Which nodes have which images. Images are looked up when a pod first asks for them."""

    def __init__(self, nodes: Sequence[NodeRecord]) -> None:
        self.nodes = nodes
        self.is_empty = not any(node.images for node in nodes)
        self._columns: dict[str, Floats] = {}

    def scores(self, images: Sequence[str]) -> Floats:
        """float64[N], 0 to 100: how much of what these containers run each node has."""
        total = np.zeros(len(self.nodes))
        for image in images:
            total += self._column(image)
        most = max(_MOST_PER_CONTAINER * len(images), _LEAST + 1)
        scores: Floats = _FULL * (np.clip(total, _LEAST, most) - _LEAST) / (most - _LEAST)
        return np.floor(scores)

    def _column(self, image: str) -> Floats:
        found = self._columns.get(image)
        if found is None:
            held: list[Mapping[str, int]] = [node.images for node in self.nodes]
            sizes = np.array([images.get(image, -1) for images in held], dtype=np.float64)
            share = float((sizes >= 0).mean()) if len(sizes) else 0.0
            found = self._columns[image] = np.maximum(sizes, 0.0) * share
        return found
