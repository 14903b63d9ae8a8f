"""Options of the binder, read once at start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.api.names import Names
from muster.api.validation.problems import Problem
from muster.base.backoff import Backoff

_RETRIES = Backoff(first_s=1.0, longest_s=60.0)


@dataclass(frozen=True, slots=True)
class BinderSettings:
    names: Names = field(default_factory=Names)
    other_schedulers: frozenset[str] = frozenset()
    """Schedulers of ours for the users of other systems: their pods are bound too."""
    reservation_image: str = ""
    reservation_command: str = ""
    """What they run, in words; empty: what their image runs by itself."""
    reservation_timeout_s: float = 40.0
    reservation_resources: Mapping[str, Any] = field(default_factory=dict)
    """Requests and limits of reservation pods beside their GPU."""
    reservation_runtime_class: str = ""
    reservation_pod_security: Mapping[str, Any] = field(default_factory=dict)
    reservation_container_security: Mapping[str, Any] = field(default_factory=dict)
    bind_timeout_s: float = 120.0
    """How long volumes and claims may take."""
    uses_cdi: bool = False
    """Name devices to the runtime by the container device interface."""
    hami_core: bool = False
    """Tell HAMi in shared devices how much memory is a pod's."""
    skipped_steps: frozenset[str] = frozenset()
    """Names of KAI's plugins that prepare nothing here: see `plugins.py`."""
    no_effect: tuple[Problem, ...] = ()
    """What is configured and does nothing."""
    sight_s: float = 3.0
    """How long after a request was made its pod must have been seen."""
    retries: Backoff = _RETRIES
    """How long after an attempt that failed there is another."""
