"""A text of YAML documents -> what becomes of each of them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import yaml

from muster.api import kinds
from muster.api.codec import Unreadable, from_builtins
from muster.api.kinds import Kind
from muster.api.yaml_text import read_yaml
from muster.cli.conversion.conf import converted_conf, is_conf
from muster.cli.conversion.converted import CannotConvert, Converted, Note
from muster.cli.conversion.jobs import converted_cron_job, converted_job
from muster.cli.conversion.objects import converted_group, converted_queue
from muster.cli.conversion.workloads import converted_budget, converted_workload

_KINDS: Final[tuple[tuple[Kind[Any], Callable[[Any], Converted]], ...]] = (
    (kinds.VOLCANO_QUEUE, converted_queue),
    (kinds.KUBE_BATCH_QUEUE, converted_queue),
    (kinds.VOLCANO_POD_GROUP, converted_group),
    (kinds.KUBE_BATCH_POD_GROUP, converted_group),
    (kinds.VOLCANO_JOB, converted_job),
    (kinds.VOLCANO_CRON_JOB, converted_cron_job),
)
_BY_GROUP: Final = {(kind.group, kind.kind): (kind, convert) for kind, convert in _KINDS} | {
    ("scheduling.sigs.dev", "Queue"): (kinds.KUBE_BATCH_QUEUE, converted_queue),
    ("scheduling.sigs.dev", "PodGroup"): (kinds.KUBE_BATCH_POD_GROUP, converted_group),
}
"""kube-batch's last release had the same objects under a second group too."""
_LEFT_OUT: Final = {
    "JobFlow": "no counterpart: a workflow engine makes jobs one after another",
    "JobTemplate": "no counterpart: a workflow engine makes jobs from templates",
    "Command": "no counterpart: a Job is suspended by its field spec.suspend",
    "HyperNode": "no counterpart: label the nodes, and name these in a Topology (kai.scheduler)",
    "Numatopology": "no counterpart: NodeResourceTopology says the same",
    "NodeShard": "no counterpart: divide the nodes among SchedulingShards",
    "ColocationConfiguration": "no counterpart: muster has no agent on nodes",
    "HyperJob": "no counterpart: one muster serves one cluster",
    "DataSource": "no counterpart: one muster serves one cluster",
    "DataSourceClaim": "no counterpart: one muster serves one cluster",
}
"""Other kinds of Volcano's groups: a native cluster does not know them."""


def converted(text: str, source: str) -> Iterator[Converted]:
    """Of every document of a text; raises `CannotConvert`."""
    for document in _documents(text, source):
        if not isinstance(document, Mapping):
            raise CannotConvert(f"{source}: a document is no map; write objects, or a conf")
        yield from _converted(document, source)


def rendered(one: Converted) -> str:
    """Native YAML, with notes as comments before it."""
    lines = [f"# {one.source}", *(f"#   {note}" for note in one.notes)]
    texts = [yaml.safe_dump(body, sort_keys=False, width=100) for body in one.objects]
    return "\n".join(lines) + "\n" + "---\n".join(texts)


def _documents(text: str, source: str) -> Iterator[Any]:
    found: list[list[str]] = [[]]
    for line in text.splitlines(keepends=True):
        if line.rstrip() == "---":
            found.append([])
        else:
            found[-1].append(line)
    for part in found:
        try:
            document = read_yaml("".join(part))
        except (yaml.YAMLError, ValueError) as error:
            raise CannotConvert(f"{source}: it is no YAML: {error}") from None
        if document is not None:
            yield document


def _converted(document: Mapping[str, Any], source: str) -> Iterator[Converted]:
    if is_conf(document):
        yield converted_conf(document, f"conf {source}")
        return
    kind, version = str(document.get("kind") or ""), str(document.get("apiVersion") or "")
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            if isinstance(item, Mapping):
                yield from _converted(item, source)
        return
    if kind == "ConfigMap":
        yield from _config_map(document, source)
        return
    if kind == "PodDisruptionBudget" and (made := converted_budget(document, source)) is not None:
        yield made
        return
    row = _BY_GROUP.get((version.partition("/")[0], kind))
    if row is None and version.partition("/")[0].endswith(".volcano.sh"):
        why = _LEFT_OUT.get(kind, "no counterpart")
        yield Converted(f"{kind} {_name(document)}".strip(), (), (Note(kind, why),))
        return
    if row is None:
        workload = converted_workload(document, source)
        yield workload or Converted(
            f"{kind or 'document'} in {source}", (dict(document),), _kept(kind)
        )
        return
    try:
        yield row[1](from_builtins(row[0].struct, document))
    except Unreadable as error:
        raise CannotConvert(f"{source}: {kind}: {error}") from None


def _name(document: Mapping[str, Any]) -> str:
    meta = document.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, Mapping) else ""


def _config_map(document: Mapping[str, Any], source: str) -> Iterator[Converted]:
    """A conf may be a text in a config map, or (kube-batch's first) the data itself."""
    data = document.get("data")
    data = data if isinstance(data, Mapping) else {}
    if is_conf(data):
        yield converted_conf(data, f"ConfigMap in {source}")
        return
    for name, text in data.items():
        inner = next(_documents(text, source), None) if isinstance(text, str) else None
        if isinstance(inner, Mapping) and is_conf(inner):
            yield converted_conf(inner, f"{name} in {source}")
            return
    yield Converted(f"ConfigMap in {source}", (dict(document),), _kept("ConfigMap"))


def _kept(kind: str) -> tuple[Note, ...]:
    return (Note(kind or "document", "left as it is: no kind of Volcano or kube-batch"),)
