"""Objects drawn from the schemas themselves: whatever the API server would let in, and some more.

Every type, bound, pattern and enumeration of a schema is followed, so that most of what is drawn
gets past the door; values lean to those that mean something (names that exist, numbers at an edge).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.core import Pod
from muster.api.crds import struct_schema
from muster.api.meta import Struct
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology

Body = dict[str, Any]

NAMES = ("a", "b", "c", "default-queue", "gpu-0", "main")
"""Few enough that objects name each other."""
# The last words are numbers that are read without complaint, until somebody reckons with them.
_WORDS = """
0 1 -1 0.5 2 NaN 1e9 10s -3h true False Exists In NotIn DoesNotExist NoSchedule Running Failed
Unschedulable Fraction train build kubernetes.io/hostname 1Gi 2026-01-01T00:00:00Z
1e30 1e-30 Infinity -0 1_0 0x10 \u0663 \u00b2 1e999999999
"""
_TEXTS = [*NAMES, *_WORDS.split(), "", "x" * 70, "9" * 25, "9" * 5000]
_QUANTITIES = ["0", "1", "500m", "1Gi", "-1", "1e3", "0.5", "8", "1n", "9E", "1000000000000"]
_RESOURCES = ["cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "x/y", ""]
_KEYS = sorted(
    value
    for key, value in vars(names).items()
    if key.startswith(("LABEL_", "ANNOTATION_"))
    and isinstance(value, str)
    and not value.endswith("/")
)
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SHARING = (
    names.ANNOTATION_GPU_FRACTION,
    names.ANNOTATION_GPU_MEMORY,
    names.ANNOTATION_GPU_FRACTION_DEVICES,
    names.ANNOTATION_RECEIVED_RESOURCE_TYPE,
)
_INT = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def drawn(kind: type[Struct]) -> st.SearchStrategy[Body]:
    """A whole object of this kind: names and labels of our own choice, the rest by its schema."""
    parts = {
        part: by_schema(schema)
        for part, schema in struct_schema(kind)["properties"].items()
        if part != "metadata"
    }
    return st.fixed_dictionaries({"metadata": _metadata()} | parts).map(_named_as(kind.__name__))


def pods() -> st.SearchStrategy[Body]:
    """Half of them are plain but for their labels and annotations, so that these are looked at."""
    plain = st.fixed_dictionaries(
        {
            "kind": st.just("Pod"),
            "metadata": _metadata(),
            "spec": st.just({"containers": [{"name": "main"}]}),
            "status": st.sampled_from([{"phase": "Pending"}, {"phase": "Running"}]),
        }
    )
    return st.one_of(plain, drawn(Pod))


def queues() -> st.SearchStrategy[Body]:
    return drawn(Queue)


def pod_groups() -> st.SearchStrategy[Body]:
    return drawn(PodGroup)


def topologies() -> st.SearchStrategy[Body]:
    return drawn(Topology)


def bind_requests() -> st.SearchStrategy[Body]:
    return drawn(BindRequest)


def texts_of_ours() -> st.SearchStrategy[dict[str, str]]:
    """Labels or annotations: keys that our services read, with any value."""
    values = st.sampled_from(_TEXTS)
    any_keys = st.dictionaries(st.sampled_from(_KEYS), values, max_size=5)
    # What only matters together would hardly ever be drawn together.
    sharing = st.fixed_dictionaries({}, optional=dict.fromkeys(_SHARING, values))
    return st.tuples(any_keys, sharing).map(lambda both: both[0] | both[1])


def labels_of_ours() -> st.SearchStrategy[dict[str, str]]:
    """The same with values that a label may have."""
    return texts_of_ours().map(
        lambda texts: {key: text for key, text in texts.items() if _LABEL.fullmatch(text)}
    )


def by_schema(schema: Mapping[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """What this OpenAPI schema allows."""
    if "enum" in schema:
        return st.sampled_from(list(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(st.sampled_from(_QUANTITIES), st.integers(-2, 10))
    return _BY_TYPE.get(schema.get("type", ""), _anything)(schema, depth)


def _object(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "additionalProperties" in schema:
        value = by_schema(schema["additionalProperties"], depth + 1)
        is_amount = schema["additionalProperties"].get("x-kubernetes-int-or-string")
        keys = st.sampled_from(_RESOURCES if is_amount else [*_KEYS, *NAMES])
        return st.dictionaries(keys, value, max_size=3)
    required = set(schema.get("required") or ())
    properties = {
        name: by_schema(part, depth + 1) for name, part in (schema.get("properties") or {}).items()
    }
    always = {name: part for name, part in properties.items() if name in required}
    optional = {name: part for name, part in properties.items() if name not in required}
    return st.fixed_dictionaries(always, optional=optional) if properties else _anything({}, depth)


def _array(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    least = int(schema.get("minItems", 0))
    most = max(least, 3 if depth < 4 else 1)
    return st.lists(by_schema(schema["items"], depth + 1), min_size=least, max_size=most)


def _string(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if schema.get("format") == "date-time":
        return st.sampled_from(["2026-01-01T00:00:00Z", "1999-12-31T23:59:59.123456Z"])
    pattern = re.compile(schema["pattern"]) if "pattern" in schema else None
    least, most = schema.get("minLength", 0), schema.get("maxLength", 10**6)
    fitting = [
        text
        for text in _TEXTS
        if least <= len(text) <= most and (pattern is None or pattern.search(text))
    ]
    return st.sampled_from(fitting)


def _integer(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    most = int(schema.get("maximum", _INT.get(schema.get("format", ""), 2**53)))
    least = int(schema.get("minimum", -most - 1))
    return st.one_of(st.integers(max(least, -2), min(most, 5)), st.sampled_from([least, most]))


def _number(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    odd = st.floats(allow_nan=False, allow_infinity=False)
    return st.one_of(st.sampled_from([0, 1, -1, 0.5, 8, 4000]), odd)


def _boolean(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    return st.booleans()


def _anything(schema: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(NAMES), st.sampled_from(_TEXTS), max_size=2)


_BY_TYPE: Mapping[str, Callable[[Mapping[str, Any], int], st.SearchStrategy[Any]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def _metadata() -> st.SearchStrategy[Body]:
    fixed = {"name": st.sampled_from(NAMES), "labels": labels_of_ours()}
    return st.fixed_dictionaries({**fixed, "annotations": texts_of_ours()})


def _named_as(kind: str) -> Callable[[Body], Body]:
    return lambda body: {"kind": kind, **body}
