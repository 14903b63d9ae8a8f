"""Vertical autoscaling of the product's own services, as the install-wide Config carries it."""

from typing import Annotated, Literal

from muster.api.core import ResourceList
from muster.api.meta import Struct
from muster.api.schema import INT32, Schema


class ContainerResourcePolicy(Struct):
    container_name: Annotated[str, Schema("A container, or * for all.")] = ""
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: Literal["RequestsAndLimits", "RequestsOnly"] | None = None
    max_allowed: ResourceList = {}
    min_allowed: ResourceList = {}
    mode: Literal["Auto", "Off"] | None = None


class ResourcePolicy(Struct):
    container_policies: tuple[ContainerResourcePolicy, ...] = ()


class EvictionRequirement(Struct):
    change_requirement: Literal["TargetHigherThanRequests", "TargetLowerThanRequests"]
    resources: tuple[str, ...]


class UpdatePolicy(Struct):
    eviction_requirements: tuple[EvictionRequirement, ...] = ()
    min_replicas: Annotated[int | None, INT32] = None
    update_mode: Literal["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"] | None = None


class VPA(Struct):
    """A vertical autoscaler for the service's pods."""

    enabled: Annotated[bool | None, Schema("Whether an autoscaler is created (false).")] = None
    resource_policy: ResourcePolicy | None = None
    update_policy: Annotated[UpdatePolicy | None, Schema("When it acts (InPlaceOrRecreate).")] = (
        None
    )
