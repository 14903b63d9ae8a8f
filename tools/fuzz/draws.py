"""Objects drawn from schemas, bent, and spelled as JSON: plainly at random, and fast.

`tests/support/schemas.py` does the same for hypothesis, which shrinks what it finds; this draws a
thousand times as many. Schemas are followed so that most of an object gets past the door; then a
few places of it are bent: other types, numbers at and beyond every edge, deep nests, long lists,
odd texts; and at last the JSON itself.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import yaml

from muster.api import names
from muster.api.crds import struct_schema
from muster.api.kinds import Kind
from muster.base.rand import Rand

Body = dict[str, Any]
Draw = Callable[[Rand], Any]


def words(text: str) -> list[str]:
    return text.split()


NAMES: Final = ("a", "b", "c", "default-queue", "gpu-0", "main", "q", "team")
"""Few enough that objects name each other."""
_WORDS: Final = words(
    """
0 1 -1 0.5 2 NaN 1e9 10s -3h 1h30m true False Exists In NotIn DoesNotExist Gt Lt NoSchedule
NoExecute Running Pending Failed Unschedulable Fraction train build kubernetes.io/hostname zone
1Gi 0,1 GPU-1 2026-01-01T00:00:00Z 0001-01-01T00:00:00Z 9999-12-31T23:59:59Z ReadWriteOncePod
WaitForFirstConsumer 1e30 1e-30 Infinity -Infinity -0 1_0 0x10 ٣ ² 1e999999999 0.1e-999999999
{"a":1} [] {} null nvidia.com/gpu gpu.nvidia.com true && Pod PodGroup Guaranteed kai-scheduler
DoNotSchedule
"""
)
TEXTS: Final = (
    *NAMES,
    *_WORDS,
    "",
    " ",
    "x" * 70,
    "9" * 25,
    "9" * 5000,
    "\x00",
    "\u202e\U0001f600",
)
_AMOUNTS: Final = (
    "0", "1", "500m", "1Gi", "-1", "1e3", "0.5", "8", "1n", "9E", "1000000000000", "1e-9", "-0",
    "9e18", "1E18", "9999999999999999999999", "1u", "0.0000000001", ".5", "5.", "+1", 1, -1, 8,
)  # fmt: skip
QUANTITIES: Final = (
    *_AMOUNTS, "1e999999999", "1 Gi", "1ki", "NaN", "inf", "0x1", "1e", "Ki", "\u0663", "1__0",
    2**63, 0.1, 1e300, "1e-999999999", "9" * 100, "0" * 1000 + "1",
)  # fmt: skip
_RESOURCES: Final = (
    "cpu", "memory", "pods", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-x",
    "amd.com/gpu", "ephemeral-storage", "hugepages-2Mi", "x/y", "storage", "",
)  # fmt: skip
KEYS: Final = sorted(
    value
    for key, value in vars(names).items()
    if key.startswith(("LABEL_", "ANNOTATION_")) and isinstance(value, str) and value[-1:] != "/"
)
"""Labels and annotations that our services read."""
_INTEGERS: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1}
_JUNK: Final[tuple[Any, ...]] = (
    None, 0, -1, 1.5, -0.0, 1e308, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, "", "x", True, False,
    [], {}, [1], ["a"], [{}], [None], [[]], {"a": 1}, {"": {}}, {"name": "a"}, float("nan"),
    float("inf"), "\ud800", "100%", "9" * 400,
)  # fmt: skip
_DEPTHS: Final = (3, 40, 199, 201, 900, 5000)
_SIZES: Final = (2, 10, 65, 300)


def by_schema(schema: Mapping[str, Any], depth: int = 0) -> Draw:
    """How to draw what this OpenAPI schema allows."""
    if "enum" in schema:
        return _choice(tuple(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return _choice(_AMOUNTS)
    return _BY_TYPE.get(schema.get("type", ""), _anything)(schema, depth)


@cache
def of_kind(kind: Kind[Any]) -> Draw:
    """Whole objects of a kind, as the API server could send them, and somewhat beyond."""
    properties = struct_schema(kind.struct)["properties"]
    parts = {part: by_schema(schema, 1) for part, schema in properties.items()}
    parts.pop("metadata", None)

    def draw(rand: Rand) -> Body:
        body = {part: draw(rand) for part, draw in parts.items() if rand.random() < 0.9}
        return {"kind": kind.kind, "metadata": metadata(rand, kind.namespaced), **body}

    return draw


def metadata(rand: Rand, namespaced: bool) -> Body:
    """What every API server checks: names and maps of texts. Their values are anybody's."""
    found: Body = {"name": rand.choice(NAMES), "uid": f"u{rand.randrange(6)}"}
    if namespaced:
        found["namespace"] = "team"
    for part in ("labels", "annotations"):
        if rand.random() < 0.8:
            found[part] = {
                rand.choice(KEYS): str(rand.choice(TEXTS)) for _ in range(rand.randrange(4))
            }
    if rand.random() < 0.1:
        found["creationTimestamp"] = rand.choice(
            ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
        )
    if rand.random() < 0.1:
        found["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if rand.random() < 0.2:
        owner = {"apiVersion": "v1", "kind": rand.choice(("Pod", "Job", "x")), "uid": "u1"}
        found["ownerReferences"] = [{**owner, "name": rand.choice(NAMES)}]
    return found


def bent(rand: Rand, body: Any, spare: Sequence[str] = ()) -> Any:
    """The body with up to three places gone, changed, repeated or nested; `spare` names the keys
    at its top that stay as they are."""
    body = fresh(body)
    for _ in range(rand.choice((0, 0, 1, 1, 2, 3))):
        places = [at for at in _places(body) if not (at[0] is body and at[1] in spare)]
        if not places:
            break
        holder, key = rand.choice(places)
        rand.choice(_BENDS)(rand, holder, key)
    return body


def spelled(rand: Rand, body: Any) -> bytes:
    """The body as JSON; one in twenty is not quite JSON, or says things twice."""
    text = json.dumps(body, ensure_ascii=rand.random() < 0.5)
    data = text.encode("utf-8", "surrogatepass")
    return rand.choice(_MISSPELLINGS)(rand, data) if rand.random() < 0.05 else data


def fresh(value: Any) -> Any:
    """A copy in which no two places are one object."""
    if isinstance(value, dict):
        return {key: fresh(one) for key, one in value.items()}
    return [fresh(one) for one in value] if isinstance(value, list) else value


def as_yaml(rand: Rand, document: Any) -> str:
    """YAML, or JSON, which is YAML too; now and then neither."""
    text = json.dumps(document)
    if rand.random() < 0.3 and "[[[[[" not in text and '{"a": {"a": {"a"' not in text:
        text = yaml.dump(document)  # It recurses, deeper than nests are.
    bend = rand.random()
    if bend < 0.05:
        return text[: rand.randrange(len(text) + 1)]
    if bend < 0.1:
        lines = ["a: &a [x, x]", *(f"b{n}: &b{n} [*a, *a]" for n in range(3)), text]
        return "\n".join(lines)
    if bend < 0.13:
        return "[" * rand.choice((50, 150, 3000)) + text
    return text


def _choice(values: tuple[Any, ...]) -> Draw:
    return lambda rand: rand.choice(values)


def _object(schema: Mapping[str, Any], depth: int) -> Draw:
    if "additionalProperties" in schema:
        return _map(schema["additionalProperties"], depth)
    required = set(schema.get("required") or ())
    parts = [
        (name, by_schema(part, depth + 1), name in required)
        for name, part in (schema.get("properties") or {}).items()
    ]
    likely = min(0.9, 3.5 / (len(parts) or 1) + (0.15 if depth < 3 else 0.0))

    def draw(rand: Rand) -> Body:
        return {n: part(rand) for n, part, always in parts if always or rand.random() < likely}

    return draw if parts else _anything({}, depth)


def _map(schema: Mapping[str, Any], depth: int) -> Draw:
    value = by_schema(schema, depth + 1)
    keys = _RESOURCES if schema.get("x-kubernetes-int-or-string") else (*KEYS, *NAMES)
    return lambda rand: {rand.choice(keys): value(rand) for _ in range(rand.randrange(4))}


def _array(schema: Mapping[str, Any], depth: int) -> Draw:
    item = by_schema(schema["items"], depth + 1)
    most = 3 if depth < 4 else 2
    return lambda rand: [item(rand) for _ in range(rand.randrange(most + 1))]


def _string(schema: Mapping[str, Any], depth: int) -> Draw:
    if schema.get("format") == "date-time":
        return _choice(("2026-01-01T00:00:00Z", "1999-12-31T23:59:59.123456Z"))
    return _choice(TEXTS)


def _integer(schema: Mapping[str, Any], depth: int) -> Draw:
    most = int(schema.get("maximum", _INTEGERS.get(schema.get("format", ""), 2**53)))
    least = int(schema.get("minimum", -most - 1))
    near = tuple(range(max(least, -2), min(most, 5) + 1))
    return _choice((*near, *near, least, most))


def _number(schema: Mapping[str, Any], depth: int) -> Draw:
    return _choice((0, 1, -1, 0.5, 8, 4000, 1e-300, 1e300, -1e300, 2**53 + 1))


def _boolean(schema: Mapping[str, Any], depth: int) -> Draw:
    return _choice((True, False))


def _anything(schema: Mapping[str, Any], depth: int) -> Draw:
    return lambda rand: {rand.choice(NAMES): rand.choice(TEXTS) for _ in range(rand.randrange(3))}


_BY_TYPE: Final[Mapping[str, Callable[[Mapping[str, Any], int], Draw]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a body, as its holder and key."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Any = list(holder) if isinstance(holder, dict) else range(min(len(holder), 20))
        for key in keys:
            yield holder, key
            if isinstance(holder[key], dict | list) and holder[key]:
                waiting.append(holder[key])


def _replace(rand: Rand, holder: Any, key: Any) -> None:
    holder[key] = fresh(rand.choice(_JUNK))


def _retell(rand: Rand, holder: Any, key: Any) -> None:
    holder[key] = rand.choice(TEXTS if isinstance(holder[key], str) else QUANTITIES)


def _remove(rand: Rand, holder: Any, key: Any) -> None:
    del holder[key]


def _repeat(rand: Rand, holder: Any, key: Any) -> None:
    """A long list, or a large map, of what stands there."""
    value, size = holder[key], rand.choice(_SIZES)
    if isinstance(value, list):
        holder[key] = [fresh(one) for one in (value or [{}]) * size]
    elif isinstance(value, dict):
        some = next(iter(value.values()), "x")
        holder[key] = {**value, **{f"k{n}": some for n in range(size)}}
    elif isinstance(value, str):
        holder[key] = value * size
    else:
        holder[key] = [value] * size


def _nest(rand: Rand, holder: Any, key: Any) -> None:
    value, is_map = holder[key], rand.random() < 0.5
    for _ in range(rand.choice((1, 3, 40))):
        value = {"a": value} if is_map else [value]
    holder[key] = value


_BENDS: Final = (_replace, _replace, _retell, _retell, _remove, _repeat, _nest)


def _truncate(rand: Rand, data: bytes) -> bytes:
    return data[: rand.randrange(len(data) + 1)]


def _say_twice(rand: Rand, data: bytes) -> bytes:
    """Every key a second time, with another value."""
    return data.replace(b'{"', b'{"spec": 1, "metadata": null, "', 1)


def _dirty(rand: Rand, data: bytes) -> bytes:
    at = rand.randrange(len(data) + 1)
    return (
        data[:at] + rand.choice((b"\xff", b"\x00", b"\xed\xa0\x80", b",", b"]", b'"')) + data[at:]
    )


def _deepen(rand: Rand, data: bytes) -> bytes:
    depth = rand.choice(_DEPTHS)
    whole = b"[" * depth + b"]" * depth
    return data.replace(b"{}", whole, 1).replace(b"[]", whole, 1)


def _enlarge(rand: Rand, data: bytes) -> bytes:
    return data.replace(b": 1", b": 1" + b"0" * rand.choice((20, 400, 5000)), 1)


_MISSPELLINGS: Final = (_truncate, _say_twice, _dirty, _deepen, _enlarge)
