"""`imagelocality` of `nodeorder`: a node that has the images of a pod goes first."""

import pytest
from tests.support.batch import Batch, where

from muster.api.codec import decode
from muster.api.core import Container, Node, PodSpec
from muster.model.build import node_record
from muster.model.constraints import Constraints
from muster.model.from_api import images

_MIB = 1 << 20
_CONF = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}]
- plugins: [{name: nodeorder, arguments: {imagelocality.weight: WEIGHT}}]
"""


def _node_of(weight: int, has: dict[str, dict[str, int]], *run: str, busy: str = "") -> str:
    told = Batch().queue("q")
    for name in ("a", "b", "c"):
        told.node(name, 32, images=has.get(name, {}))
    if busy:
        told.gang("old", "q", 1, on=[busy] * 8)
    told.gang("new", "q", 1, waiting=1, constraints=Constraints(images=run))
    return where(told.run(_CONF.replace("WEIGHT", str(weight))))["new-0"]


def test_a_node_that_has_the_image_goes_before_an_emptier_one() -> None:
    has = {"b": {"work:1": 900 * _MIB}}
    assert _node_of(0, has, "work:1", busy="b") == "a"
    assert _node_of(1, has, "work:1", busy="b") == "b"


@pytest.mark.parametrize(
    ("has", "wins"),
    [
        # A third of nodes have it: it counts a third of its bytes, which is less than 23 MiB.
        ({"b": {"work:1": 60 * _MIB}}, "a"),
        ({"b": {"work:1": 150 * _MIB}}, "b"),
        # Another tag is another image.
        ({"b": {"work:2": 900 * _MIB}}, "a"),
        # Rare and large counts less than common and nearly as large.
        ({"c": {"work:1": 800 * _MIB}, "b": {"side:1": 500 * _MIB}, "a": {"side:1": 1}}, "b"),
    ],
)
def test_images_count_by_bytes_and_by_how_many_nodes_have_them(
    has: dict[str, dict[str, int]], wins: str
) -> None:
    assert _node_of(100, has, "work:1", "side:1") == wins


def test_images_are_named_as_nodes_name_them() -> None:
    spec = PodSpec(
        init_containers=(Container(image="host:5000/tools"),),
        containers=(Container(image="work:1"), Container(image="nothing"), Container()),
    )
    assert images(spec) == ("host:5000/tools:latest", "work:1", "nothing:latest")
    node = decode(
        Node,
        b'{"metadata": {"name": "n"}, "status": {"images": [{"names": ["work@sha256:1", "work:1"],'
        b' "sizeBytes": 7}, {}]}}',
    )
    assert node_record(node).images == {"work@sha256:1": 7, "work:1": 7}
