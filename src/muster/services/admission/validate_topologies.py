"""Aliases of a topology's levels: each its own, and none of them a label."""

from muster.api.topology import Topology
from muster.api.validation.topologies import alias_problems
from muster.services.admission.decode import answer_of, decode_object
from muster.services.admission.review import ALLOWED, AdmissionResponse, Review


def validate_topology(review: Review) -> AdmissionResponse:
    """Only what the schema leaves open; the rest was checked before the webhook was asked."""
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    topology = decode_object(Topology, review.thing)
    return (
        topology if isinstance(topology, AdmissionResponse) else answer_of(alias_problems(topology))
    )
