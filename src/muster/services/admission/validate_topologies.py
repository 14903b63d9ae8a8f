"""Aliases of a topology's levels: each its own, and none of them a label."""

from muster.api.topology import Topology
from muster.api.validation.topologies import alias_problems
from muster.services.admission.judgement import judged, read
from muster.services.admission.review import ALLOWED, Answer, Review


def validate_topology(review: Review) -> Answer:
    """Only what the schema leaves open; the rest was checked before the webhook was asked."""
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    topology = read(Topology, review.thing)
    return topology if isinstance(topology, Answer) else judged(alias_problems(topology))
