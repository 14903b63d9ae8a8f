"""Label selectors as they stand in objects (`matchLabels`, `matchExpressions`)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.selectors import LabelSelector


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether the selector selects these labels. An empty one selects all, a bad one nothing."""
    try:
        return msgspec.convert(selector, LabelSelector).matches(labels)
    except msgspec.ValidationError:
        return False


def labels_of(obj: Mapping[str, Any] | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels
