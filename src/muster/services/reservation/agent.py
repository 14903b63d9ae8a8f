"""Discover the device, say it on our own pod, and hold on to it until we are told to stop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.api import names
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.log import Log
from muster.client.read import Reader
from muster.client.write import Writer
from muster.services.reservation.discover import NoDevice, VisibleDevice, the_only_device


class NotInAPod(Exception):
    """The environment does not say which pod this is."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Announces the device of this pod. Run again after a restart, it writes nothing twice."""

    reader: Reader
    writer: Writer
    log: Log
    devices: Callable[[], list[VisibleDevice]]

    async def announce(self, pod: Key) -> str:
        """The device's UUID, which is on the pod when this returns; raises `NoDevice`."""
        live = await self.reader.get(POD, pod)
        known = live.metadata.annotations.get(names.ANNOTATION_RESERVED_GPU, "")
        if known:
            self.log.info("device already announced", pod=pod, device=known)
            return known
        try:
            device = the_only_device(self.devices())
        except NoDevice as problem:
            self.log.error("no device to announce", pod=pod, problem=problem)
            raise
        patch = {"metadata": {"annotations": {names.ANNOTATION_RESERVED_GPU: device.uuid}}}
        await self.writer.patch(POD, pod, patch)
        self.log.info("device announced", pod=pod, device=device.uuid, name=device.name)
        return device.uuid


def own_pod(environment: Mapping[str, str]) -> Key:
    """Which pod this is, from what the kubelet puts in the environment."""
    missing = [key for key in ("POD_NAMESPACE", "POD_NAME") if not environment.get(key)]
    if missing:
        raise NotInAPod(
            f"{' and '.join(missing)} not set: run this in a pod that gets them from its fields"
        )
    return Key(environment["POD_NAMESPACE"], environment["POD_NAME"])
