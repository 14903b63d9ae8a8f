"""Which device did this container get. Asks NVML, the library of the NVIDIA driver."""

from dataclasses import dataclass

import pynvml


class NoDevice(Exception):
    """This container has no GPU, or none that we can ask; the text says which."""


@dataclass(frozen=True, slots=True)
class VisibleDevice:
    uuid: str
    name: str
    memory_mib: int


def visible_devices() -> list[VisibleDevice]:
    """The GPUs that this process can see; raises `NoDevice` where there is no driver to ask."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoDevice(
            f"NVML does not start: {error}. The container needs a GPU and the NVIDIA runtime."
        ) from error
    try:
        return [_device(index) for index in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()


def the_only_device(devices: list[VisibleDevice]) -> VisibleDevice:
    """A reservation holds one device: with more, nobody could say which one it stands for."""
    if len(devices) != 1:
        raise NoDevice(f"found {len(devices)} devices, 1 was expected")
    return devices[0]


def _device(index: int) -> VisibleDevice:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return VisibleDevice(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        memory_mib=memory.total >> 20,
    )


def _text(value: bytes | str) -> str:
    # Older drivers' bindings return bytes.
    return value.decode() if isinstance(value, bytes) else value
