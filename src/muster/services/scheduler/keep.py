"""What the scheduler remembers of a pod: all that it reads, and nothing twice.

A cluster of 140,000 pods is told in a gigabyte of JSON, most of it environment variables and mounts
that no decision looks at, and the same templates over and over. Of a pod as it comes (`SentPod`)
the parts that a template decides are left as text; equal texts are read once, what no decision
looks at is dropped, and the rest is shared between the pods that have it in common.
"""

import dataclasses
import re
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from muster.api.codec import Unreadable, decode, encode
from muster.api.core import (
    Container,
    EnvVar,
    EnvVarSource,
    Pod,
    PodSpec,
    ResourceRequirements,
    Volume,
)
from muster.api.kinds import POD, Kind
from muster.api.meta import ObjectMeta, replace

V = TypeVar("V", bound=Hashable)

# A copy of the whole manifest, often larger than the pod: nobody here reads it.
_NOT_READ: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MEMO_SIZE_MAX: Final = 200_000
_TEXTS_BYTES_MAX: Final = 32 << 20

# The token's volume has a name of its own in every pod; but for it, pods of a template are equal.
_TOKEN_VOLUME: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
_TOKEN_VOLUME_PREFIX: Final = b'"kube-api-access-'
_ANY_TOKEN_VOLUME: Final = b'"kube-api-access"'
_UNSEEN: Final = object()


# Each is left as text where it is said, and otherwise what it is in any pod.
class _SentMeta(ObjectMeta):
    labels: msgspec.Raw = {}  # type: ignore[assignment]
    annotations: msgspec.Raw = {}  # type: ignore[assignment]


class _SentSpec(PodSpec):
    containers: msgspec.Raw = ()  # type: ignore[assignment]
    init_containers: msgspec.Raw = ()  # type: ignore[assignment]
    volumes: msgspec.Raw = ()  # type: ignore[assignment]
    tolerations: msgspec.Raw = ()  # type: ignore[assignment]
    affinity: msgspec.Raw = None  # type: ignore[assignment]
    node_selector: msgspec.Raw = {}  # type: ignore[assignment]


class SentPod(Pod):
    """A pod as it comes: only a `PodKeeper` makes one of it that can be looked at."""

    metadata: _SentMeta = _SentMeta()
    spec: _SentSpec = _SentSpec()


SENT_POD: Final[Kind[Pod]] = dataclasses.replace(POD, struct=SentPod)
"""Pods for an informer that keeps them with a `PodKeeper`."""


class _Parts(NamedTuple):
    """What can only be dropped together: a mount matters if its volume does."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]


class PodKeeper:
    """Makes small pods of large ones: `keep` for an informer of `SENT_POD`."""

    def __init__(self) -> None:
        self._memo: dict[Hashable, object] = {}
        self._texts: dict[Hashable, object] = {}
        self.remembered_bytes = 0

    def __call__(self, pod: Pod) -> Pod:
        sent = pod if isinstance(pod, SentPod) else decode(SentPod, encode(POD, pod))
        if len(self._memo) > _MEMO_SIZE_MAX:
            self._memo.clear()
        return replace(sent, metadata=self._metadata(sent.metadata), spec=self._spec(sent.spec))

    def _metadata(self, sent: _SentMeta) -> ObjectMeta:
        return replace(
            sent,
            namespace=self._one(sent.namespace),
            labels=self._shared("metadata.labels", sent.labels),
            annotations=self._shared("metadata.annotations", sent.annotations),
        )

    def _spec(self, sent: _SentSpec) -> PodSpec:
        parts = self._parts(sent)
        return replace(
            sent,
            node_name=self._one(sent.node_name),
            scheduler_name=self._one(sent.scheduler_name),
            priority_class_name=self._one(sent.priority_class_name),
            containers=parts.containers,
            init_containers=parts.init_containers,
            volumes=parts.volumes,
            tolerations=self._shared("spec.tolerations", sent.tolerations),
            affinity=self._shared("spec.affinity", sent.affinity),
            node_selector=self._shared("spec.nodeSelector", sent.node_selector),
        )

    # -- texts ---------------------------------------------------------------------------

    def _shared(self, part: str, raw: object) -> Any:
        """What the text of a part says. Equal texts are read once."""
        if not isinstance(raw, msgspec.Raw):
            return raw
        text = bytes(raw)
        found = self._texts.get((part, text), _UNSEEN)
        if found is _UNSEEN:
            found = self._same(part, _read(part, text))
            self._remember((part, text), found, len(text))
        return found

    def _parts(self, sent: _SentSpec) -> _Parts:
        texts = (_text(sent.containers), _text(sent.init_containers), _text(sent.volumes))
        if _TOKEN_VOLUME_PREFIX in texts[2] and b'"ephemeral"' not in texts[2]:
            # (An ephemeral volume's name is that of its claim: there it matters.)
            containers, inits, volumes = (
                _TOKEN_VOLUME.sub(_ANY_TOKEN_VOLUME, text) for text in texts
            )
            texts = (containers, inits, volumes)
        found = self._texts.get(texts)
        if found is None:
            found = self._read_parts(*texts)
            self._remember(texts, found, sum(map(len, texts)))
        return cast("_Parts", found)

    def _read_parts(self, containers: bytes, init_containers: bytes, volumes: bytes) -> _Parts:
        read = [one for one in _read("spec.volumes", volumes) if _is_read(one, _SILENT_VOLUMES)]
        mounted = {volume.name for volume in read}
        return _Parts(
            self._containers(_read("spec.containers", containers), mounted),
            self._containers(_read("spec.initContainers", init_containers), mounted),
            self._one(tuple([self._one(volume) for volume in read])),
        )

    def _remember(self, text: Hashable, found: object, size: int) -> None:
        self.remembered_bytes += size
        if self.remembered_bytes > _TEXTS_BYTES_MAX:
            self._texts.clear()
            self.remembered_bytes = size
        self._texts[text] = found

    # -- values --------------------------------------------------------------------------

    def _same(self, part: str, value: Any) -> Any:
        if part == "metadata.annotations":
            return {key: note for key, note in value.items() if key != _NOT_READ}
        return self._strings(value) if isinstance(value, dict) else self._one(value)

    def _containers(
        self, containers: tuple[Container, ...], mounted: set[str]
    ) -> tuple[Container, ...]:
        return tuple([self._container(container, mounted) for container in containers])

    def _container(self, container: Container, mounted: set[str]) -> Container:
        resources = self._resources(container.resources)
        kept = replace(
            container,
            resources=None,  # it cannot be looked up by
            env=tuple([one for one in container.env if _is_read(one, _SILENT_VARIABLES)]),
            volume_mounts=tuple([one for one in container.volume_mounts if one.name in mounted]),
        )
        # The resources are known by identity: the memo keeps them alive, so it stays theirs.
        same = ("container", id(resources), kept)
        found = self._memo.get(same)
        if found is None:
            found = self._memo[same] = replace(kept, resources=resources)
        assert isinstance(found, Container)
        return found

    def _resources(self, resources: ResourceRequirements) -> ResourceRequirements:
        parts = msgspec.structs.astuple(cast("Any", resources))
        same = ("resources", *(tuple(p.items()) if isinstance(p, dict) else p for p in parts))
        found = self._memo.setdefault(same, resources)
        assert isinstance(found, ResourceRequirements)
        return found

    def _strings(self, strings: Mapping[str, str]) -> Mapping[str, str]:
        return {self._one(key): self._one(value) for key, value in strings.items()}

    def _one(self, value: V) -> V:
        """The value itself, or an equal one that is there already."""
        try:
            return cast("V", self._memo.setdefault(value, value))
        except TypeError:  # a mapping inside, which cannot be looked up
            return value


# Of the many sources of volumes and variables our structs have those that decisions read.
_SILENT_VOLUMES: Final = (Volume(),)
_SILENT_VARIABLES: Final = (EnvVar(), EnvVar(value_from=EnvVarSource()))


def _is_read(one: Volume | EnvVar, silent: tuple[Volume | EnvVar, ...]) -> bool:
    """Whether a decision may depend on it; an empty folder, say, is always to be had."""
    return replace(one, name="") not in silent


_TYPES: Final = {
    f"{section}.{field.encode_name}": (field.type, getattr(struct(), field.name))
    for section, struct in (("metadata", ObjectMeta), ("spec", PodSpec))
    for field in msgspec.structs.fields(cast("type[msgspec.Struct]", struct))
}
"""Of each part, the type and what it is when it is not there."""


def _text(raw: object) -> bytes:
    return bytes(raw) if isinstance(raw, msgspec.Raw) else b"null"


def _read(part: str, text: bytes) -> Any:
    """What the text says, as the whole pod would have been read."""
    wanted, default = _TYPES[part]
    if text == b"null":
        return default
    try:
        return decode(wanted, text)
    except Unreadable as error:
        raise Unreadable(f"$.{part}{error.path[1:]}", error.reason) from None
