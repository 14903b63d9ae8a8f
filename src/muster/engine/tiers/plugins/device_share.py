"""`deviceshare`: pods that ask for parts of GPUs by Volcano's resources wait, and are told what to
write instead.

Volcano's device plugin gives a pod its part of a card only where Volcano's scheduler has written
the card into annotations of the pod; a pod that is bound without them fails on its node. Parts of
GPUs are shared here by annotation, with no device plugin but NVIDIA's.
"""

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.rules import TieredPlugin
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape

_OF_VOLCANO = ("volcano.sh/vgpu-", "volcano.sh/gpu-")
_INSTEAD = (
    'write the annotation gpu-memory (MiB of one GPU) or gpu-fraction ("0.5") and remove the '
    "resource"
)


class DeviceShare:
    """Volcano's `deviceshare`, as far as it can be."""

    name = "deviceshare"

    def __init__(self, arguments: Reader) -> None:
        arguments.has_no_effect(
            "cards are shared by annotation; pods that ask for volcano.sh/vgpu-... or "
            f"volcano.sh/gpu-... wait: {_INSTEAD}"
        )

    def open(self, view: View) -> SessionPlugin:
        return _Refuses(view)


class _Refuses(TieredPlugin):
    def __init__(self, view: View) -> None:
        names = view.snapshot.axis.names
        self._columns = {c: name for c, name in enumerate(names) if name.startswith(_OF_VOLCANO)}

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        asked = [name for column, name in self._columns.items() if shape.request[column] > 0]
        if not asked:
            return None
        return Refusal(Reason.BAD_REQUEST, subject=f"{asked[0]} is not served: {_INSTEAD}")
