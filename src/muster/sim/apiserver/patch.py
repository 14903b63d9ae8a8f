"""JSON, merge and strategic-merge patches. Pure: the original is never changed.

What is not touched is shared between the original and the result, so the result must be treated as
belonging to both until somebody copies it.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.bounds import PATCH_COPIES_BYTES_MAX
from muster.sim.apiserver.layouts import ANYTHING, Layout
from muster.sim.apiserver.refusal import ApiRefusal, bad_request


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. An operation that does not apply is a 422."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    result = target
    copied_bytes = 0
    for operation in operations:
        if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
            raise bad_request("a JSON patch operation needs op and path")
        _check_texts(operation)
        if operation["op"] == "copy":
            copied_bytes += _size_bytes(result, operation)
        if copied_bytes > PATCH_COPIES_BYTES_MAX:
            # Copies of copies double with every operation.
            raise _unprocessable(f"its copies are more than {PATCH_COPIES_BYTES_MAX} bytes")
        result = _operated(result, operation)
    return result


def strategic_merge_patch(target: Any, patch: Any, layout: Layout) -> Any:
    """Kubernetes' merge by keys, with its directives."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch is an object")
    return _merged(target, patch, layout)


# --- JSON patch ---------------------------------------------------------------------------------


_GO_NAMES = {bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def _check_texts(operation: dict[str, Any]) -> None:
    for field in ("op", "path", "from"):
        value = operation.get(field, "")
        if not isinstance(value, str | None):
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {_GO_NAMES[type(value)]} "
                f"into Go struct field jsonPatchOp.{field} of type string"
            )


def _operated(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _added(document, path, _value_of(operation))
        case "replace":
            _at(document, path, "replace")
            return _replaced(document, path, _value_of(operation))
        case "remove":
            return _removed(document, path)
        case "move":
            source = _pointer(operation.get("from", ""))
            value = _at(document, source, "move")
            return _added(_removed(document, source), path, value)
        case "copy":
            value = _at(document, _pointer(operation.get("from", "")), "copy")
            return _added(document, path, value)
        case "test":
            if _found(document, path) != operation.get("value"):
                raise _unprocessable(f"testing value {operation['path']} failed")
            return document
        case other:
            raise _unprocessable(f"Unexpected kind: {other}")


def _size_bytes(document: Any, operation: dict[str, Any]) -> int:
    return len(msgspec.json.encode(_found(document, _pointer(operation.get("from", "")))))


def _value_of(operation: dict[str, Any]) -> Any:
    return operation.get("value")


def _pointer(text: str | None) -> list[str]:
    if not text:
        return []
    if not text.startswith("/"):
        raise _unprocessable(f"add operation does not apply: doc is missing path: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _found(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


def _at(document: Any, path: Sequence[str], operation: str) -> Any:
    for part in path:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            raise _missing(operation, path)
    return document


def _added(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(document, dict):
        if rest and head not in document:
            raise _missing("add", path)
        return document | {head: _added(document.get(head), rest, value)}
    if isinstance(document, list):
        if not rest:
            index = _index(head, len(document), path)
            return [*document[:index], value, *document[index:]]
        index = _index(head, len(document) - 1, path)
        return [*document[:index], _added(document[index], rest, value), *document[index + 1 :]]
    raise _missing("add", path)


def _replaced(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(document, dict):
        return document | {head: _replaced(document[head], rest, value)}
    index = int(head)
    return [*document[:index], _replaced(document[index], rest, value), *document[index + 1 :]]


def _removed(document: Any, path: Sequence[str]) -> Any:
    if not path:
        return None
    head, rest = path[0], path[1:]
    if isinstance(document, dict) and head in document:
        if not rest:
            return {key: value for key, value in document.items() if key != head}
        return document | {head: _removed(document[head], rest)}
    if isinstance(document, list) and head.isdigit() and int(head) < len(document):
        index = int(head)
        inner = [] if not rest else [_removed(document[index], rest)]
        return [*document[:index], *inner, *document[index + 1 :]]
    raise _missing("remove", path)


def _index(part: str, length: int, path: Sequence[str]) -> int:
    if part == "-":
        return length
    if not part.isdigit() or int(part) > length:
        raise _missing("add", path)
    return int(part)


def _missing(operation: str, path: Sequence[str]) -> ApiRefusal:
    where = "/" + "/".join(path)
    return _unprocessable(
        f"{operation} operation does not apply: doc is missing path: {where!r}: missing value"
    )


def _unprocessable(message: str) -> ApiRefusal:
    # The real server does not show the reason; the details here are for debugging.
    return ApiRefusal(422, "Invalid", _REJECTED, {"": message})


# --- Strategic merge ----------------------------------------------------------------------------

_REJECTED = "the server rejected our request due to an error in our request"
_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def _merged(target: Any, patch: dict[str, Any], layout: Layout) -> Any:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type: {directive} in map")
    result = dict(target) if isinstance(target, dict) else {}
    _drop_unretained(result, patch)
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_PRIMITIVES):
            name = key.removeprefix(_DELETE_PRIMITIVES)
            result[name] = [item for item in result.get(name) or () if item not in value]
        elif value is None:
            result.pop(key, None)
        else:
            order = patch.get(_ORDER + key)
            result[key] = _merged_value(result.get(key), value, layout.child(key), order)
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(result.get(name), list):
            old = result[name]
            result[name] = _ordered(old, old, order, layout.child(name).merge_key)
    return result


def _drop_unretained(result: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN in patch:
        kept = set(patch[_RETAIN])
        for key in [key for key in result if key not in kept]:
            del result[key]


def _merged_value(current: Any, value: Any, layout: Layout, order: Any) -> Any:
    if isinstance(value, dict):
        if "replace" in layout.strategy:
            return value
        return _merged(current, value, layout)
    if isinstance(value, list) and "merge" in layout.strategy:
        old = current if isinstance(current, list) else []
        items = _merged_list(old, value, layout)
        named = value if order is None else order
        return _ordered(items, old, named, layout.merge_key)
    return value


def _merged_list(current: list[Any], patch: list[Any], layout: Layout) -> list[Any]:
    if not layout.merge_key or not all(isinstance(item, dict) for item in patch):
        return [*current, *(item for item in patch if item not in current)]
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    key, item_layout = layout.merge_key, layout.values or ANYTHING
    result = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, old in enumerate(result) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            result = [old for old in result if old.get(key) != item[key]]
        elif at is None:
            result.append(_merged({}, item, item_layout))
        else:
            result[at] = _merged(result[at], item, item_layout)
    return result


def _ordered(items: list[Any], current: Sequence[Any], order: Sequence[Any], key: str) -> list[Any]:
    """What the patch names in its order, between what it does not name.

    An item that the patch does not name goes before one that it does only if the list had it so.
    """

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted = [identity(item) for item in order]
    before = [identity(item) for item in current]
    named = sorted(
        (item for item in items if identity(item) in wanted),
        key=lambda item: wanted.index(identity(item)),
    )
    others = [item for item in items if identity(item) not in wanted]
    result: list[Any] = []
    while named and others:
        left, right = identity(others[0]), identity(named[0])
        first = right in before and before.index(left) < before.index(right)
        result.append(others.pop(0) if first else named.pop(0))
    return [*result, *others, *named]
