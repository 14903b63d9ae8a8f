"""Names of jobs are for those who may list pod groups in their namespace.

Others see that there is a job, its queue, its size and why it waits: under a name of ours, the same
each time, from which nobody finds the real one. A veil is laid over whole answers, texts included:
whoever writes a new one need not think of it.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

HIDDEN: Final = "hidden"
"""In place of a namespace."""
_JOB: Final = re.compile(
    r"(?<![\w.-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([a-z0-9][-a-z0-9.]*(?:/[-a-z0-9.]+)*)"
)
"""With all that follows: in `podgroups/NAMESPACE/NAME` the name stands last."""
_PROBES: Final = ("search", "user", "namespace", "actor")
"""Questions that would tell a hidden name to whoever guesses it."""


def guesses(query: Mapping[str, str]) -> bool:
    """Whether a name could be guessed with this question."""
    return any(query.get(name) for name in _PROBES)


@dataclass(frozen=True, slots=True)
class Veil:
    """Over all namespaces but the visible ones."""

    visible: frozenset[str]
    key: bytes = field(repr=False)

    def hides(self, job: str) -> bool:
        return job.partition("/")[0] not in self.visible

    def over(self, body: bytes, query: Mapping[str, str]) -> bytes:
        """An answer as it may be seen; `query`: what was asked for."""
        answer = self._over(msgspec.json.decode(body))
        items = answer.get("items") if isinstance(answer, dict) else None
        if isinstance(items, list) and guesses(query):
            shown = [one for one in items if _is_named(one)]
            answer |= {"items": shown, "total": len(shown)}
        return msgspec.json.encode(answer)

    def _over(self, value: Any) -> Any:
        if isinstance(value, str):
            return _JOB.sub(self._named, value)
        if isinstance(value, list):
            return [self._over(one) for one in value]
        if isinstance(value, dict):
            found = {self._over(name): self._over(inner) for name, inner in value.items()}
            return found if _is_named(found) else self._without_user(found)
        return value

    def _without_user(self, found: dict[Any, Any]) -> dict[Any, Any]:
        """Of a hidden job; or of all jobs of that user, hidden ones among them."""
        user = found.get("user")
        if not isinstance(user, str) or not user:
            return found
        name = found.get("name")
        shown = {"name": name.replace(user, self._alias(user))} if isinstance(name, str) else {}
        return found | shown | {"user": ""}

    def _named(self, job: "re.Match[str]") -> str:
        if job[1] in self.visible:
            return job[0]
        return self._alias(job[0])

    def _alias(self, name: str) -> str:
        digest = hmac.new(self.key, name.encode(), hashlib.sha256).hexdigest()
        return f"{HIDDEN}/{digest[:10]}"


def _is_named(item: Any) -> bool:
    """Whether it is about one job, whose name may be seen."""
    if not isinstance(item, dict):
        return False
    names = [name for name in map(item.get, ("key", "job")) if name]
    return bool(names) and not any(str(name).startswith(f"{HIDDEN}/") for name in names)
