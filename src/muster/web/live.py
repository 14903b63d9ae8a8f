"""The live cluster as a situation: what `muster web` answers from.

It reads like a scheduler and decides like one, and has no means to write. What it computed for one
state of the cluster serves all questions about it; questions are answered one at a time, off the
event loop.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from muster.base.clock import Clock
from muster.base.offload import Offload
from muster.foresight.plan import digest_of
from muster.foresight.situation import Rules, Situation
from muster.foresight.variants import Variants
from muster.foresight.why import Questions
from muster.model.snapshot import ClusterSnapshot
from muster.web.submission import Surroundings

T = TypeVar("T")
_FRESH_S = 1.0
"""The cluster is looked at again at most so often."""
_WAITING_MAX = 32


class TooBusy(Exception):
    """More is asked than can be answered."""


class NotReady(Exception):
    """The cluster has not been read yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One state of the cluster, and what was computed from it."""

    questions: Questions
    state: Variants
    """As it is, before anything is decided: for plans."""
    rules_digest: str

    @property
    def situation(self) -> Situation:
        return self.questions.situation


class Source(Protocol):
    """Where the cluster is read from."""

    def snapshot(self, now_s: float) -> ClusterSnapshot:
        """Raises `NotReady`."""
        ...

    def rules(self) -> tuple[Rules, str]:
        """The rules in force, and their text."""
        ...

    def surroundings(self) -> Surroundings: ...


class LiveCluster:
    """Answers questions about a source, one at a time."""

    def __init__(
        self,
        source: Source,
        clock: Clock,
        offload: Offload,
        journal_folder: Path | None = None,
        token_key: bytes = b"",
    ) -> None:
        self.source = source
        self.clock = clock
        self.journal_folder = journal_folder
        self.token_key = token_key
        self._offload = offload
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._seen: Seen | None = None
        self._seen_at_s = float("-inf")

    async def ask(self, question: Callable[[Seen], T]) -> T:
        """The answer to a question, about the cluster as it is. Raises `TooBusy`, `NotReady`."""
        if self._waiting >= _WAITING_MAX:
            raise TooBusy(f"{_WAITING_MAX} questions are waiting already: ask again in a second")
        self._waiting += 1
        try:
            async with self._turn:
                seen = await self._current()
                return await self._offload(lambda: question(seen))
        finally:
            self._waiting -= 1

    async def _current(self) -> Seen:
        at_s = self.clock.monotonic_s()
        if self._seen is not None and at_s - self._seen_at_s < _FRESH_S:
            return self._seen
        now_s = self.clock.now_s()
        snapshot = self.source.snapshot(now_s)
        rules, text = self.source.rules()
        before = self._seen
        self._seen_at_s = at_s
        if before is None or not _is_same(before, snapshot, rules):
            situation = Situation(snapshot, rules, now_s)
            self._seen = await self._offload(lambda: self._made(situation, text))
        assert self._seen is not None
        return self._seen

    def _made(self, situation: Situation, text: str) -> Seen:
        questions = Questions(situation, self.clock.monotonic_s)
        return Seen(questions, Variants(situation.records), digest_of(text))


def _is_same(before: Seen, snapshot: ClusterSnapshot, rules: Rules) -> bool:
    return (
        before.situation.snapshot.generation == snapshot.generation
        and before.situation.rules.policy is rules.policy
    )
