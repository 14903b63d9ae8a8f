"""What every Kubernetes object has: its key, metadata, owners, conditions.

Structs hold only the fields that we read. They are frozen; lists are tuples and maps are read-only
by type, so that one decoded object may be shared by everything that looks at it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    dataclass_transform,
)

import msgspec
import msgspec.structs

from muster.api.schema import INT64, QUALIFIED_NAME, Schema


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _StructMeta(msgspec.StructMeta):
    """Makes every struct keyword-only, which msgspec would ask of each class anew."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_StructMeta":
        options.setdefault("kw_only", True)
        return super().__new__(cls, name, bases, namespace, **options)


# A type checker that sees msgspec.Struct applies its rules (nothing frozen, nothing keyword-only)
# instead of those above.
if TYPE_CHECKING:

    class _StructBase(metaclass=_StructMeta): ...

else:

    class _StructBase(msgspec.Struct, metaclass=_StructMeta, frozen=True): ...


class Struct(_StructBase, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The base of every API struct: camelCase on the wire, defaults and unknown fields left out."""


StructT = TypeVar("StructT", bound=Struct)


if TYPE_CHECKING:

    def replace(struct: StructT, **changes: Any) -> StructT:
        """A copy with some fields changed."""

else:
    # Without a call in between: it is made several times for every pod that is read.
    replace = msgspec.structs.replace


Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment; one without a time zone is refused, because it could not be compared with others."""


class Key(NamedTuple):
    """Names one object of a kind; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Struct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def age_order(self) -> tuple[float, str]:
        """Sorts the oldest first, and those of one second by name.

        By timestamps of one host, the API server: they can be compared with each other.
        """
        created = self.creation_timestamp
        return (created.timestamp() if created else 0.0, str(self.key))

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if it has one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ApiObject(Struct):
    """What the API server keeps: every kind has metadata."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        return self.metadata.key


class PartialObject(ApiObject):
    """An object of which nothing but the metadata matters."""


class Condition(Struct):
    """A condition as Kubernetes standardised it."""

    type: Annotated[str, QUALIFIED_NAME, Schema("What the condition is about.")]
    status: Annotated[Literal["True", "False", "Unknown"], Schema("Whether it holds.")]
    reason: Annotated[
        str,
        Schema(
            "One word for machines: why the status is what it is.",
            minLength=1,
            maxLength=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ]
    message: Annotated[str, Schema("The same for people.", maxLength=32768)]
    last_transition_time: Annotated[Time, Schema("When the status last changed.")]
    observed_generation: Annotated[
        int, INT64, Schema("The generation of the spec that this speaks of.", minimum=0)
    ] = 0
