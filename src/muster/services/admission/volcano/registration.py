"""Which reviews of Volcano's kinds go where, under the paths that Volcano's webhooks have."""

from typing import Final

MUTATE_JOB: Final = "/jobs/mutate"
VALIDATE_JOB: Final = "/jobs/validate"
VALIDATE_CRON_JOB: Final = "/cronjobs/validate"
VALIDATE_JOB_FLOW: Final = "/jobflows/validate"
MUTATE_GROUP: Final = "/podgroups/mutate"
VALIDATE_GROUP: Final = "/podgroups/validate"
MUTATE_QUEUE: Final = "/queues/mutate"
VALIDATE_QUEUE: Final = "/queues/validate"
VALIDATE_POD: Final = "/pods/validate"

_WRITES: Final = ("CREATE", "UPDATE")
_BATCH: Final = ("batch.volcano.sh", "v1alpha1")
_SCHEDULING: Final = ("scheduling.volcano.sh", "v1beta1")
MUTATING: Final = (
    (MUTATE_JOB, *_BATCH, "jobs", ("CREATE",), "Namespaced"),
    (MUTATE_GROUP, *_SCHEDULING, "podgroups", ("CREATE",), "Namespaced"),
    (MUTATE_QUEUE, *_SCHEDULING, "queues", ("CREATE",), "Cluster"),
)
"""Path, group, version, resource, operations, scope."""
VALIDATING: Final = (
    (VALIDATE_JOB, *_BATCH, "jobs", _WRITES, "Namespaced"),
    (VALIDATE_CRON_JOB, *_BATCH, "cronjobs", _WRITES, "Namespaced"),
    (VALIDATE_JOB_FLOW, "flow.volcano.sh", "v1alpha1", "jobflows", _WRITES, "Namespaced"),
    (VALIDATE_GROUP, *_SCHEDULING, "podgroups", _WRITES, "Namespaced"),
    (VALIDATE_QUEUE, *_SCHEDULING, "queues", (*_WRITES, "DELETE"), "Cluster"),
    (VALIDATE_POD, "", "v1", "pods", ("CREATE",), "Namespaced"),
)
