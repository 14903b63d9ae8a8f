"""What the scheduler holds of a pod: all that it reads, with equal parts shared.

A cluster of 140,000 pods is a gigabyte of JSON, most of it environment variables and mounts
that no decision looks at, and the same templates over and over. Of a pod as it comes (`RawPod`)
the parts that a template decides are left as text; equal texts are read once, what no decision
looks at is dropped, and the rest is shared between the pods that have it in common.
"""

import dataclasses
import re
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast, get_args

import msgspec

from muster.api.codec import Unreadable, decode, encode
from muster.api.core import (
    Container,
    EnvVar,
    EnvVarSource,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Volume,
)
from muster.api.kinds import POD, Kind
from muster.api.meta import ObjectMeta, Struct, replace

V = TypeVar("V", bound=Hashable)

# A copy of the whole manifest, often larger than the pod: nobody here reads it.
_IGNORED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_INTERNED_MAX: Final = 200_000
_DECODED_BYTES_MAX: Final = 32 << 20

# The token's volume has a name of its own in every pod; but for it, pods of a template are equal.
_TOKEN_VOLUME: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
_TOKEN_VOLUME_PREFIX: Final = b'"kube-api-access-'
_ANY_TOKEN_VOLUME: Final = b'"kube-api-access"'
_UNSEEN: Final = object()
# Each pod that is read has empty mappings of its own where it says nothing.
_NOTHING: Final[Mapping[type, object]] = {dict: {}}
_NO_OVERHEAD: Final[Mapping[str, Any]] = {}


# Each is left as text where it is said, and otherwise what it is in any pod.
class _RawMeta(ObjectMeta):
    labels: msgspec.Raw = {}  # type: ignore[assignment]
    annotations: msgspec.Raw = {}  # type: ignore[assignment]


class _RawSpec(PodSpec):
    containers: msgspec.Raw = ()  # type: ignore[assignment]
    init_containers: msgspec.Raw = ()  # type: ignore[assignment]
    volumes: msgspec.Raw = ()  # type: ignore[assignment]
    tolerations: msgspec.Raw = ()  # type: ignore[assignment]
    affinity: msgspec.Raw = None  # type: ignore[assignment]
    node_selector: msgspec.Raw = {}  # type: ignore[assignment]


class RawPod(Pod):
    """A pod as it comes: only a `PodInterner` makes one of it that can be looked at."""

    metadata: _RawMeta = _RawMeta()
    spec: _RawSpec = _RawSpec()


RAW_POD: Final[Kind[Pod]] = dataclasses.replace(POD, struct=RawPod)
"""Pods for an informer with a `PodInterner` as its transform."""


class _TemplateParts(NamedTuple):
    """What can only be dropped together: a mount matters if its volume does."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]


class PodInterner:
    """Makes small pods of large ones: `transform` for an informer of `RAW_POD`."""

    def __init__(self, keeps_images: bool = False) -> None:
        self._keeps_images = keeps_images
        self._interned_values: dict[Hashable, object] = {}
        self._decoded: dict[Hashable, object] = {}
        self.decoded_bytes = 0

    def __call__(self, pod: Pod) -> Pod:
        raw = pod if isinstance(pod, RawPod) else decode(RawPod, encode(POD, pod))
        if len(self._interned_values) > _INTERNED_MAX:
            self._interned_values.clear()
        return replace(
            raw,
            metadata=self._metadata(raw.metadata),
            spec=self._spec(raw.spec),
            status=self._status(raw.status),
        )

    def _metadata(self, raw: _RawMeta) -> ObjectMeta:
        return replace(
            raw,
            namespace=self._intern(raw.namespace),
            labels=self._decode_shared("metadata.labels", raw.labels),
            annotations=self._decode_shared("metadata.annotations", raw.annotations),
            owner_references=self._intern(raw.owner_references),
            finalizers=self._intern(raw.finalizers),
        )

    def _spec(self, raw: _RawSpec) -> PodSpec:
        parts = self._template_parts(raw)
        return replace(
            raw,
            **{name: self._intern(one) for name in _SMALL_PARTS if (one := getattr(raw, name))},
            node_name=self._intern(raw.node_name),
            scheduler_name=self._intern(raw.scheduler_name),
            priority_class_name=self._intern(raw.priority_class_name),
            preemption_policy=self._intern(raw.preemption_policy),
            restart_policy=self._intern(raw.restart_policy),
            service_account_name=self._intern(raw.service_account_name),
            containers=parts.containers,
            init_containers=parts.init_containers,
            volumes=parts.volumes,
            tolerations=self._decode_shared("spec.tolerations", raw.tolerations),
            affinity=self._decode_shared("spec.affinity", raw.affinity),
            node_selector=self._decode_shared("spec.nodeSelector", raw.node_selector),
            overhead=raw.overhead or _NO_OVERHEAD,
        )

    def _status(self, raw: PodStatus) -> PodStatus:
        """The few words that every pod's status is made of, once for all pods."""
        conditions = [
            replace(
                one,
                type=self._intern(one.type),
                status=self._intern(one.status),
                reason=self._intern(one.reason),
            )
            for one in raw.conditions
        ]
        return replace(
            raw,
            phase=self._intern(raw.phase),
            qos_class=self._intern(raw.qos_class),
            nominated_node_name=self._intern(raw.nominated_node_name),
            conditions=tuple(conditions),
        )

    # -- texts ---------------------------------------------------------------------------

    def _decode_shared(self, part: str, raw: object) -> Any:
        """What the text of a part says. Equal texts are read once."""
        if not isinstance(raw, msgspec.Raw):
            return raw or _NOTHING.get(type(raw), raw)
        text = bytes(raw)
        found = self._decoded.get((part, text), _UNSEEN)
        if found is _UNSEEN:
            found = self._interned(part, _decode_part(part, text))
            self._cache_decoded((part, text), found, len(text))
        return found

    def _template_parts(self, raw: _RawSpec) -> _TemplateParts:
        texts = (_text(raw.containers), _text(raw.init_containers), _text(raw.volumes))
        if _TOKEN_VOLUME_PREFIX in texts[2] and b'"ephemeral"' not in texts[2]:
            # (An ephemeral volume's name is that of its claim: there it matters.)
            containers, inits, volumes = (
                _TOKEN_VOLUME.sub(_ANY_TOKEN_VOLUME, text) for text in texts
            )
            texts = (containers, inits, volumes)
        found = self._decoded.get(texts)
        if found is None:
            found = self._decode_parts(*texts)
            self._cache_decoded(texts, found, sum(map(len, texts)))
        return cast("_TemplateParts", found)

    def _decode_parts(
        self, containers: bytes, init_containers: bytes, volumes: bytes
    ) -> _TemplateParts:
        volumes_read = _decode_part("spec.volumes", volumes)
        read = [one for one in volumes_read if _is_relevant(one, _IRRELEVANT_VOLUMES)]
        mounted = {volume.name for volume in read}
        return _TemplateParts(
            self._intern_containers(_decode_part("spec.containers", containers), mounted),
            self._intern_containers(_decode_part("spec.initContainers", init_containers), mounted),
            self._intern(tuple([self._intern(volume) for volume in read])),
        )

    def _cache_decoded(self, text: Hashable, found: object, size: int) -> None:
        self.decoded_bytes += size
        if self.decoded_bytes > _DECODED_BYTES_MAX:
            self._decoded.clear()
            self.decoded_bytes = size
        self._decoded[text] = found

    # -- values --------------------------------------------------------------------------

    def _interned(self, part: str, value: Any) -> Any:
        if part == "metadata.annotations":
            return {key: note for key, note in value.items() if key != _IGNORED_ANNOTATION}
        return self._intern_strings(value) if isinstance(value, dict) else self._intern(value)

    def _intern_containers(
        self, containers: tuple[Container, ...], mounted: set[str]
    ) -> tuple[Container, ...]:
        return tuple([self._intern_container(container, mounted) for container in containers])

    def _intern_container(self, container: Container, mounted: set[str]) -> Container:
        resources = self._intern_resources(container.resources)
        relevant = replace(
            container,
            resources=None,  # it cannot be looked up by
            image=self._intern(container.image) if self._keeps_images else "",
            env=tuple([one for one in container.env if _is_relevant(one, _IRRELEVANT_VARIABLES)]),
            volume_mounts=tuple([one for one in container.volume_mounts if one.name in mounted]),
        )
        # The resources are known by identity: the memo keeps them alive, so it stays theirs.
        same = ("container", id(resources), relevant)
        found = self._interned_values.get(same)
        if found is None:
            found = self._interned_values[same] = replace(relevant, resources=resources)
        assert isinstance(found, Container)
        return found

    def _intern_resources(self, resources: ResourceRequirements) -> ResourceRequirements:
        parts = msgspec.structs.astuple(cast("Any", resources))
        same = ("resources", *(tuple(p.items()) if isinstance(p, dict) else p for p in parts))
        found = self._interned_values.setdefault(same, resources)
        assert isinstance(found, ResourceRequirements)
        return found

    def _intern_strings(self, strings: Mapping[str, str]) -> Mapping[str, str]:
        return {self._intern(key): self._intern(value) for key, value in strings.items()}

    def _intern(self, value: V) -> V:
        """The value itself, or an equal one that is there already."""
        try:
            return cast("V", self._interned_values.setdefault(value, value))
        except TypeError:  # a mapping inside, which cannot be looked up
            return value


# Of the many sources of volumes and variables our structs have those that decisions read.
_IRRELEVANT_VOLUMES: Final = (Volume(),)
_IRRELEVANT_VARIABLES: Final = (EnvVar(), EnvVar(value_from=EnvVarSource()))


def _is_relevant(one: Volume | EnvVar, irrelevant: tuple[Volume | EnvVar, ...]) -> bool:
    """Whether a decision may depend on it; an empty folder, say, is always to be had."""
    return replace(one, name="") not in irrelevant


_TYPES: Final = {
    f"{section}.{field.encode_name}": (field.type, getattr(struct(), field.name))
    for section, struct in (("metadata", ObjectMeta), ("spec", PodSpec))
    for field in msgspec.structs.fields(cast("type[msgspec.Struct]", struct))
}
"""Of each part, the type and what it is when it is not there."""
_SMALL_PARTS: Final = tuple(
    field.name
    for field in msgspec.structs.fields(cast("type[msgspec.Struct]", PodSpec))
    if field.name not in _RawSpec.__annotations__
    and any(isinstance(one, type(Struct)) for one in (field.type, *get_args(field.type)))
)
"""Structs that come decoded; most pods have none."""


def _text(raw: object) -> bytes:
    return bytes(raw) if isinstance(raw, msgspec.Raw) else b"null"


def _decode_part(part: str, text: bytes) -> Any:
    """What the text says, as the whole pod would have been read."""
    wanted, default = _TYPES[part]
    if text == b"null":
        return default
    try:
        return decode(wanted, text)
    except Unreadable as error:
        raise Unreadable(f"$.{part}{error.path[1:]}", error.reason) from None
