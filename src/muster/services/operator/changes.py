"""What must be written so that an object becomes what is wanted; nothing if it is. Pure.

Objects carry the names of the fields that we set (an annotation), so that what we no longer want
can be taken back and what others added stays. An object that we never wrote (KAI's operator left
it) is taken over: of what its spec held only what we want remains.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from muster.api.names import ANNOTATION_APPLIED_FIELDS
from muster.api.quantity import BadQuantity, Quantity
from muster.services.operator.objects import CONFIG_MAP, DEPLOYMENT, Json, Wanted

_AMOUNTS: Final = frozenset({"limits", "requests"})
"""Maps whose values the server may write in another form: 1000m is 1."""
_TAKEN_WHOLE: Final = {DEPLOYMENT.kind: "spec", CONFIG_MAP.kind: "data"}
"""What of an object that we take over is ours alone. Services keep the address that they have."""
_OTHERS_EXPRESSIONS: Final = frozenset({"control-plane", "kubernetes.azure.com/managedby"})
"""Keys of selectors that platforms add to every webhook, and add again when they are removed."""


def whole_body(want: Wanted, owner: Json | None) -> Json:
    """The object as we would create it."""
    metadata = dict(want.body["metadata"])
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    if not want.is_kept:
        fields = json.dumps(_shape(_contents(want.body)), sort_keys=True, separators=(",", ":"))
        metadata["annotations"] = {**metadata.get("annotations", {}), _APPLIED: fields}
    return {**want.body, "metadata": metadata}


def change(want: Wanted, owner: Json | None, live: Mapping[str, Any]) -> Json:
    """A merge patch; empty when the object is what is wanted."""
    if want.is_kept:
        return {}
    body = whole_body(want, owner)
    body = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    return _patch(body, live, _applied(want, live))


def is_taken_over(live: Mapping[str, Any]) -> bool:
    """Whether we changed it before; else it is as somebody else left it."""
    return _APPLIED in ((live.get("metadata") or {}).get("annotations") or {})


def _applied(want: Wanted, live: Mapping[str, Any]) -> Any:
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(_APPLIED)
    if text is not None:
        try:
            return json.loads(text)
        except ValueError:
            return {}
    taken = _TAKEN_WHOLE.get(want.kind.kind, "")
    return _shape({key: value for key, value in live.items() if key == taken})


def _contents(body: Mapping[str, Any]) -> Json:
    """Of the metadata, labels and annotations are ours field by field; the rest is not a field."""
    found = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    metadata = body["metadata"]
    found["metadata"] = {
        key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)
    }
    return found


def _shape(value: Any) -> Any:
    """The names of fields without their values: secrets stay where they are."""
    if isinstance(value, Mapping):
        return {key: _shape(below) for key, below in value.items()}
    if isinstance(value, list) and any(isinstance(below, Mapping) for below in value):
        return [_shape(below) for below in value]
    return 0


def _patch(want: Mapping[str, Any], live: Mapping[str, Any], applied: Any, where: str = "") -> Json:
    patch: Json = {}
    ours = applied if isinstance(applied, dict) else {}
    for key, value in want.items():
        there = live.get(key)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            if below := _patch(value, there, ours.get(key), key):
                patch[key] = below
        elif not _is_as_wanted(value, there, ours.get(key), where):
            patch[key] = value
    for key in ours:
        if key not in want and live.get(key) is not None:
            patch[key] = None
    return patch


def _is_as_wanted(want: Any, live: Any, applied: Any, where: str) -> bool:
    if isinstance(want, Mapping) and isinstance(live, Mapping):
        return not _patch(want, live, applied, where)
    if isinstance(want, list) and isinstance(live, list):
        mine = [one for one in live if not _is_of_others(one)]
        shapes = (
            applied if isinstance(applied, list) and len(applied) == len(mine) else [{}] * len(mine)
        )
        return len(want) == len(mine) and all(
            _is_as_wanted(one, other, shape, where)
            for one, other, shape in zip(want, mine, shapes, strict=True)
        )
    if where in _AMOUNTS and want != live:
        return _is_same_amount(want, live)
    return bool(want == live)


def _is_of_others(element: Any) -> bool:
    return isinstance(element, Mapping) and element.get("key") in _OTHERS_EXPRESSIONS


def _is_same_amount(want: object, live: object) -> bool:
    try:
        return Quantity(str(want)) == Quantity(str(live))
    except BadQuantity:
        return False


_APPLIED: Final = ANNOTATION_APPLIED_FIELDS
