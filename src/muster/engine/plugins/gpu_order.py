"""Which shared GPU is better: three of KAI's plugins.

`gpupack` fills GPUs that are in use, `gpuspread` prefers empty ones, `gpusharingorder` prefers
nodes where a GPU that is shared already has room.
"""

from muster.engine.hooks import SessionPlugin, View, WithoutArguments

_SHARING = 10_000.0


class GpuPack(WithoutArguments):
    """KAI's `gpupack`: the fuller the better, a whole GPU last."""

    name = "gpupack"

    def open(self, view: View) -> SessionPlugin:
        return _ByUse(1.0)


class GpuSpread(WithoutArguments):
    """KAI's `gpuspread`: the emptier the better, a whole GPU first."""

    name = "gpuspread"

    def open(self, view: View) -> SessionPlugin:
        return _ByUse(-1.0)


class _ByUse(SessionPlugin):
    def __init__(self, slope: float) -> None:
        self._slope = slope

    def device_slope(self) -> float:
        return self._slope


class GpuSharingOrder(WithoutArguments):
    """KAI's `gpusharingorder`."""

    name = "gpusharingorder"

    def open(self, view: View) -> SessionPlugin:
        return _PrefersSharing()


class _PrefersSharing(SessionPlugin):
    def sharing_score(self) -> float:
        return _SHARING
