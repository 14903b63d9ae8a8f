"""HyperNodes and the nodes there are -> how many nodes are below each."""

from collections.abc import Iterable, Sequence

from muster.api.core import Node
from muster.api.volcano import HyperNode
from muster.model.batch_build import hyper_node_records
from muster.model.records import NodeRecord


def outdated_counts(hyper_nodes: Sequence[HyperNode], nodes: Iterable[Node]) -> dict[str, int]:
    """By name of those whose status says another number, the right one."""
    there = [NodeRecord(node.metadata.name, {}, labels=node.metadata.labels) for node in nodes]
    records = hyper_node_records(hyper_nodes, there)
    counts = {name: len(record.nodes) for name, record in records.items()}
    said = {one.metadata.name: one.status.node_count for one in hyper_nodes}
    return {name: count for name, count in counts.items() if count != said[name]}
