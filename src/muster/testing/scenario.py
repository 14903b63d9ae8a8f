"""Scenarios: a cluster, the actions to run and what must come of it, as a page of YAML.

    why: >
      Queue b is starved, and a alone holds more than its share, so a alone gives back.
    nodes:   {n1: 8 gpu, n2: 8 gpu}
    queues:  {a: {quota: 4 gpu}, b: {quota: 8 gpu}}
    jobs:
      greedy:   {queue: a, running: 10 x 1 gpu, on: {n1: 8, n2: 2}}
      starving: {queue: b, pending: 4 x 1 gpu, gang: 4}
    run: [allocate, reclaim]
    expect:
      starving: pipelined
      evicted:  {greedy: 4}

Amounts are written as people say them: `1 gpu`, `0.5 gpu`, `2 cpu 8 GiB`, `4000 gpu-MiB`, `1
nvidia.com/mig-1g.5gb`. Nodes may be a range: `n[1-100]`, with `{name}` in their labels. A job is a
gang of all its tasks unless `gang` says how many are its minimum. Under `expect`, a job's tasks are
all in the status named, or in statuses counted (`{bound: 2, pending: 1}`), with `on` for their
nodes and `why` for the reason of a refusal. What is not listed under `evicted` (and `moved`) must
not be touched.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from muster.api.codec import from_wire
from muster.api.names import LABEL_TASK_PRIORITY
from muster.engine.config.conf import PluginEntry
from muster.engine.config.reader import Reader
from muster.engine.holds import Hold
from muster.engine.profiles.known import KAI
from muster.model.cluster_objects import DisruptionAllowance, HeldBack, RecentEviction
from muster.model.records import (
    ROOT,
    ClusterRecords,
    Disruption,
    JobRecord,
    NodeRecord,
    QueueAmounts,
    QueueRecord,
    SubGroupRecord,
    TaskRecord,
    TopologyConstraint,
    TopologyRecord,
    gang,
    queue_amounts,
)
from muster.model.selectors import LabelSelector, equalities
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT
from muster.testing import make
from muster.testing.scenario_objects import spelled_out, with_devices, with_objects
from muster.testing.scenario_pods import constraints_of, taints_of

_T = TypeVar("_T")
_PART = re.compile(r"(-?[\d.]+)\s+(\S+)")
_TIMES = re.compile(r"(?:(\d+)\s*x\s*)?(.*)", re.DOTALL)
_UNITS = {"gpu": "gpu", "cpu": "cpu", "GiB": "memory_gib", "gpu-MiB": "gpu_memory_mib"}
_STATUSES = {
    "pending": TaskStatus.PENDING,
    "gated": TaskStatus.GATED,
    "running": TaskStatus.RUNNING,
    "binding": TaskStatus.BINDING,
    "bound": TaskStatus.BOUND,
    "pipelined": TaskStatus.PIPELINED,
    "releasing": TaskStatus.RELEASING,
    "stuck": TaskStatus.STUCK_IN_RELEASING,
    "succeeded": TaskStatus.SUCCEEDED,
    "failed": TaskStatus.FAILED,
}
_KEYS = (
    "why",
    "nodes",
    "queues",
    "jobs",
    "topologies",
    "objects",
    "disruption_allowances",
    "evicted_lately",
    "refused_evictions",
    "refused_actors",
    "refused_binds",
    "run",
    "expect",
    "settings",
    "conf",
    "rows",  # of tests/rows.yaml, for tools/rows.py
    # Of a recorded cycle (`muster replay --scenario`), in place of nodes, queues and jobs.
    "records",
    "now_s",
    "holds",
    "acted_s",
    "profile",
)
_NODE_KEYS = (
    "has",
    "labels",
    "taints",
    "pods",
    "gpu_memory_mib",
    "unschedulable",
    "not_ready",
    "mig",
    "devices",
    "numa",
)
_QUEUE_KEYS = (
    "parent",
    "quota",
    "limit",
    "weight",
    "priority",
    "usage",
    "namespaces",
    "reclaim_min_runtime",
    "preempt_min_runtime",
)
_JOB_KEYS = (
    *_STATUSES,
    "queue",
    "on",
    "gang",
    "priority",
    "preemptible",
    "age",
    "ran",
    "stale",
    "staleness_grace",
    "preemption_delay",
    "on_hold",
    "never_preempts",
    "disruption",
    "nominated",
    "evicted_ago",
    "checkpoint",
    "subgroups",
    "min_subgroups",
    "subgroup_of",
    "topology",
    "gpu_shares",
    "task_priorities",
    "pod",
)


class _StrictBoolLoader(yaml.SafeLoader):
    """YAML in which `on` is a word, and only true and false are truth values."""


_StrictBoolLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_StrictBoolLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf")
)


@dataclass(frozen=True, slots=True)
class JobExpectation:
    """What must become of a job. Counts of statuses; nodes with how many of its tasks."""

    statuses: Mapping[TaskStatus, int] | TaskStatus | None = None
    nodes: Mapping[str, int] | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario file."""

    name: str
    records: ClusterRecords
    actions: tuple[str, ...]
    jobs: Mapping[str, JobExpectation]
    evicted: Mapping[str, int]
    moved: Mapping[str, int]
    plugins: tuple[PluginEntry, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    conf: str = ""
    now_s: float = make.NOW_S
    holds: tuple[Hold, ...] = ()
    acted_s: Mapping[str, float] = field(default_factory=dict)
    """When plugins had acted before, by name."""
    profile: str = KAI


def read_scenario(path: Path) -> Scenario:
    """The scenario that a file holds; a ConfigError names what is wrong in it."""
    document = yaml.load(path.read_text(), Loader=_StrictBoolLoader)  # a SafeLoader
    return parse_scenario(document, path.name)


def parse_scenario(document: object, name: str) -> Scenario:
    """The scenario of a parsed file."""
    root = Reader(document, name)
    root.allow_only(_KEYS)
    root.key("why").text()
    expect = root.key("expect")
    jobs = {key: value for key, value in expect.items() if key not in ("evicted", "moved")}
    recorded = root.key("records")
    if recorded.is_absent:
        records = _budgeted(with_objects(_records(root), root), root)
    else:
        records = _converted(recorded, ClusterRecords)
    known = {job.key.removeprefix("default/") for job in records.jobs}
    for job, reader in jobs.items():
        if job not in known:
            raise reader.wrong("is not a job of this scenario")
    return Scenario(
        name=name,
        records=records,
        actions=tuple(action.text() for action in root.key("run").elements()),
        jobs={job: _expectation(reader) for job, reader in jobs.items()},
        evicted={job: count.integer() for job, count in expect.key("evicted").items()},
        moved={job: count.integer() for job, count in expect.key("moved").items()},
        settings={key: value.value for key, value in root.key("settings").items()},
        conf=yaml.safe_dump(root.key("conf").value) if not root.key("conf").is_absent else "",
        now_s=root.key("now_s").number(make.NOW_S),
        holds=()
        if root.key("holds").is_absent
        else _converted(root.key("holds"), tuple[Hold, ...]),
        acted_s={name: at.number(0.0) for name, at in root.key("acted_s").items()},
        profile=KAI if root.key("profile").is_absent else root.key("profile").text(),
    )


def _converted(reader: Reader, wanted: type[_T]) -> _T:
    """Plain values of a recording as what they were written from."""
    try:
        return msgspec.convert(reader.value, wanted, dec_hook=from_wire)
    except msgspec.ValidationError as error:
        raise reader.wrong(str(error)) from None


def _expectation(reader: Reader) -> JobExpectation:
    if isinstance(reader.value, str):
        return JobExpectation(statuses=_STATUSES[reader.choice(_STATUSES)])
    reader.allow_only((*_STATUSES, "all", "on", "why"))
    nodes = {node: count.integer() for node, count in reader.key("on").items()}
    counts = {
        _STATUSES[name]: count.integer() for name, count in reader.items() if name in _STATUSES
    }
    everybody = reader.key("all")
    return JobExpectation(
        statuses=(counts or None)
        if everybody.is_absent
        else _STATUSES[everybody.choice(_STATUSES)],
        nodes=nodes or None,
        why=reader.key("why").text(""),
    )


def _records(root: Reader) -> ClusterRecords:
    queues = list(root.key("queues").items())
    work = [_workload(name, reader, age) for age, (name, reader) in enumerate(_jobs(root))]
    return make.cluster(
        *[node for name, reader in root.key("nodes").items() for node in _nodes(name, reader)],
        *[_queue(name, reader, age) for age, (name, reader) in enumerate(queues)],
        *[
            TopologyRecord(name, tuple(level.text() for level in levels.elements()))
            for name, levels in root.key("topologies").items()
        ],
        *work,
    )


def _budgeted(records: ClusterRecords, root: Reader) -> ClusterRecords:
    """`disruption_allowances: {name: {labels: {app: x}, allowed: 1}}`, and GPUs that queues lost
    within the last hour: `evicted_lately: {a: 4}`. What the API server has refused, with its
    words: `refused_evictions: {a1-0: no}` by pod, `refused_actors: {b1: no}` and
    `refused_binds: {b1: no}` by job.
    """
    allowances = {}
    for name, reader in root.key("disruption_allowances").items():
        reader.allow_only(("labels", "allowed"))
        labels = {key: value.text() for key, value in reader.key("labels").items()}
        selector, allowed = LabelSelector(equalities(labels)), reader.key("allowed").integer(0)
        allowances[name] = DisruptionAllowance("default", selector, allowed)
    objects = make.with_fields(
        records.cluster_objects,
        disruption_allowances=allowances,
        recent_evictions=tuple(
            RecentEviction(queue, round(gpus.number() * GPU_UNIT), make.NOW_S - 600)
            for queue, gpus in root.key("evicted_lately").items()
        ),
        refused_evictions=_held_back(root.key("refused_evictions")),
        refused_actors=_held_back(root.key("refused_actors"), "default/"),
        refused_binds=_held_back(root.key("refused_binds"), "default/"),
    )
    return make.with_fields(records, cluster_objects=objects)


def _held_back(root: Reader, prefix: str = "") -> dict[str, HeldBack]:
    return {prefix + name: HeldBack(why.text(), make.NOW_S + 60) for name, why in root.items()}


def _jobs(root: Reader) -> list[tuple[str, Reader]]:
    """Jobs with names such as `j[1-50]` stand for many."""
    found: list[tuple[str, Reader]] = []
    for name, reader in root.key("jobs").items():
        found.extend((each, reader) for each in spelled_out(name))
    return found


def _nodes(name: str, reader: Reader) -> list[NodeRecord]:
    labelled: dict[str, str] = {}
    if isinstance(reader.value, str):
        fields: dict[str, Any] = dict(_amounts(reader, node=True))
    else:
        reader.allow_only(_NODE_KEYS)
        fields = dict(_amounts(reader.key("has"), node=True))
        labelled = {key: value.text() for key, value in reader.key("labels").items()}
        fields["taints"] = taints_of(reader.key("taints"))
        fields["is_unschedulable"] = reader.key("unschedulable").flag(False)
        fields["is_ready"] = not reader.key("not_ready").flag(False)
        fields["pods"] = reader.key("pods").integer(110)
        fields["gpu_memory_mib"] = reader.key("gpu_memory_mib").integer(80_000)
        if not reader.key("mig").is_absent:
            fields["mig_strategy"] = reader.key("mig").choice(("single", "mixed"))
            fields["is_mig"] = True
    other = fields.pop("other", {})
    nodes = []
    for each in spelled_out(name):
        labels = {key: text.replace("{name}", each) for key, text in labelled.items()}
        record = make.node(each, **fields, labels=labels)
        if other:
            record = make.with_fields(record, allocatable={**record.allocatable, **other})
        nodes.append(with_devices(record, reader) if isinstance(reader.value, dict) else record)
    return nodes


def _amounts(reader: Reader, node: bool = False) -> dict[str, Any]:
    """`2 gpu 4 cpu 16 GiB` as the arguments of the builders."""
    found: dict[str, Any] = {}
    text = reader.text("")
    if text.strip() and _PART.sub("", text).strip():
        raise reader.wrong(f'"{text}" is not a list of amounts such as "2 gpu 4 cpu 16 GiB"')
    for number, unit in _PART.findall(text):
        amount = float(number)
        if unit in _UNITS:
            whole = unit == "gpu-MiB" or (unit == "gpu" and (node or amount >= 1))
            found[_UNITS[unit]] = int(amount) if whole else amount
        elif unit == "devices":
            found["devices"] = int(amount)
        else:
            found.setdefault("other", {})[unit] = int(amount)
    return found


def _namespaces(reader: Reader) -> tuple[str, ...] | None:
    return None if reader.is_absent else tuple(one.text() for one in reader.elements())


def _queue(name: str, reader: Reader, age: int) -> QueueRecord:
    reader.allow_only(_QUEUE_KEYS)
    weight = reader.key("weight").number(1.0)
    usage = reader.key("usage").number(0.0)
    return QueueRecord(
        name=name,
        uid=name,
        parent=reader.key("parent").text(""),
        quota=_queue_amounts(reader.key("quota"), gpu=0.0),
        limit=_queue_amounts(reader.key("limit"), gpu=-1.0),
        weight=queue_amounts(weight),
        usage=queue_amounts(usage),
        priority=reader.key("priority").integer(100),
        created_s=float(age),
        namespaces=_namespaces(reader.key("namespaces")),
        reclaim_min_runtime_s=_optional_s(reader.key("reclaim_min_runtime")),
        preempt_min_runtime_s=_optional_s(reader.key("preempt_min_runtime")),
    )


def _optional_s(reader: Reader) -> float | None:
    return None if reader.is_absent else reader.duration_s()


def _queue_amounts(reader: Reader, gpu: float) -> QueueAmounts:
    """What is not named is unlimited, except the quota of GPUs, which is nothing."""
    if reader.text("") == "unlimited":
        return queue_amounts(-1.0)
    amounts = _amounts(reader)
    memory = amounts.get("memory_gib", -1.0)
    return queue_amounts(
        -1.0,
        cpu=amounts["cpu"] * 1000 if "cpu" in amounts else -1.0,
        memory=memory * make.GIB if memory >= 0 else -1.0,
        gpu=make.gpus(amounts.get("gpu", gpu)),
    )


def _workload(name: str, reader: Reader, age: int) -> make.Workload:
    reader.allow_only(_JOB_KEYS)
    job = _job(name, reader, age)
    tasks: list[TaskRecord] = []
    nodes = _nodes_of_tasks(reader.key("on"))
    # GPU groups of the tasks that run: one list for each.
    shares = reader.key("gpu_shares").elements()
    devices = [tuple(group.text() for group in each.elements()) for each in shares]
    members = _members(reader)
    priorities = [each.integer() for each in reader.key("task_priorities").elements()]
    constraints = constraints_of(reader.key("pod"))
    for status_name, status in _STATUSES.items():
        if reader.key(status_name).is_absent:
            continue
        times, need = _tasks(reader.key(status_name))
        for _ in range(times):
            index = len(tasks)
            has_node = status not in (TaskStatus.PENDING, TaskStatus.GATED)
            node = nodes.pop(0) if has_node and nodes else ""
            tasks.append(
                make.task(
                    job,
                    index,
                    need,
                    node=node,
                    status=status,
                    sub_group=members[index] if members else "default",
                    constraints=constraints,
                    gpu_shares=devices.pop(0) if devices and node else (),
                    labels=dict(constraints.labels)
                    | (
                        {LABEL_TASK_PRIORITY: str(priorities[index])}
                        if index < len(priorities)
                        else {}
                    ),
                )
            )
    if reader.key("subgroups").is_absent and reader.key("gang").is_absent:
        job = make.with_fields(job, sub_groups=_tree(reader, len(tasks)))
    promised = reader.key("nominated").text("")
    return make.Workload(
        job, tuple(make.with_fields(task, nominated_node=promised) for task in tasks)
    )


def _job(name: str, reader: Reader, age: int) -> JobRecord:
    """Jobs written first are older, unless `age` says otherwise."""
    priority = reader.key("priority").integer(50)
    ran = _optional_s(reader.key("ran"))
    runs = any(not reader.key(each).is_absent for each in ("running", "bound", "binding"))
    started_ago = ran if ran is not None else (3600.0 if runs else None)
    created = _optional_s(reader.key("age"))
    return JobRecord(
        key=f"default/{name}",
        uid=name,
        queue=reader.key("queue").text(),
        sub_groups=_tree(reader, reader.key("gang").integer(1)),
        priority=priority,
        is_preemptible=reader.key("preemptible").flag(priority < 100),
        created_s=make.NOW_S - (created if created is not None else 7200.0 - age),
        last_start_s=None if started_ago is None else make.NOW_S - started_ago,
        last_eviction_s=_ago(reader.key("evicted_ago")),
        stale_since_s=_ago(reader.key("stale")),
        staleness_grace_s=_optional_s(reader.key("staleness_grace")),
        preemption_delay_s=reader.key("preemption_delay").duration_s(0.0),
        checkpoint_s=_ago(reader.key("checkpoint")),
        never_preempts=reader.key("never_preempts").flag(False),
        on_hold=None if reader.key("on_hold").is_absent else reader.key("on_hold").text(),
        disruption=Disruption(
            reader.key("disruption").choice(tuple(each.value for each in Disruption), "gang")
        ),
    )


def _ago(reader: Reader) -> float | None:
    seconds = _optional_s(reader)
    return None if seconds is None else make.NOW_S - seconds


def _tasks(reader: Reader) -> tuple[int, make.Need]:
    match = _TIMES.fullmatch(reader.text().strip())
    if match is None:
        raise reader.wrong('is not a number of tasks such as "4 x 1 gpu"')
    times, amounts = match.groups()
    return int(times or 1), make.Need(**_amounts(Reader(amounts, reader.file, reader.path)))


def _nodes_of_tasks(reader: Reader) -> list[str]:
    if isinstance(reader.value, str):
        return [reader.value] * 10_000
    return [node for node, count in reader.items() for _ in range(count.integer())]


def _members(reader: Reader) -> list[str]:
    """The sub-group of each task: `subgroup_of: {leader: 1, worker: 4}`, in that order."""
    return [g for g, count in reader.key("subgroup_of").items() for _ in range(count.integer())]


def _tree(reader: Reader, minimum: int) -> SubGroupRecord:
    topology = _topology(reader.key("topology"))
    groups = reader.key("subgroups")
    if groups.is_absent:
        return gang(minimum, topology)
    least = reader.key("min_subgroups")
    children = tuple(_subgroup(name, child) for name, child in groups.items())
    return SubGroupRecord(ROOT, None if least.is_absent else least.integer(), children, topology)


def _subgroup(name: str, reader: Reader) -> SubGroupRecord:
    if isinstance(reader.value, int):
        return SubGroupRecord(name, reader.integer())
    reader.allow_only(("min", "subgroups", "topology"))
    children = tuple(_subgroup(n, child) for n, child in reader.key("subgroups").items())
    least = reader.key("min")
    minimum = None if least.is_absent else least.integer()
    return SubGroupRecord(name, minimum, children, _topology(reader.key("topology")))


def _topology(reader: Reader) -> TopologyConstraint | None:
    if reader.is_absent:
        return None
    reader.allow_only(("name", "required", "preferred"))
    return TopologyConstraint(
        reader.key("name").text(), reader.key("required").text(""), reader.key("preferred").text("")
    )
