"""An OCI image layout from a folder: layers, configuration, manifest, index. Nothing is compressed
unless asked: whoever pushes it compresses anyway."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tools.image.settings import ENTRYPOINT, ENVIRONMENT, EPOCH_S, USER

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
Chosen = Callable[[PurePosixPath], bool]


@dataclass(frozen=True, slots=True)
class Labels:
    """What the image says about itself."""

    version: str
    architecture: str
    revision: str = ""

    def annotations(self) -> dict[str, str]:
        found = {
            "org.opencontainers.image.title": "muster",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.revision,
            "org.opencontainers.image.licenses": "Apache-2.0",
        }
        return {key: text for key, text in found.items() if text}


@dataclass(frozen=True, slots=True)
class _Blob:
    media_type: str
    digest: str
    size: int

    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def write_layout(
    folder: Path, root: Path, layers: Sequence[Chosen], labels: Labels, *, compresses: bool = False
) -> str:
    """Write the layout of `root`; a file is in the first layer that chooses it. The digest of the
    manifest is what the image can be pinned to."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    made = [_layer(blobs, root, chosen, compresses) for chosen in _apart(layers)]
    config = _put(blobs, _CONFIG, _config(labels, [diff for _, diff in made]))
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": config.descriptor(),
        "layers": [blob.descriptor() for blob, _ in made],
        "annotations": labels.annotations(),
    }
    pinned = _put(blobs, _MANIFEST, manifest)
    named = {"org.opencontainers.image.ref.name": labels.version}
    index = {"schemaVersion": 2, "manifests": [{**pinned.descriptor(), "annotations": named}]}
    (folder / "index.json").write_text(json.dumps(index, indent=2))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return pinned.digest


def unpack(folder: Path, into: Path) -> Mapping[str, Any]:
    """As a container engine would: the layers in order, every digest checked. The configuration."""
    index = json.loads((folder / "index.json").read_text())
    manifest = json.loads(_get(folder, index["manifests"][0]))
    config = json.loads(_get(folder, manifest["config"]))
    for layer, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        content = _get(folder, layer)
        if layer["mediaType"].endswith("+gzip"):
            content = gzip.decompress(content)
        assert _digest(content) == diff
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            # All of it, bits and links: that it is what was made, the digests have shown.
            archive.extractall(into, filter="fully_trusted")
    found: Mapping[str, Any] = config["config"]
    return found


def _apart(layers: Sequence[Chosen]) -> list[Chosen]:
    def only(number: int) -> Chosen:
        return lambda path: layers[number](path) and not any(one(path) for one in layers[:number])

    return [only(number) for number in range(len(layers))]


def _layer(blobs: Path, root: Path, chosen: Chosen, compresses: bool) -> tuple[_Blob, str]:
    """The blob, and the digest of what it is uncompressed."""
    content = _tar(root, chosen)
    diff = _digest(content)
    if not compresses:
        return _put(blobs, _LAYER, content), diff
    return _put(blobs, f"{_LAYER}+gzip", gzip.compress(content, 6, mtime=0)), diff


def _tar(root: Path, chosen: Chosen) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            inside = PurePosixPath("/") / path.relative_to(root)
            if chosen(inside):
                archive.add(path, str(inside)[1:], recursive=False, filter=_plain)
    return written.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Root's, and of no particular time: nobody who runs the image can change it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = EPOCH_S
    return member


def _config(labels: Labels, diffs: Sequence[str]) -> dict[str, Any]:
    made = datetime.fromtimestamp(EPOCH_S, UTC).isoformat().replace("+00:00", "Z")
    return {
        "created": made,
        "architecture": labels.architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={text}" for name, text in ENVIRONMENT.items()],
            "Entrypoint": list(ENTRYPOINT),
            "WorkingDir": "/",
            "Labels": labels.annotations(),
        },
        "rootfs": {"type": "layers", "diff_ids": list(diffs)},
    }


def _put(blobs: Path, media_type: str, content: bytes | dict[str, Any]) -> _Blob:
    raw = content if isinstance(content, bytes) else json.dumps(content, indent=2).encode()
    digest = _digest(raw)
    (blobs / digest.removeprefix("sha256:")).write_bytes(raw)
    return _Blob(media_type, digest, len(raw))


def _get(folder: Path, descriptor: Mapping[str, Any]) -> bytes:
    digest: str = descriptor["digest"]
    content = (folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()
    assert (_digest(content), len(content)) == (digest, descriptor["size"]), "a blob was changed"
    return content


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
