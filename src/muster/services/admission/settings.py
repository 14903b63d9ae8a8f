"""Options of the admission service, read once at start."""

from dataclasses import dataclass

from muster.api import names


@dataclass(frozen=True, slots=True)
class Settings:
    scheduler_name: str = names.DEFAULT.scheduler
    gpu_sharing: bool = False
    blocks_visible_devices: bool = False
    """Refuse pods that reach for devices past the device plugin with NVIDIA_VISIBLE_DEVICES."""
    runtime_class: str = "nvidia"
    """Runtime class of pods that share a GPU; empty leaves them as they are."""
    hami_core: bool = False
    validates_quotas: bool = False
    """Warn when a queue's quota exceeds its parent's."""
