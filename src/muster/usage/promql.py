"""The questions that Prometheus is asked about past usage, as text.

One question is a subquery: an expression is evaluated at every step of the window, and the samples
are added. What is asked at each step is made so that nothing counts twice or goes missing:

- Series of one queue are brought together by `max by (queue_name)`. A queue has several when the
  queue controller was restarted, when it has replicas, or when another label changed; at one moment
  they say the same thing.
- Nodes are counted once, however many replicas of kube-state-metrics tell of them.
- MIG devices count by their slices, as queues are charged for them.
- Capacity counts only at moments for which some queue is known, and queues only at moments for
  which capacity is known: a time that nobody recorded is no time in which nobody worked.
"""

from typing import Final

from muster.model.usage import UsageDatabase

ALLOCATION: Final = {
    "gpu": "queue_allocated_gpus",
    "cpu": "queue_allocated_cpu_cores",
    "memory": "queue_allocated_memory_bytes",
}
"""Gauges of the queue controller, by resource, without their prefix."""
CAPACITY: Final = {
    "gpu": "capacity_gpus",
    "cpu": "capacity_cpu_cores",
    "memory": "capacity_memory_bytes",
}
"""Likewise: what the nodes have."""
QUEUE_LABEL: Final = "queue_name"
_MIG_SLICES: Final = (1, 2, 3, 4, 7)


def allocation(name: str, database: UsageDatabase, prefix: str) -> str:
    """What each queue holds of a resource at one moment."""
    metric = database.metrics.allocation.get(name, f"{prefix}_{ALLOCATION[name]}")
    return f"max by ({QUEUE_LABEL}) ({metric})"


def capacity(name: str, database: UsageDatabase, prefix: str) -> str:
    """What the cluster has of a resource at one moment: what the queue controller says, which knows
    devices of every kind, or else what kube-state-metrics says of nodes."""
    given = database.metrics.capacity.get(name)
    if given is not None:
        return f"sum({given})"
    return f"(max({prefix}_{CAPACITY[name]}) or {_of_nodes(name)})"


def held_over_window(name: str, database: UsageDatabase, prefix: str, now_s: float) -> str:
    """For `window_sum`: what each queue held."""
    known = f"{allocation(name, database, prefix)} and on () {capacity(name, database, prefix)}"
    return _decayed(known, database, now_s)


def there_over_window(name: str, database: UsageDatabase, prefix: str, now_s: float) -> str:
    """For `window_sum`: what there was."""
    some_queue = f"max({allocation(name, database, prefix)})"
    known = f"{capacity(name, database, prefix)} and on () {some_queue}"
    return _decayed(known, database, now_s)


def window_sum(expression: str, length_s: float, resolution_s: float) -> str:
    """The samples of an expression over the window that ends when it is asked, added up."""
    return f"sum_over_time(({expression})[{_duration(length_s)}:{_duration(resolution_s)}])"


def _of_nodes(name: str) -> str:
    if name != "gpu":
        return _nodes(f'resource="{name}"')
    whole = _nodes('resource=~".+_gpu"')
    slices = [f"{n} * " + _nodes(f'resource=~"nvidia_com_mig_{n}g_.+"') for n in _MIG_SLICES]
    return "(" + " + ".join(f"({part} or vector(0))" for part in (whole, *slices)) + " > 0)"


def _nodes(matching: str) -> str:
    return f"sum(max by (node, resource) (kube_node_status_capacity{{{matching}}}))"


def _decayed(expression: str, database: UsageDatabase, now_s: float) -> str:
    half_life_s = database.window.half_life_s
    if half_life_s is None:
        return expression
    return f"({expression}) * 0.5 ^ (({now_s:.3f} - time()) / {half_life_s:.3f})"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
