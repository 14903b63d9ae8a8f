"""Nodes and the map of every GPU: who holds which device."""

from collections import defaultdict

from muster.api.names import DEFAULT, LABEL_AMD_GPU_PRODUCT, LABEL_GPU_PRODUCT
from muster.model.records import TaskKind
from muster.web.moment import Moment
from muster.web.shapes import Device, Holder, Map, Node

_NO_DEVICE = -1
_PRODUCTS = (LABEL_GPU_PRODUCT, LABEL_AMD_GPU_PRODUCT)


def nodes(moment: Moment) -> list[Node]:
    """In name order."""
    held = _devices(moment)
    return [_node(moment, row, held[row]) for row in range(len(moment.snapshot.nodes))]


def node(moment: Moment, name: str) -> Node | None:
    row = moment.snapshot.nodes.row.get(name)
    return None if row is None else _node(moment, row, _devices(moment)[row])


def gpu_map(moment: Moment) -> Map:
    """The whole cluster in columns."""
    found = moment.made.get("map")
    if found is None:
        found = moment.made["map"] = _made(moment)
    known: Map = found
    return known


def _made(moment: Moment) -> Map:
    per = int(max(moment.node_gpus, default=0))
    racks = sorted(set(moment.racks))
    number: dict[str, int] = {}
    cells: list[int] = []
    shared: list[int] = []
    for row, devices in enumerate(_devices(moment)):
        for at in range(per):
            if at >= moment.node_gpus[row]:
                cells.append(_NO_DEVICE)
                continue
            holders = devices[at].holders if at < len(devices) else ()
            if len(holders) > 1:
                shared.append(len(cells))
            job = holders[0].job if holders else ""
            cells.append(number.setdefault(job, len(number) + 1) if holders else 0)
    return Map(
        rev=moment.revision,
        per=per,
        nodes=moment.snapshot.nodes.names,
        rack=tuple(racks.index(rack) for rack in moment.racks),
        racks=tuple(racks),
        state=moment.node_states,
        gpu=tuple(cells),
        shared=tuple(shared),
        jobs=tuple(number),
        queues=tuple(_queue_of(moment, job) for job in number),
    )


def _queue_of(moment: Moment, job: str) -> str:
    row = moment.snapshot.jobs.row.get(job)
    return "" if row is None else moment.snapshot.jobs.records[row].queue


def _node(moment: Moment, row: int, devices: list[Device]) -> Node:
    gpus, record = int(moment.node_gpus[row]), moment.snapshot.nodes.records[row]
    shown = (devices + [Device(())] * gpus)[:gpus]
    return Node(
        name=moment.snapshot.nodes.names[row],
        state=moment.node_states[row],
        rack=moment.racks[row],
        gpus=gpus,
        used=sum(holder.part for device in devices for holder in device.holders),
        free=float(moment.free_gpus[row]),
        devices=tuple(shown),
        pool=record.labels.get(DEFAULT.node_pool_label, ""),
        gpu=next((record.labels[name] for name in _PRODUCTS if name in record.labels), ""),
        since=moment.closed_since.get(moment.snapshot.nodes.names[row]),
    )


def _devices(moment: Moment) -> list[list[Device]]:
    """[N] devices that are held, in the order in which their holders came.

    Which device of a node a whole GPU is, the kubelet knows and nobody says: the order is ours, and
    the same as long as nothing changes on the node. Shared ones go by the name of their share.
    """
    tasks = moment.snapshot.tasks
    found: list[list[Device]] = [[] for _ in range(len(moment.snapshot.nodes))]
    shares: dict[tuple[int, str], list[Holder]] = defaultdict(list)
    rows = moment.on_node[moment.task_gpus[moment.on_node] > 0]
    for row in rows.tolist():
        record, at, gpus = tasks.records[row], int(tasks.node[row]), float(moment.task_gpus[row])
        if record.kind is not TaskKind.WORK:
            continue
        key = record.job or f"{record.namespace}/{record.name}"
        if record.gpu_shares:
            part = gpus / len(record.gpu_shares)
            for share in record.gpu_shares:
                shares[(at, share)].append(Holder(key, part))
        else:
            found[at] += [Device((Holder(key, 1.0),))] * round(gpus)
    for (at, _), holders in sorted(shares.items()):
        found[at].append(Device(tuple(holders)))
    return found
