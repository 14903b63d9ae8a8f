"""DeviceQuota: how many devices of a class queues may hold, by the claims of their pods.

Queues name them `deviceclass/CLASS` in `capability`. A claim that several pods use counts once.
"""

from collections import Counter

from muster.engine.tiers.accounts import held_change
from muster.engine.tiers.groups import IS_HELD, Groups
from muster.model.ledger import Entries

_PREFIX = "deviceclass/"


class DeviceQuota:
    """Devices of each class by queue."""

    def __init__(self, groups: Groups, chains: list[list[int]]) -> None:
        self._groups, self._chains = groups, chains
        self._bound = [
            {
                name.removeprefix(_PREFIX): amount
                for name, amount in groups.queue(queue).capability.items()
                if name.startswith(_PREFIX)
            }
            for queue in range(len(chains))
        ]
        self._users: list[Counter[str]] = [Counter() for _ in chains]
        """By queue: how many tasks use each claim."""
        self._entered: list[Counter[str]] = [Counter() for _ in chains]
        if self.has_bounds:
            for job in groups.jobs():
                for task in groups.in_status(job, IS_HELD).tolist():
                    self._use(task, 1)

    @property
    def has_bounds(self) -> bool:
        return any(self._bound)

    def on_ledger_change(self, entries: Entries) -> None:
        changes = held_change(entries)
        for task, change in zip(entries.task.tolist(), changes.tolist(), strict=True):
            if change:
                self._use(task, change)

    def may_hold(self, queue: int, task: int) -> bool:
        return all(self._fits(each, self._claims(task), Counter()) for each in self._chains[queue])

    def may_enter(self, queue: int, job: int) -> bool:
        claims = self._wanted(job)
        return all(self._fits(each, claims, self._entered[each]) for each in self._chains[queue])

    def enter(self, queue: int, job: int) -> None:
        for each in self._chains[queue]:
            for claim in self._wanted(job):
                self._entered[each].update(self._devices(claim))

    def _wanted(self, job: int) -> set[str]:
        return {c for task in self._groups.pending(job).tolist() for c in self._claims(task)}

    def _fits(self, queue: int, claims: set[str], entered: Counter[str]) -> bool:
        bound = self._bound[queue]
        if not bound or not claims:
            return True
        used = Counter(entered)
        for claim in {each for each, n in self._users[queue].items() if n > 0} | claims:
            used.update(self._devices(claim))
        return all(used[name] <= most for name, most in bound.items())

    def _use(self, task: int, change: int) -> None:
        job = int(self._groups.snapshot.tasks.job[task])
        queue = int(self._groups.snapshot.jobs.queue[job]) if job >= 0 else -1
        for each in self._chains[queue] if queue >= 0 else ():
            for claim in self._claims(task):
                self._users[each][claim] += change

    def _claims(self, task: int) -> set[str]:
        """Keys of the claims that the task uses."""
        record = self._groups.snapshot.tasks.records[task]
        named = {claim.name for claim in record.constraints.claims if claim.name}
        return {f"{record.namespace}/{name}" for name in named | set(record.claims.values())}

    def _devices(self, claim: str) -> Counter[str]:
        found = self._groups.snapshot.cluster_objects.device_claims.get(claim)
        devices: Counter[str] = Counter()
        for request in found.spec.devices.requests if found is not None else ():
            exactly = request.exactly
            if exactly is not None:
                devices[exactly.device_class_name] += exactly.count or 1
        return devices
