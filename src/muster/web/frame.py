"""The frame of every list that is answered: what it is a list of, and of which moment it tells."""

from typing import Any, NamedTuple


class Frame(NamedTuple):
    """Which cluster, when, and after how many looks at it. Without them: it is not asked about."""

    cluster: str = ""
    at_s: float = 0.0
    revision: int = 0

    def listed(self, kind: str, items: Any, **more: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "version": 1,
            "cluster": self.cluster,
            "at": self.at_s,
            "rev": self.revision,
            "items": items,
            **more,
        }
