"""`resourcequota`: no group is let in whose pods its namespace could not create, and namespaces
share a queue by the weight that their quotas say.
"""

from collections.abc import Mapping

import numpy as np

from muster.api.kinds import RESOURCE_QUOTA
from muster.api.quantity import BadQuantity, parse
from muster.api.volcano import NAMESPACE_WEIGHT
from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.tiers.accounts import Accounts
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.model.ledger import Entries
from muster.model.requests import resource_amounts
from muster.numerics.arrays import Floats, Ints, Rows
from muster.numerics.axis import PODS

_WEIGHT_MAX = 1 << 20
_PODS = ("pods", "count/pods")
"""What quotas call the number of pods."""


class ResourceQuotas(WithoutArguments):
    """Volcano's `resourcequota`. Where a quota has `volcano.sh/namespace.weight` in `hard`, as the
    Volcano of 2021 reads it, jobs of the namespace go first that holds least for its weight.
    """

    name = "resourcequota"
    watches = (RESOURCE_QUOTA,)

    def open(self, view: View) -> SessionPlugin:
        objects = view.snapshot.cluster_objects.others.get(RESOURCE_QUOTA.full_name, {})
        hard = {key: _hard(quota) for key, quota in objects.items()}
        weights = _weights(hard)
        return _WeightedQuotas(objects, hard, weights) if weights else _Quotas(objects, hard)


class _Quotas(TieredPlugin):
    def __init__(
        self, objects: Mapping[str, Mapping[str, object]], hard: Mapping[str, object]
    ) -> None:
        self._quotas: dict[str, list[tuple[Mapping[str, int], Mapping[str, int]]]] = {}
        for key, quota in objects.items():
            used = _part(quota, "status").get("used")
            pair = (_amounts(hard[key]), _amounts(used))
            self._quotas.setdefault(key.partition("/")[0], []).append(pair)

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups
        self._promised: dict[str, dict[str, int]] = {}

    def job_enqueueable(self, job: int) -> Vote:
        namespace = self._groups.snapshot.jobs.keys[job].partition("/")[0]
        wanted = self._wanted(job)
        promised = self._promised.get(namespace, {})
        for hard, used in self._quotas.get(namespace, ()):
            for name, amount in wanted.items():
                total = used.get(name, 0) + promised.get(name, 0) + amount
                if name in hard and total > hard[name]:
                    return Vote.REJECT
        return Vote.PERMIT

    def job_enqueued(self, job: int) -> None:
        namespace = self._groups.snapshot.jobs.keys[job].partition("/")[0]
        promised = self._promised.setdefault(namespace, {})
        for name, amount in self._wanted(job).items():
            promised[name] = promised.get(name, 0) + amount

    def _wanted(self, job: int) -> Mapping[str, int]:
        """What the pods of its minimum ask for; and these pods, where the group does not say it."""
        least = self._groups.terms(job)
        return {**dict.fromkeys(_PODS, least.minimum), **(least.min_resources or {})}


class _WeightedQuotas(_Quotas):
    job_keys_move = True

    def __init__(
        self,
        objects: Mapping[str, Mapping[str, object]],
        hard: Mapping[str, object],
        weights: Mapping[str, float],
    ) -> None:
        super().__init__(objects, hard)
        self._weights = weights

    def begin(self, tiers: Rules) -> None:
        super().begin(tiers)
        names = [str(key).partition("/")[0] for key in tiers.groups.snapshot.jobs.keys]
        row = {name: at for at, name in enumerate(sorted(set(names)))}
        self._row: Ints = np.array([row[name] for name in names], dtype=np.int64)
        self._weight: Floats = np.array([self._weights.get(name, 1.0) for name in row])
        self._accounts = Accounts(tiers.groups)
        total = tiers.groups.total.astype(np.float64)
        total[PODS] = 0
        self._total = np.where(total > 0, total, np.inf)

    def on_ledger_change(self, entries: Entries) -> None:
        self._accounts.on_ledger_change(entries)

    def job_keys(self, jobs: Rows) -> Floats:
        """What the job's namespace holds of the cluster, for its weight."""
        held = np.zeros((len(self._weight), len(self._total)))
        np.add.at(held, self._row, self._accounts.job[: len(self._row)])
        shares = (held / self._total).max(axis=1) / self._weight
        return np.asarray(shares[self._row[jobs]][:, np.newaxis])


def _part(found: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = found.get(name)
    return part if isinstance(part, Mapping) else {}


def _hard(quota: Mapping[str, object]) -> object:
    return _part(quota, "status").get("hard") or _part(quota, "spec").get("hard")


def _weights(hard: Mapping[str, object]) -> Mapping[str, float]:
    """By namespace, where a quota says one; the largest of several."""
    found: dict[str, float] = {}
    for key, amounts in hard.items():
        text = amounts.get(NAMESPACE_WEIGHT) if isinstance(amounts, Mapping) else None
        try:
            weight = 0 if text is None else min(parse(str(text)).value, _WEIGHT_MAX)
        except BadQuantity:
            continue
        namespace = key.partition("/")[0]
        if weight >= 1:
            found[namespace] = max(float(weight), found.get(namespace, 0.0))
    return found


def _amounts(resources: object) -> dict[str, int]:
    """What a quota counts of requests, by the names of the axis."""
    if not isinstance(resources, Mapping):
        return {}
    found = {}
    for name, text in resources.items():
        try:
            found[str(name).removeprefix("requests.")] = parse(str(text))
        except BadQuantity:
            continue
    return resource_amounts(found)
