"""Which of a node's shared GPUs is better for one more tenant: KAI's `gpupack` and `gpuspread`.

`gpusharingorder`, which prefers nodes where a shared GPU already has room, is a score of the
engine's own node choice; here is only its name.
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Answers, View
from muster.numerics.arrays import Floats, Ints


class GpuPack:
    """Fill shared GPUs up before opening another: a group scores its used part, a whole GPU 0."""

    name = "gpupack"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> Answers:
        return _Fuller()


class GpuSpread:
    """Open whole GPUs before sharing: a group scores its free part, a whole GPU 1."""

    name = "gpuspread"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> Answers:
        return _Emptier()


class _Fuller(Answers):
    def device_scores(self, node: int, used_mib: Ints, gpu_memory_mib: int) -> Floats:
        return np.append(used_mib / gpu_memory_mib, 0.0)


class _Emptier(Answers):
    def device_scores(self, node: int, used_mib: Ints, gpu_memory_mib: int) -> Floats:
        return np.append(1.0 - used_mib / gpu_memory_mib, 1.0)
