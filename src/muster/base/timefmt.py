"""Timestamps as text. Pure: what time it is, is `clock.py`'s affair."""

from datetime import UTC, datetime


def rfc3339(at_s: float) -> str:
    """A timestamp as Kubernetes writes it: whole seconds, UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
