"""How votes become one answer: by tier, with abstention.

A plugin answers a vote for all rows at once, True or False, or abstains with None. Where everybody
counts (KAI), tiers are only an order and all who vote must agree. Where tiers fall through
(Volcano), all who vote in a tier must agree, and the first tier that says something decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

import numpy as np

from muster.numerics.arrays import Bools


class Voting(Enum):
    """Who decides."""

    EVERYBODY = "all who vote, in whatever tier, must agree; without votes it is yes"
    FIRST_TIER = "the first tier in which somebody votes decides; without votes it is yes"
    FIRST_CHOICE = "the first tier that agrees on somebody decides; without one it is nobody"


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one plugin says, and its tier; None abstains."""

    tier: int
    vote: Bools | None


def counted(size: int, ballots: Sequence[Ballot], voting: Voting) -> Bools:
    """The outcome for each of `size` rows. Ballots are in the order of their tiers."""
    if voting is Voting.EVERYBODY:
        return _agreed(size, ballots)
    for _, tier in groupby(ballots, key=lambda ballot: ballot.tier):
        cast = [ballot for ballot in tier if ballot.vote is not None]
        agreed = _agreed(size, cast)
        if cast and (voting is Voting.FIRST_TIER or agreed.any()):
            return agreed
    return np.full(size, voting is Voting.FIRST_TIER, dtype=np.bool_)


def _agreed(size: int, ballots: Iterable[Ballot]) -> Bools:
    agreed = np.ones(size, dtype=np.bool_)
    for ballot in ballots:
        if ballot.vote is not None:
            agreed &= ballot.vote
    return agreed
