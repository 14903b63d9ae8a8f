"""Leader election on a Lease: of several replicas one leads, and another takes over when it stops.

Nobody compares clocks. A lease counts as abandoned when *we* have seen it unchanged for its whole
duration, by our own monotonic clock. A leader that could not renew for `renew_s` stops leading
before anybody else may start, because `renew_s` is shorter than `lease_s`.

`leads_for_s` is the fence around all that only a leader may do: the writes of a service ask it one
by one (`Connection.leads_for_s`), so that nothing depends on who hears of a loss how soon.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from muster.api.coordination import Lease, micro_time
from muster.api.kinds import LEASE
from muster.api.meta import Key
from muster.base.log import Log
from muster.client.errors import (
    Conflict,
    Deposed,
    NotFound,
    described,
)
from muster.client.limits import Lane
from muster.client.read import Reader
from muster.client.write import Writer


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a lease lasts, how long a leader tries to renew it, and how often all try."""

    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 5.0

    def __post_init__(self) -> None:
        if not self.lease_s > self.renew_s > self.retry_s > 0:
            raise ValueError(f"a lease must outlast renewal, and renewal a retry: {self}")


KAI_TIMING = Timing()


class LeadershipLost(Deposed):
    """Somebody else leads, or may lead by now."""


class Elector:
    """One candidate for one lease."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        lease: Key,
        identity: str,
        *,
        log: Log,
        timing: Timing = KAI_TIMING,
    ) -> None:
        self.identity = identity
        self.leader = ""
        self._reader = reader
        self._writer = writer
        self._clock = reader.connection.clock
        self._rand = reader.connection.rand
        self._lease = lease
        self._log = log
        self._timing = timing
        self._seen: Lease | None = None
        self._seen_s = 0.0
        self._renewed_s = 0.0
        self._leading = False

    @property
    def is_leader(self) -> bool:
        return self.leads_for_s() > 0

    def leads_for_s(self) -> float:
        """For how long we surely lead: until `renew_s` after we last asked and were answered."""
        if not self._leading:
            return 0.0
        return max(self._renewed_s + self._timing.renew_s - self._clock.monotonic_s(), 0.0)

    async def acquire(self) -> None:
        """Wait until we lead."""
        while not await self._tried():
            await self._clock.sleep(self._rand.jittered(self._timing.retry_s, 0.1))
        self._leading = True
        self._log.info("started leading", lease=str(self._lease), identity=self.identity)

    async def renew(self) -> None:
        """Renew for as long as we can; raises `LeadershipLost` when that is no longer certain."""
        while True:
            await self._clock.sleep(self._timing.retry_s)
            left_s = self.leads_for_s()
            if left_s <= 0:  # we were frozen, or held up for that long
                raise self._lost(f"not renewed for {self._timing.renew_s} s")
            try:
                async with asyncio.timeout(left_s):
                    while not await self._tried():
                        if self.leader not in ("", self.identity):
                            raise self._lost(f"{self.leader} leads")
                        await self._clock.sleep(self._timing.retry_s / 5)
            except TimeoutError:
                why = f"not renewed for {self._timing.renew_s} s"
                raise self._lost(why) from None

    async def release(self) -> None:
        """Let go at once, so that the next need not wait out the lease. End `renew` first."""
        led, self._leading = self.is_leader, False
        if not led:
            return
        spec = {"holderIdentity": None, "leaseDurationSeconds": 1, **self._renewal()}
        try:
            await self._patch(spec)
        except Exception as error:  # noqa: BLE001 - it runs out by itself
            self._log.warning("lease not released", lease=str(self._lease), error=described(error))

    def _lost(self, why: str) -> LeadershipLost:
        self._leading = False
        return LeadershipLost(f"lease {self._lease}: {why}")

    async def _tried(self) -> bool:
        """One attempt to become or stay the leader."""
        try:
            return await self._attempt()
        except Conflict:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            self._log.warning(
                "election attempt failed", lease=str(self._lease), error=described(error)
            )
            return False

    async def _attempt(self) -> bool:
        # Counted from before the call: by the server's clock the renewal is never older than that.
        asked_s = self._clock.monotonic_s()
        try:
            self._observe(await self._reader.get(LEASE, self._lease, lane=Lane.LEASE))
        except NotFound:
            self._observe(await self._create())
        else:
            if not self._may_acquire():
                return False
            self._observe(await self._patch(self._claim()))
        self._renewed_s = asked_s
        return True

    def _observe(self, lease: Lease) -> None:
        """Start the clock anew whenever the holder shows a sign of life."""
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_s = self._clock.monotonic_s()
        self._seen = lease
        holder = lease.spec.holder_identity or ""
        if holder != self.leader:
            self._log.info("leader observed", lease=str(self._lease), leader=holder or "nobody")
        self.leader = holder

    def _may_acquire(self) -> bool:
        assert self._seen is not None, "a lease is observed before it is judged"
        if self.leader in ("", self.identity):
            return True
        lasts_s = self._seen.spec.lease_duration_seconds or self._timing.lease_s
        return self._clock.monotonic_s() - self._seen_s > lasts_s

    async def _create(self) -> Lease:
        spec = {**self._claim(), "leaseTransitions": 0}
        body = {"metadata": {"name": self._lease.name}, "spec": spec}
        return await self._writer.create(LEASE, body, self._lease.namespace, lane=Lane.LEASE)

    async def _patch(self, spec: dict[str, Any]) -> Lease:
        assert self._seen is not None, "a lease is observed before it is changed"
        version = {"resourceVersion": self._seen.metadata.resource_version}
        patch = {"metadata": version, "spec": spec}
        return await self._writer.patch(LEASE, self._lease, patch, lane=Lane.LEASE)

    def _claim(self) -> dict[str, Any]:
        claim = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._timing.lease_s),
            **self._renewal(),
        }
        if self.leader != self.identity:
            claim["acquireTime"] = claim["renewTime"]
            seen = self._seen.spec.lease_transitions if self._seen else None
            claim["leaseTransitions"] = (seen or 0) + 1
        return claim

    def _renewal(self) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock.now_s(), UTC)
        return {"renewTime": micro_time(now)}
