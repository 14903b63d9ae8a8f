"""What the command line decides about a cycle, apart from the configuration file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Defaults are KAI's, where it has the setting."""

    max_consolidation_victims: int | None = 16
    """Jobs that consolidation may move for one pending job; None is no limit, 0 switches it off."""

    allow_consolidating_reclaim: bool = True
    """Whether victims of reclaim may be counted as unharmed when they find another place."""

    staleness_grace_s: float = 60.0
    """How long a gang below its minimum is left alone; negative is for ever."""

    restrict_node_scheduling: bool = False
    """Whether only nodes with a worker label take work: GPU work on GPU workers, and so on."""

    shard_nodes: frozenset[str] | None = None
    """Nodes that are this scheduler's own where several share a cluster (Volcano's NodeShard)."""

    shard_is_hard: bool = False
    """Whether it uses no others; otherwise its own first."""
