"""Kinds by which parts of a cluster speak to each other: leases, events, disruption budgets."""

from collections.abc import Mapping
from datetime import UTC, datetime

from muster.api.meta import ApiObject, Struct, Time
from muster.api.selectors import LabelSelector


class LeaseSpec(Struct):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None


class Lease(ApiObject):
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Struct):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Struct):
    component: str = ""
    host: str = ""


class Event(ApiObject):
    """A core/v1 event."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    count: int = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    reporting_component: str = ""


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, Time] = {}
    observed_generation: int = 0


class PodDisruptionBudget(ApiObject):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


def micro_time(at: datetime) -> str:
    """A timestamp for the fields of a Lease, which demand all six digits of the microseconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
