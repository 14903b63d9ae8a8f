"""What a configured HTTP server is asked besides us, and what it said last (Volcano's `extender`).

The answers are facts of a cycle like all else that is watched: they were given before it began.
"""

from collections.abc import Mapping

import msgspec


class ExtenderSettings(msgspec.Struct, frozen=True):
    """Whom to ask, and what."""

    url: str
    verbs: Mapping[str, str]
    """By what is asked, such as "predicate": the last part of the address."""
    timeout_s: float = 1.0
    is_ignorable: bool = False
    """Whether a question that fails counts as if nobody had been asked."""
    managed: frozenset[str] = frozenset()
    """Only pods that ask for one of these resources concern the server; empty: all do."""


class Verdict(msgspec.Struct, frozen=True):
    """What was said of equal tasks of a job."""

    crowd: Mapping[str, int] = {}
    """By node that was asked about: its crowd at that time (see `crowds` of the plugin). While the
    node has another, what was said of it does not count."""
    refused: Mapping[str, str] = {}
    """Of these the nodes that may not take them, and why."""
    scores: Mapping[str, float] = {}
    may_start: bool = False
    """Whether all was answered that they have to wait for."""
    preemptable: tuple[str, ...] | None = ()
    """Who may go for them, by uid; None: no say."""
    reclaimable: tuple[str, ...] | None = ()


class ExtenderAnswers(msgspec.Struct, frozen=True):
    """All that was said. Whoever is in none of it has not been asked about yet."""

    verdicts: tuple[Verdict, ...] = ()
    of_task: Mapping[str, int] = {}
    """By uid: which of the verdicts."""
    overused: Mapping[str, bool] = {}
    """By queue."""
    enqueueable: Mapping[str, int] = {}
    """By job: above 0 let in, below 0 kept out, 0 no say."""


NO_ANSWERS = ExtenderAnswers()
