"""SchedulingShard (kai.scheduler/v1): one scheduler for one part of the nodes, and its policy."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from muster.api.duration import Duration
from muster.api.meta import ApiObject, Condition, Struct, Time
from muster.api.quantity import Quantity
from muster.api.schema import Schema


class PlacementStrategy(Struct):
    """How nodes are chosen; profile `muster` (in `args`) has least-fragmentation by default."""

    gpu: Annotated[str | None, Schema("binpack, spread or least-fragmentation (binpack).")] = None
    cpu: Annotated[str | None, Schema("binpack, spread or least-fragmentation (binpack).")] = None


class ActionConfig(Struct):
    """A change to an action."""

    enabled: Annotated[bool | None, Schema("Whether it runs (true).")] = None
    priority: Annotated[int | None, Schema("Higher ones run first.")] = None


class PluginConfig(Struct):
    """A change to a plugin."""

    enabled: Annotated[bool | None, Schema("Whether it is asked (true).")] = None
    priority: Annotated[int | None, Schema("Higher ones are asked first.")] = None
    arguments: Annotated[
        Mapping[str, str] | None, Schema("Replace the default arguments altogether.")
    ] = None


class MinRuntime(Struct):
    """How long jobs run before they may be evicted."""

    preempt_min_runtime: Annotated[
        str | None, Schema("For queues that set none of their own: as in a Queue.")
    ] = None
    reclaim_min_runtime: Annotated[
        str | None, Schema("For queues that set none of their own: as in a Queue.")
    ] = None


class ScenarioSearchBudgets(Struct):
    """How long searches for victims may take; 0 is no limit. What is cut short says so."""

    max_action_search_duration: Annotated[
        Mapping[str, Duration], Schema("By action; `default` for the others (5m).")
    ] = {}
    max_job_search_duration: Annotated[Duration | None, Schema("Per job (4m).")] = None
    min_job_search_duration: Annotated[
        Duration | None, Schema("Per job, even where the action's time is over (0s).")
    ] = None
    max_generator_search_duration: Annotated[
        Mapping[str, Duration], Schema("By generator; `default` for the others (2m).")
    ] = {}


class UsageParams(Struct):
    """Which past usage counts, and how much."""

    half_life_period: Annotated[
        Duration | None, Schema("After this time past usage counts half; absent: no decay.")
    ] = None
    window_size: Annotated[
        str | None,
        Schema(
            "How far back usage counts, as a Prometheus duration (1w).",
            pattern=(
                r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?"
                r"(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
            ),
        ),
    ] = None
    window_type: Annotated[str | None, Schema("sliding, tumbling or cron (sliding).")] = None
    tumbling_window_start_time: Annotated[
        Time | None, Schema("When the first tumbling window began.")
    ] = None
    cron_string: Annotated[str, Schema("When windows begin, for cron windows.")] = ""
    fetch_interval: Annotated[Duration | None, Schema("How often usage is read (1m).")] = None
    staleness_period: Annotated[
        Duration | None, Schema("Usage older than this is said to be stale (5m).")
    ] = None
    wait_timeout: Annotated[
        Duration | None, Schema("How long the first cycle waits for usage (1m).")
    ] = None
    extra_params: Annotated[
        Mapping[str, str], Schema("For the client: metrics, usageQueryTimeout, queryResolution.")
    ] = {}


class UsageDBConfig(Struct):
    """Where past usage is read."""

    client_type: Annotated[str, Schema("prometheus, embedded, fake or fake-with-history.")]
    connection_string: Annotated[str, Schema("Where the usage is.")] = ""
    connection_string_env_var: Annotated[
        str, Schema("The environment variable that holds the connection string.")
    ] = ""
    usage_params: UsageParams | None = None


class SchedulingShardSpec(Struct):
    partition_label_value: Annotated[
        str,
        Schema("The node-pool label of the shard's nodes; empty: those without the label."),
    ] = ""
    placement_strategy: PlacementStrategy | None = None
    args: Annotated[Mapping[str, str], Schema("More command-line flags of the scheduler.")] = {}
    queue_depth_per_action: Annotated[
        Mapping[str, int], Schema("By action, how many jobs of a queue are tried per cycle.")
    ] = {}
    min_runtime: MinRuntime | None = None
    k_value: Annotated[
        float | None, Schema("How strongly past usage counts against a queue (1.0).")
    ] = None
    usage_db_config: Annotated[
        UsageDBConfig | None, Schema("Where past usage is read; absent: it does not count.")
    ] = msgspec.field(default=None, name="usageDBConfig")
    plugins: Annotated[Mapping[str, PluginConfig], Schema("Changes to the default plugins.")] = {}
    actions: Annotated[Mapping[str, ActionConfig], Schema("Changes to the default actions.")] = {}
    go_mem_limit_ratio: Annotated[
        float | None,
        Schema(
            "For schedulers in Go: the part of the memory limit that the heap may take (0.9).",
            exclusiveMinimum=True,
            minimum=0,
            maximum=1,
        ),
    ] = None
    go_mem_limit: Annotated[
        Quantity | None, Schema("For schedulers in Go: the heap's limit, instead of the ratio.")
    ] = None
    scenario_search_budgets: ScenarioSearchBudgets | None = None


class SchedulingShardStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class SchedulingShard(ApiObject):
    """One scheduler for one part of the nodes."""

    spec: SchedulingShardSpec = SchedulingShardSpec()
    status: SchedulingShardStatus = SchedulingShardStatus()
