"""The live cluster as a situation: what `muster web` answers from.

It reads like a scheduler and decides like one, and has no means to write. What it computed for one
state of the cluster serves all questions about it; questions are answered one at a time, readers by
turns, off the event loop.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from muster.base.clock import Clock
from muster.base.offload import Offload
from muster.engine.config.told import told
from muster.foresight.plan import digest_of
from muster.foresight.situation import Rules, Situation
from muster.foresight.variants import Variants
from muster.foresight.why import Questions
from muster.web.frame import Frame
from muster.web.submission import Surroundings
from muster.web.turns import Turns

T = TypeVar("T")
_FRESH_S = 1.0
"""The cluster is looked at again at most so often."""
_SEARCH_S = 5.0
"""The searches of a cycle that is only asked about end then; those of a live one have minutes."""


class NotReady(Exception):
    """The cluster has not been read yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One state of the cluster, and what was computed from it."""

    questions: Questions
    state: Variants
    """As it is, before anything is decided: for plans."""
    rules_digest: str
    revision: int
    """The look at the cluster that it is of."""

    @property
    def situation(self) -> Situation:
        return self.questions.situation


class Source(Protocol):
    """Where the cluster is read from."""

    def situation(self) -> Situation:
        """The newest; raises `NotReady`."""
        ...

    @property
    def revision(self) -> int:
        """The number of the look that showed it."""
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
        name: str = "",
    ) -> None:
        self.name = name
        self.source = source
        self.clock = clock
        self.journal_folder = journal_folder
        self.token_key = token_key
        self.offload = offload
        self._turns = Turns()
        self._seen: Seen | None = None
        self._seen_at_s = float("-inf")

    async def ask(self, question: Callable[[Seen], T], reader: str = "") -> T:
        """The answer to a question, about the cluster as it is, when it is the reader's turn.
        Raises `TooBusy`, `NotReady`.
        """
        async with self._turns.turn(reader):
            seen = await self._current()
            return await self.offload(lambda: question(seen))

    async def _current(self) -> Seen:
        at_s, before = self.clock.monotonic_s(), self._seen
        if before is not None and at_s - self._seen_at_s < _FRESH_S:
            return before
        revision = self.source.revision
        situation = replace(
            self.source.situation(), elapsed_s=self.clock.monotonic_s, search_s=_SEARCH_S
        )
        self._seen_at_s = at_s
        if before is not None and _is_same(before.situation, situation):
            return before
        self._seen = made = await self.offload(lambda: self._made(situation, revision))
        return made

    def frame(self, seen: Seen | None = None) -> Frame:
        """Of a list of what was seen; without it: of what no look at the cluster told."""
        if seen is None:
            return Frame(self.name, self.clock.now_s(), self.source.revision)
        return Frame(self.name, seen.situation.now_s, seen.revision)

    def _made(self, situation: Situation, revision: int) -> Seen:
        questions = Questions(situation, self.clock.monotonic_s)
        state, digest = Variants(situation.records), rules_digest(situation.rules)
        return Seen(questions, state, digest, revision)


def rules_digest(rules: Rules) -> str:
    """Of what is configured: what a token's rules are compared by. Never of plugins themselves,
    which may remember things; where there is no configuration, of their names.
    """
    policy = rules.policy
    plugins = [(tier, plugin.name) for tier, plugin in policy.plugins]
    configured = {} if policy.written is None else told(policy.written)
    names = [name for name, _ in rules.actions]
    return digest_of([configured, plugins, repr(policy.settings), names])


def _is_same(before: Situation, now: Situation) -> bool:
    return (
        before.snapshot.generation == now.snapshot.generation
        and before.rules.policy is now.rules.policy
    )
