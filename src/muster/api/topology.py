"""Topology (kai.scheduler/v1alpha1): node labels from the widest domain to the narrowest."""

from typing import Annotated, Final

from muster.api.bounds import TOPOLOGY_LEVELS_MAX
from muster.api.meta import ApiObject, Struct
from muster.api.names import LABEL_HOSTNAME
from muster.api.schema import ATOMIC, QUALIFIED_NAME, Schema

HOSTNAME: Final = LABEL_HOSTNAME

_LabelKey = Annotated[str, QUALIFIED_NAME, Schema(minLength=1)]
_LEVEL_RULES: Final = [
    {
        "rule": "self.map(l, l.nodeLabel) == oldSelf.map(l, l.nodeLabel)",
        "message": "nodeLabel structure is immutable; only aliases may be edited",
    },
    {
        "rule": "size(self.filter(i, size(self.filter(j, j.nodeLabel == i.nodeLabel)) > 1)) == 0",
        "message": "nodeLabel must be unique",
    },
    {
        "rule": (
            "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 || "
            "self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'"
        ),
        "message": (
            "the kubernetes.io/hostname label can only be used at the lowest level of topology"
        ),
    },
]


class TopologyLevel(Struct):
    node_label: Annotated[_LabelKey, Schema("The node label whose value names the domain.")]
    alias: Annotated[_LabelKey, Schema("Another name that pod groups may use.")] = ""


class TopologySpec(Struct):
    levels: Annotated[
        tuple[TopologyLevel, ...],
        ATOMIC,
        Schema(
            "From the widest to the narrowest domain.",
            minItems=1,
            maxItems=TOPOLOGY_LEVELS_MAX,
            x_kubernetes_validations=_LEVEL_RULES,
        ),
    ]


class Topology(ApiObject):
    """How nodes are near each other: a hierarchy of node labels."""

    spec: TopologySpec
