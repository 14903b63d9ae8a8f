"""`numa-aware`: the same as KAI's `numa`, with Volcano's argument.

Zones are those of NodeResourceTopology, which the topology updater of Node Feature Discovery
writes; Volcano's own Numatopology is not read.
"""

from muster.engine.config.reader import Reader
from muster.engine.plugins.numa.plugin import Numa


class NumaAware(Numa):
    """Volcano's `numa-aware`."""

    name = "numa-aware"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("weight",))
        weight = arguments.key("weight").integer(1)
        super().__init__(Reader(None, arguments.file), weight=max(weight, 0))
