"""Fair share: who is entitled to how much of what there is.

One resource is divided among siblings in three steps. Each queue gets its quota, as far as it
asks for it. What remains goes to the queues that want more, higher priority first and inside one
priority by weight, in whole units. The units that weights could not divide go one by one to the
largest remainders, higher priority first and older queues first. Then every queue's share is
divided among its children in the same way.

Past use counts against a queue as a fraction of what its siblings divide. For queues at the top
that is the cluster; further down it is what the parent has, or what all siblings used together
where that was more. So a correction is as strong at every depth, and the fractions of siblings
below the top never add up to more than one: some queue is always below its part.

Amounts are float64 in units that are not split (whole GPUs, milli-CPU, bytes). UNLIMITED stands for
no limit, or for a quota of everything. Axes: Q queues, R resources. No queue ever gets more than it
requests or may hold; the shares add up to at most the total, unless quotas alone exceed it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from muster.numerics.tree import Floats, Ints, children, top_down

UNLIMITED = -1.0


@dataclass(frozen=True, slots=True)
class Claims:
    """What every queue of a forest may and wants to hold; float64[Q, R] where not said."""

    parent: Ints  # [Q], -1 for roots
    rank: Ints  # [Q], older queues first; settles every tie
    priority: Ints  # [Q]
    quota: Floats
    limit: Floats
    weight: Floats
    request: Floats
    usage: Floats  # past use, as a fraction of the whole cluster


class Forest(NamedTuple):
    """The tree of queues, as dividing goes through it."""

    order: Ints  # [Q], every parent before its children
    start: Ints  # [Q + 2]: children, as of `tree.children`
    rows: Ints  # [Q]
    priority: Ints  # [Q]


def forest_of(claims: Claims) -> Forest:
    start, rows = children(claims.parent, claims.rank)
    return Forest(top_down(claims.parent), start, rows, claims.priority)


def fair_shares(claims: Claims, total: Floats, usage_weight: float) -> Floats:
    """The share of every queue, float64[Q, R], of `total` float64[R].

    `usage_weight` says how strongly past use counts against a queue (0: not at all).
    """
    forest = forest_of(claims)
    share = np.zeros_like(claims.quota)
    for resource in range(total.shape[0]):
        share[:, resource] = divide_forest(
            float(total[resource]),
            forest,
            _column(claims.quota, resource),
            _column(claims.limit, resource),
            _column(claims.request, resource),
            _column(claims.weight, resource),
            _column(claims.usage, resource),
            float(usage_weight),
        )
    return share


def _column(amounts: Floats, resource: int) -> Floats:
    return np.ascontiguousarray(amounts[:, resource], dtype=np.float64)


def allocatable_share(quota: Floats, limit: Floats, share: Floats) -> Floats:
    """What a queue may count as its own: the larger of quota and share, within its limit.

    Same shape in and out; UNLIMITED where nothing bounds it.
    """
    flat = (np.ascontiguousarray(each, dtype=np.float64).ravel() for each in (quota, limit, share))
    return np.asarray(_own_shares(*flat)).reshape(share.shape)


# Kernels have fixed signatures, so each is compiled where it stands: the innermost come first.
_f8 = numba.types.Array(numba.float64, 1, "C")
_i8 = numba.types.Array(numba.int64, 1, "C")


@numba.njit(numba.float64(numba.int64, numba.float64, _i8, _i8, _f8, _f8, _f8), cache=True)
def _give_remainders(level, remaining, siblings, priority, wanted, share, fraction):  # type: ignore[no-untyped-def]
    """One unit each to the largest fractions of one priority; what remains."""
    while remaining > 0.0:
        best = -1
        for q in siblings:
            wants_one = priority[q] == level and fraction[q] > 0.0
            if wants_one and (best < 0 or fraction[q] > fraction[best]):
                best = q
        if best < 0:
            break
        given = max(0.0, min(1.0, min(remaining, wanted[best] - share[best])))
        share[best] += given
        remaining -= given
        fraction[best] = 0.0
    return remaining


@numba.njit(
    numba.float64(numba.int64, numba.float64, _i8, _i8, _f8, _f8, _f8, numba.float64, _f8, _f8),
    cache=True,
)
def _divide_level(level, remaining, siblings, priority, wanted, weight, usage, k, share, fraction):  # type: ignore[no-untyped-def]
    """Whole units by weight among the queues of one priority; what remains.

    A queue that needs less than its part leaves the rest to the others, hence the rounds: each
    satisfies at least one queue or is the last.
    """
    pull = np.zeros(len(wanted))
    again = True
    while again and remaining > 0.0:
        again = False
        give = remaining
        weights = 0.0
        for q in siblings:
            if priority[q] == level and wanted[q] > share[q]:
                weights += weight[q]
        if weights <= 0.0:
            break
        pulls = 0.0
        for q in siblings:
            pull[q] = 0.0
            if priority[q] == level and wanted[q] > share[q]:
                part = weight[q] / weights
                pull[q] = max(0.0, part + k * (part - usage[q]))
                pulls += pull[q]
        if pulls <= 0.0:
            break
        for q in siblings:
            if priority[q] != level or wanted[q] <= share[q] or weight[q] == 0.0:
                continue
            if remaining <= 0.0:
                break
            due = give * pull[q] / pulls
            missing = wanted[q] - share[q]
            if missing <= due:
                given = min(missing, remaining)
                fraction[q] = 0.0
            else:
                given = min(np.floor(due), remaining)
                fraction[q] = due - np.floor(due)
            if given > 0.0:
                share[q] += given
                remaining -= given
                again = again or missing < due
    return remaining


@numba.njit(numba.void(numba.float64, _i8, _i8, _f8, _f8, _f8, _f8, numba.float64, _f8), cache=True)
def _divide_siblings(total, siblings, priority, quota, wanted, weight, usage, k, share):  # type: ignore[no-untyped-def]
    """Fill `share` at the rows of `siblings`, which come oldest first."""
    remaining = total
    for q in siblings:
        share[q] = min(total if quota[q] == UNLIMITED else quota[q], wanted[q])
        remaining -= share[q]
    if remaining <= 0.0:
        return
    levels = np.unique(-priority[siblings])
    fraction = np.zeros(len(wanted))
    for level in levels:
        remaining = _divide_level(
            -level, remaining, siblings, priority, wanted, weight, usage, k, share, fraction
        )
    for level in levels:
        remaining = _give_remainders(-level, remaining, siblings, priority, wanted, share, fraction)


@numba.njit(numba.void(_i8, numba.float64, _f8, _f8), cache=True)
def _scale_usage(siblings, part, usage, scaled):  # type: ignore[no-untyped-def]
    """Fill `scaled` at the rows of siblings that divide `part` of the cluster."""
    used = 0.0
    for q in siblings:
        used += usage[q]
    whole = max(part, used)
    for q in siblings:
        scaled[q] = usage[q] / whole if whole > 0.0 else 0.0


@numba.njit(_f8(numba.float64, _i8, _i8, _i8, _i8, _f8, _f8, _f8, _f8, numba.float64), cache=True)
def _divide_forest(total, order, start, rows, priority, quota, wanted, weight, usage, k):  # type: ignore[no-untyped-def]
    """Shares of one resource for every queue of the forest."""
    share = np.zeros(len(wanted))
    scaled = usage.copy()
    for step in range(-1, len(order)):
        above = order[step] if step >= 0 else -1
        siblings = rows[start[above + 1] : start[above + 2]]
        if len(siblings):
            amount = share[above] if above >= 0 else total
            if above >= 0 and k > 0.0 and total > 0.0:
                _scale_usage(siblings, amount / total, usage, scaled)
            _divide_siblings(amount, siblings, priority, quota, wanted, weight, scaled, k, share)
    return share


@numba.njit(cache=True)
def divide_forest(total, forest, quota, limit, request, weight, usage, k):  # type: ignore[no-untyped-def]
    """Shares of one resource for every queue; all but `total` and `k` float64[Q]."""
    wanted = np.empty(len(request))
    for q in range(len(request)):
        wanted[q] = request[q] if limit[q] == UNLIMITED else min(limit[q], request[q])
    weight = np.maximum(weight, 0.0)
    order, start, rows, priority = forest
    return _divide_forest(total, order, start, rows, priority, quota, wanted, weight, usage, k)


@numba.njit(cache=True)
def own_share(quota, limit, share):  # type: ignore[no-untyped-def]
    """`allocatable_share` of one queue and resource."""
    if quota == UNLIMITED:
        return limit
    own = max(quota, share)
    return own if limit == UNLIMITED else min(own, limit)


@numba.njit(cache=True)
def _own_shares(quota, limit, share):  # type: ignore[no-untyped-def]
    # numba's `vectorize` would compile it where all else runs interpreted.
    own = np.empty_like(share)
    for at in range(len(share)):
        own[at] = own_share(quota[at], limit[at], share[at])
    return own
