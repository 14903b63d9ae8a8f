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

from muster.model.reason_codes import CODES
from muster.web.hidden_names import NOBODY, HiddenNames

_MEANINGS: Final = {str(code): meaning for code, meaning in CODES.items()}
HIDDEN: Final = "hidden"
"""In place of a namespace."""
_JOB: Final = re.compile(
    r"(?<![\w.-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([a-z0-9][-a-z0-9.]*(?:/[-a-z0-9.]+)*)"
)
"""With all that follows: in `podgroups/NAMESPACE/NAME` the name stands last."""
_BARE: Final = re.compile(r"(?<![\w./-])[a-z0-9]+(?:[-.][a-z0-9]+)+(?![\w/-])")
"""A word that no sentence has by chance: names of pods, and most of jobs."""
_PROBES: Final = ("search", "pod", "user", "namespace", "actor", "labels")
"""Questions that would tell a hidden name to whoever guesses it."""


def guesses(query: Mapping[str, str]) -> bool:
    """Whether a name could be guessed with this question."""
    return any(query.get(name) for name in _PROBES)


@dataclass(frozen=True, slots=True)
class Veil:
    """Over all namespaces but the visible ones."""

    visible: frozenset[str]
    key: bytes = field(repr=False)
    names: HiddenNames = NOBODY
    """What jobs of the others are called where no namespace stands before it."""

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
            text = _JOB.sub(self._named, value)
            return _BARE.sub(self._bare, text) if " " in text else text
        if isinstance(value, list):
            return [self._over(one) for one in value]
        if isinstance(value, dict):
            found = {self._over(name): self._over(inner) for name, inner in value.items()}
            return found if _is_named(found) else self._without_user(_without_words(found))
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

    def _bare(self, word: "re.Match[str]") -> str:
        return self._alias(word[0]) if self.names.has(word[0]) else word[0]

    def _alias(self, name: str) -> str:
        digest = hmac.new(self.key, name.encode(), hashlib.sha256).hexdigest()
        return f"{HIDDEN}/{digest[:10]}"


def _without_words(item: dict[Any, Any]) -> dict[Any, Any]:
    """Of a hidden job why it waits is told by what its code means: what is said of it in particular
    may be in words of its owner (a hold), or name what only its namespace has (a volume)."""
    if not _is_hidden(item):
        return item
    nameless = item | {"known_as": []} if "known_as" in item else item
    return {name: _meant(value) for name, value in _meant(nameless).items()}


def _meant(said: Any) -> Any:
    if isinstance(said, list):
        return [_meant(one) for one in said]
    meaning = _MEANINGS.get(said.get("code", "")) if isinstance(said, dict) else None
    if meaning is None:
        return said
    words = {"message": meaning.cause, "because": meaning.cause, "subject": ""}
    return said | {name: text for name, text in words.items() if said.get(name)}


def _is_hidden(item: dict[Any, Any]) -> bool:
    return any(str(item.get(name)).startswith(f"{HIDDEN}/") for name in ("key", "job"))


def _is_named(item: Any) -> bool:
    """Whether it is about one job, whose name may be seen."""
    if not isinstance(item, dict):
        return False
    return any(map(item.get, ("key", "job"))) and not _is_hidden(item)
