"""All targets. What is cheap to feed is drawn more often; everything has its part."""

from typing import Final

from tools.fuzz import (
    batch_targets,
    beside_targets,
    conf_targets,
    grouper_targets,
    scheduler_targets,
    service_targets,
)
from tools.fuzz.feeding import Target

TARGETS: Final[tuple[Target, ...]] = (
    *scheduler_targets.TARGETS,
    *service_targets.TARGETS,
    *grouper_targets.TARGETS,
    *conf_targets.TARGETS,
    *batch_targets.TARGETS,
    *beside_targets.TARGETS,
)
