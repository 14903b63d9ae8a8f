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


def fair_shares(claims: Claims, total: Floats, usage_weight: float) -> Floats:
    """The share of every queue, float64[Q, R], of `total` float64[R].

    `usage_weight` says how strongly past use counts against a queue (0: not at all).
    """
    start, rows = children(claims.parent, claims.rank)
    order = top_down(claims.parent)
    share = np.zeros_like(claims.quota)
    wanted = _requestable(claims)
    for resource in range(total.shape[0]):
        share[:, resource] = _divide_forest(
            float(total[resource]),
            order,
            start,
            rows,
            claims.priority,
            np.ascontiguousarray(claims.quota[:, resource]),
            np.ascontiguousarray(wanted[:, resource]),
            np.ascontiguousarray(np.maximum(claims.weight[:, resource], 0.0)),
            np.ascontiguousarray(claims.usage[:, resource]),
            float(usage_weight),
        )
    return share


def allocatable_share(quota: Floats, limit: Floats, share: Floats) -> Floats:
    """What a queue may count as its own: the larger of quota and share, within its limit.

    Same shape in and out; UNLIMITED where nothing bounds it.
    """
    bounded = np.where(quota == UNLIMITED, limit, np.maximum(quota, share))
    capped = np.where(
        (limit != UNLIMITED) & (quota != UNLIMITED), np.minimum(bounded, limit), bounded
    )
    return np.asarray(capped, dtype=np.float64)


def _requestable(claims: Claims) -> Floats:
    within = np.minimum(claims.limit, claims.request)
    return np.where(claims.limit == UNLIMITED, claims.request, within)


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
