"""Options of the admission service, read once at start."""

from dataclasses import dataclass
from enum import StrEnum

from muster.api import names


class UnknownQueue(StrEnum):
    """What becomes of something that names a queue which does not exist (yet)."""

    ALLOW = "allow"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    scheduler_name: str = names.DEFAULT.scheduler
    services_namespace: str = names.DEFAULT.namespace
    """Where our services run: the accounts there may write what is ours."""
    gpu_sharing: bool = False
    blocks_visible_devices: bool = False
    """Refuse pods that reach for devices past the device plugin with NVIDIA_VISIBLE_DEVICES."""
    runtime_class: str = "nvidia"
    """Runtime class of pods that share a GPU; empty leaves them as they are."""
    hami_core: bool = False
    validates_quotas: bool = False
    """Warn when a queue's quota exceeds its parent's."""
    unknown_parent: UnknownQueue = UnknownQueue.ALLOW
    """One manifest may hold children before their parents, and each is asked about alone."""
    queue_label: str = names.DEFAULT.queue_label
    unknown_queue: UnknownQueue = UnknownQueue.ALLOW
    """Of pods by their label. Let in, they wait, and their pod group says for what."""
