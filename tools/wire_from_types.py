"""Write the table of protobuf field numbers, `src/muster/sim/apiserver/wire.txt`, from Go types.

Kubernetes' clients may send built-in objects as protobuf; the numbers of the fields are the struct
tags of its Go types. Run it when the Kubernetes version that we follow changes:

    python -m tools.wire_from_types MODULES > src/muster/sim/apiserver/wire.txt

where MODULES holds the unpacked Go modules `k8s.io/api@V`, `k8s.io/apimachinery@V` and
`k8s.io/apiextensions-apiserver@V`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_GROUPS = (
    "admissionregistration apps authentication authorization autoscaling batch coordination core "
    "discovery events networking node policy rbac resource scheduling storage"
)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(
    r"^\t(?:(\w+)\s+)?(\*?)([\w.\[\]*]+)\s+`json:\"([^\"]*)\"[^`]*protobuf:\"\w+,(\d+)", re.M
)


def main() -> None:
    print("# Written by tools/wire_from_types.py; the grammar is in wire.py.")
    for prefix, folder in packages(Path(sys.argv[1])):
        for source in sorted(folder.glob("types*.go")) + sorted(folder.glob("*_types.go")):
            for name, body in _STRUCT.findall(source.read_text()):
                print_struct(prefix, name, body)


def unset_times(modules: Path) -> set[tuple[str, str]]:
    """(type, field) of times that are no pointers: Go writes them as null when they are unset."""
    found = set()
    for prefix, folder in packages(modules):
        for source in [*folder.glob("types*.go"), *folder.glob("*_types.go")]:
            for name, body in _STRUCT.findall(source.read_text()):
                for _, pointer, kind, json, _ in _FIELD.findall(body):
                    is_time = kind.removeprefix("metav1.") in ("Time", "MicroTime")
                    if is_time and not pointer and "omitzero" not in json:
                        found.add((prefix + name, json.split(",")[0]))
    return found


def packages(modules: Path) -> Iterator[tuple[str, Path]]:
    api = next(modules.glob("api@*"))
    for group in _GROUPS.split():
        yield f"io.k8s.api.{group}.v1.", api / group / "v1"
    machinery = next(modules.glob("apimachinery@*"))
    yield "io.k8s.apimachinery.pkg.apis.meta.v1.", machinery / "pkg/apis/meta/v1"
    extensions = next(modules.glob("apiextensions-apiserver@*"))
    yield (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
        extensions / "pkg/apis/apiextensions/v1",
    )


def print_struct(prefix: str, name: str, body: str) -> None:
    fields = _FIELD.findall(body)
    if not fields or name.endswith("List"):
        return
    print(prefix + name)
    for _, pointer, kind, json, number in fields:
        field, *options = json.split(",")
        if "inline" in options:
            print(f"  {number} +{inlined(prefix, kind)}")
        else:
            print(f"  {number}{pointer} {field}")


def inlined(prefix: str, kind: str) -> str:
    package, _, name = kind.rpartition(".")
    if package == "v1":
        return "io.k8s.api.core.v1." + name
    return prefix + name


if __name__ == "__main__":
    main()
