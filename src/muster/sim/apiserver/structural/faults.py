"""Causes of a refusal, with the messages and field paths of Kubernetes.

A `Fault` becomes one cause of a 422. Its field is relative to where checking began; `None` means
that Kubernetes names no field for it (it then prints `<nil>`).
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from muster.sim.apiserver.kinds import Cause

# Reasons after which CEL rules are not run: they would only fail in confusing ways.
BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_NO_VALUE: Final = object()
_TITLES: Final = {
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
}
_WITHOUT_VALUE: Final = frozenset(
    {"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong"}
)


@dataclass(frozen=True, slots=True)
class Fault:
    reason: str
    field: str | None
    detail: str = ""
    value: Any = _NO_VALUE

    @property
    def body(self) -> str:
        """The text without the field."""
        words = _TITLES.get(self.reason, "Invalid value")
        if self.reason not in _WITHOUT_VALUE and self.value is not _NO_VALUE:
            words += f": {shown(self.value)}"
        return f"{words}: {self.detail}" if self.detail else words

    def cause(self, prefix: str = "") -> Cause:
        return Cause(self.reason, self.body, placed(prefix, self.field))


def invalid(field: str | None, detail: str, value: Any = "") -> Fault:
    return Fault("FieldValueInvalid", field, detail, value)


def omitted(field: str | None, detail: str) -> Fault:
    """An invalid object or list, whose value is too long to print."""
    return Fault("FieldValueInvalid", field, detail)


def wrong_type(path: str, wanted: str, found: str) -> Fault:
    detail = f"{path} in body must be of type {wanted}: {shown(found)}"
    return Fault("FieldValueTypeInvalid", path, detail, found)


def required(path: str, detail: str = "") -> Fault:
    return Fault("FieldValueRequired", path, detail)


def duplicate(path: str, value: Any) -> Fault:
    return Fault("FieldValueDuplicate", path, "", value)


def too_many(path: str, count: int, most: int) -> Fault:
    noun = "item" if most == 1 else "items"
    return Fault("FieldValueTooMany", path, f"must have at most {most} {noun}", count)


def too_long(path: str, most: int) -> Fault:
    noun = "byte" if most == 1 else "bytes"
    return Fault("FieldValueTooLong", path, f"may not be more than {most} {noun}")


def unsupported(path: str, value: Any, known: tuple[Any, ...]) -> Fault:
    texts = [item if isinstance(item, str) else _json(item) for item in known]
    detail = "supported values: " + ", ".join(_json(text) for text in texts) if texts else ""
    return Fault("FieldValueNotSupported", path, detail, value)


def placed(prefix: str, field: str | None) -> str:
    """The full path of a field below a prefix; `<nil>` for no field at all."""
    field = (field or "").removeprefix(".")
    if not field:
        return prefix or "<nil>"
    if not prefix or field.startswith("["):
        return prefix + field
    return f"{prefix}.{field}"


def shown(value: Any) -> str:
    """A value as Kubernetes prints it in a message."""
    return go_number(value) if isinstance(value, float) else _json(value)


def go_number(value: float) -> str:
    """A float as Go's %v prints it."""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if mark and -5 <= int(exponent) < 21:
        return f"{value:f}".rstrip("0")
    return f"{mantissa}e{int(exponent):+03d}" if mark else text


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.replace("\x7f", "\\x7f")
