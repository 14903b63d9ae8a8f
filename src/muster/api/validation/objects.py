"""The problems of any object of ours, by its type."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.api.codec import builtins
from muster.api.config import Config
from muster.api.meta import Struct
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.shard import SchedulingShard
from muster.api.topology import Topology
from muster.api.validation.configs import config_problems
from muster.api.validation.no_effect import NO_EFFECT, no_effect
from muster.api.validation.pod_groups import pod_group_problems
from muster.api.validation.problems import Problems
from muster.api.validation.queues import queue_problems
from muster.api.validation.shards import shard_problems
from muster.api.validation.topologies import topology_problems

_CHECKS: Final[Mapping[type[Struct], Callable[[Any], Problems]]] = {
    PodGroup: pod_group_problems,
    Queue: queue_problems,
    Topology: topology_problems,
    SchedulingShard: shard_problems,
    Config: config_problems,
}


def problems(obj: Struct) -> Problems:
    """What is wrong with the object by itself; nothing for kinds that are not ours."""
    check = _CHECKS.get(type(obj))
    if check is not None:
        yield from check(obj)
    if type(obj).__name__ in NO_EFFECT:
        yield from no_effect(type(obj).__name__, builtins(obj))
