"""Which shared GPU is better: three of KAI's plugins.

`gpupack` fills GPUs that are in use, `gpuspread` prefers empty ones, `gpusharingorder` prefers
nodes where a GPU that is shared already has room.
"""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.numerics.arrays import Floats, Ints

_SHARING = 10_000.0


class GpuPack:
    """KAI's `gpupack`: the fuller the better, a whole GPU last."""

    name = "gpupack"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> SessionPlugin:
        return _Packs()


class _Packs(SessionPlugin):
    def device_scores(self, node: int, used_mib: Ints, gpu_memory_mib: int) -> Floats:
        return np.append(used_mib / gpu_memory_mib, 0.0)


class GpuSpread:
    """KAI's `gpuspread`: the emptier the better, a whole GPU first."""

    name = "gpuspread"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> SessionPlugin:
        return _Spreads()


class _Spreads(SessionPlugin):
    def device_scores(self, node: int, used_mib: Ints, gpu_memory_mib: int) -> Floats:
        return np.append(1.0 - used_mib / gpu_memory_mib, 1.0)


class GpuSharingOrder:
    """KAI's `gpusharingorder`."""

    name = "gpusharingorder"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> SessionPlugin:
        return _PrefersSharing()


class _PrefersSharing(SessionPlugin):
    def sharing_score(self) -> float:
        return _SHARING
