"""The scheduler's command-line options, as values."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from muster.api.meta import Key
from muster.api.names import Names
from muster.api.profiles import ProfileName
from muster.base.offload import Offload, in_thread
from muster.foresight.journal.bounds import Bounds


class BindRequests(StrEnum):
    """Which pods get to their nodes by a BindRequest."""

    NEEDED = "needed"
    """Those that need preparation; the others are bound directly, which is three writes less."""
    ALWAYS = "always"
    """All of them, as the original does."""


@dataclass(frozen=True, slots=True)
class Options:
    """Defaults are the original's, but for `bind_requests` and `profile`."""

    names: Names = field(default_factory=Names)
    shard: str = ""
    """Value of the node-pool label that this scheduler serves; empty: what has no such label."""
    takes_unlabelled: bool = False
    """Whether groups and queues without such a label are ours, too; nodes are not."""
    schedule_period_s: float = 1.0
    """The shortest time between two cycles; nothing happens while nothing changes."""
    staleness_grace_s: float = 60.0
    max_consolidation_victims: int | None = 16
    allow_consolidating_reclaim: bool = True
    restrict_node_scheduling: bool = False
    full_hierarchy_fairness: bool = True
    stuck_after_s: float = 120.0
    status_workers: int = 5
    write_workers: int = 32
    """Bind requests and evictions in flight at once."""
    marks_evicted_pods: bool = True
    """Say on a pod why it is removed before it is."""
    evicts_by_deletion: bool = False
    """Delete victims outright, as the original does, whatever their disruption budgets say."""
    bind_requests: BindRequests = BindRequests.NEEDED
    bind_attempts: int = 3
    watches_claims: bool = True
    profile: ProfileName = ProfileName.MUSTER
    namespaces_are_queues: bool | None = None
    """Whether namespaces are the queues, for profiles with other groups; None: as theirs has it."""
    default_queue: str = ""
    """Where groups that name no queue are; empty: as the profile has it."""

    @property
    def pool_name(self) -> str:
        """How texts and conditions call the shard."""
        return self.shard or "default"


@dataclass(frozen=True, slots=True)
class SchedulerServiceConfig:
    options: Options = field(default_factory=Options)
    conf_file: Path | None = None
    """Where the configuration is; None: the built-in default."""
    cycle_log_folder: Path | None = None
    """Where cycles that decided something are kept; None: nowhere."""
    cycle_log_files_max: int = 1000
    conf_map: Key | None = None
    """The ConfigMap that holds the configuration instead of a file."""
    otlp_endpoint: str = ""
    """Where traces go; empty: none are made."""
    journal_folder: Path | None = None
    """Where every cycle is kept, to be asked about and decided again; None: nowhere."""
    journal_writer: str = "scheduler"
    """Whose file in that folder it is: no two processes have the same."""
    journal_bounds: Bounds = field(default_factory=Bounds)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Where the configuration may say that an address is."""
    offload: Offload = in_thread
    """Where decisions are calculated and cycles are written to disk."""
