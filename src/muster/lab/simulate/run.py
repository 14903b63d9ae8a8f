"""Tells a story on a cluster of its own, from nothing to nothing."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from muster.base.clock import Clock
from muster.base.log import Level, Log, MemorySink, Sink
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.hosting import ensure
from muster.lab.install import Installation
from muster.lab.simulate.act import Actor
from muster.lab.simulate.endings import left_behind, wrong_at_rest
from muster.lab.simulate.files import SchedulerFiles, needs_files
from muster.lab.simulate.gates import GatedLoop
from muster.lab.simulate.invariants import Violation, Watchman, chained
from muster.lab.simulate.manifests import HOME, QUEUE, cluster_objects, queue_body
from muster.lab.simulate.network import Network
from muster.lab.simulate.registries import SLOWLY, remembered
from muster.lab.simulate.replicas import Replicas
from muster.lab.simulate.story import Story, Submit
from muster.lab.simulate.view import View
from muster.lab.virtual_loop import LoopClock, TimeStandsStill
from muster.services.scheduler.options import Options
from muster.sim.kubelet.stages import Chance, Habits

_LOOK_S: Final = 5.0
_MOMENT_S: Final = 1e-6
_REST_S: Final = 40.0
_REST_WITHIN_S: Final = 900.0
_GONE_WITHIN_S: Final = 300.0
_FORGOTTEN_AFTER_S: Final = 60.0
_REMEMBERED_MAX: Final = 5


@dataclass(slots=True)
class Outcome:
    """What became of a story."""

    seed: int
    violations: list[Violation] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: Counter[str] = field(default_factory=Counter)
    works: Counter[str] = field(default_factory=Counter)
    fell: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    fingerprint: str = ""
    """Of every write with its answer, in order: the same for the same story."""

    @property
    def broken(self) -> str:
        """The name of the first invariant that did not hold."""
        return self.violations[0].invariant if self.violations else ""


class _Broken(Exception):
    """An invariant did not hold: the rest of the story would tell nothing more."""


def tell(story: Story, sink: Sink | None = None) -> Outcome:
    """Run a story to its end, or to the first invariant that does not hold."""
    outcome = Outcome(story.seed)
    outcome.steps.update(type(step).__name__ for step in story.steps)
    outcome.works.update(
        f"{step.kind} of {step.asks.partition(':')[0]}"
        for step in story.steps
        if isinstance(step, Submit)
    )
    teller: list[_Teller] = []

    async def main(clock: Clock) -> None:
        with TemporaryDirectory() if needs_files(story) else nullcontext() as folder:
            files = SchedulerFiles(Path(folder)) if folder is not None else None
            teller.append(_Teller(story, clock, outcome, sink or MemorySink(), files))
            await teller[0].tell()

    with asyncio.Runner(loop_factory=GatedLoop) as runner:
        loop = runner.get_loop()
        try:
            runner.run(main(LoopClock(loop)))
        except TimeStandsStill as endless:
            at_s = loop.time() - teller[0].watchman.begun_s
            outcome.violations.append(Violation("time goes on", at_s, str(endless)))
    return outcome


class _Teller:
    """One telling."""

    def __init__(
        self,
        story: Story,
        clock: Clock,
        outcome: Outcome,
        sink: Sink,
        files: SchedulerFiles | None,
    ) -> None:
        self.story = story
        self.clock = clock
        self.outcome = outcome
        log = Log("simulate", sink, Level.WARNING)
        products = (_product(story, files), _product(story, files))
        self.network = Network(clock)
        plan = ClusterPlan(
            nodes=story.nodes,
            seed=story.seed,
            habits=Habits(run=Chance(mean_s=1e6)),
            webhooks=dict.fromkeys(products[0].webhooks, self._review),
        )
        self.cluster = Cluster(plan, clock=clock, log=log)
        self.replicas = Replicas(
            self.cluster, self.network, products, log, story.skews_s, story.seed
        )
        self.watchman = Watchman(View(self.cluster.server.store), clock)
        self.network.on_write = self.watchman.asked
        self.actor = Actor(self.cluster, self.network, self.replicas, self.watchman, files)

    async def tell(self) -> None:
        async with self.cluster:
            try:
                await self._begin()
                await self._middle()
                await self._rest()
                await self._end()
            except _Broken:
                pass
            finally:
                await self.replicas.stop()
                self._sum_up()

    async def _begin(self) -> None:
        writer, product = self.cluster.writer, self.replicas.products[0]
        await product.install(writer)
        await self.replicas.start()
        await product.register_webhooks(writer)
        await product.default_queues(writer)
        for queue in self.story.queues:
            await ensure(writer, QUEUE, queue_body(queue))
        for kind, body in cluster_objects():
            await ensure(writer, kind, body, HOME if kind.namespaced else "")
        store = self.cluster.server.store
        for stored in store.list("queues.scheduling.run.ai"):
            self.watchman.note_bounds(stored)
        store.on_change = chained(store.on_change, self.watchman.changed)
        self.watchman.begun_s = self.clock.monotonic_s()

    async def _middle(self) -> None:
        for step in self.story.steps:
            await self._wait_until(step.at_s)
            await self.actor.do(step)
        await self._wait_until(self.story.calm_at_s)
        await self.actor.calm()
        self.watchman.calm_s = self.clock.monotonic_s()

    async def _rest(self) -> None:
        """Until nobody has written for a while, and all is as it should be in the end.

        Whoever was refused often tries again after some minutes, so time is given.
        """
        began_s = self.clock.monotonic_s()
        while True:
            now_s = self.clock.monotonic_s()
            quiet_s = now_s - max(self.watchman.changed_s, began_s)
            wrong = list(wrong_at_rest(self.watchman.view)) if quiet_s >= _REST_S else []
            if quiet_s >= _REST_S and not wrong:
                return
            if now_s - began_s > _REST_WITHIN_S:
                for invariant, text in wrong or [("the cluster comes to rest", self._busy())]:
                    self.watchman.say(invariant, text)
            await self._look_after(_LOOK_S)

    def _busy(self) -> str:
        """Who wrote most of late."""
        since_s = self.clock.monotonic_s() - 120.0
        recent = Counter(
            f"{one.who} {one.method} {one.path} ({one.status})"
            for one in self.cluster.write_log
            if one.at_s > since_s and "/leases/" not in one.path
        )
        return ", ".join(f"{count} times {what}" for what, count in recent.most_common(3))

    async def _end(self) -> None:
        await self.actor.clear()
        began_s = self.clock.monotonic_s()
        while left := left_behind(self.watchman.view):
            if self.clock.monotonic_s() - began_s > _GONE_WITHIN_S:
                self.watchman.say("nothing is left behind", ", ".join(left[:5]))
            await self._look_after(_LOOK_S)
        gone_s = self.clock.monotonic_s()
        await self._look_after(_FORGOTTEN_AFTER_S)
        while True:
            since_s = self.clock.monotonic_s() - gone_s
            kept = list(self._remembered())
            for where, text in kept:
                if since_s >= SLOWLY.get(where, 0.0):
                    self.watchman.say("the gone are forgotten", text)
            self._stop_if_broken()
            if not kept:
                return
            await self._look_after(_FORGOTTEN_AFTER_S)

    def _remembered(self) -> Iterator[tuple[str, str]]:
        """Where services keep more than a few names of the gone, and what to say of it."""
        for replica in self.replicas.by_name.values():
            if replica.supervisor is None:
                continue
            for where, count in remembered(replica.supervisor, self.watchman.gone).items():
                if count > _REMEMBERED_MAX:
                    yield where, f"{replica.name}: {count} names of the gone are kept in {where}"

    async def _wait_until(self, at_s: float) -> None:
        while (left_s := at_s - self._now_s()) > _MOMENT_S:
            await self._look_after(min(left_s, _LOOK_S))

    async def _look_after(self, pause_s: float) -> None:
        await self.clock.sleep(pause_s)
        self.watchman.look()
        for end in self.replicas.ends:
            if not end.is_lost_lease:
                self.watchman.say("processes go on", f"{end.replica} ended: {end.why}")
        self._stop_if_broken()

    def _stop_if_broken(self) -> None:
        if self.watchman.violations:
            raise _Broken

    def _now_s(self) -> float:
        return self.clock.monotonic_s() - self.watchman.begun_s

    async def _review(self, path: str, body: bytes) -> bytes:
        return await self.replicas.review(path, body)

    def _sum_up(self) -> None:
        self.outcome.violations[:0] = self.watchman.violations
        self.outcome.virtual_s = self._now_s()
        self.outcome.fell = self.network.fell
        self.outcome.writes = self.watchman.writes
        self.outcome.ends.update(end.replica for end in self.replicas.ends)
        written = hashlib.sha256()
        for line in self.cluster.write_log:
            written.update(repr(line).encode())
        self.outcome.fingerprint = written.hexdigest()[:16]


def _product(story: Story, files: SchedulerFiles | None) -> Installation:
    options = Options(bind_requests=story.bind_requests)
    if files is None:
        return Installation(options=options)
    files.configure("built-in")
    return Installation(options=options, conf_file=files.conf, cycle_log_folder=files.cycles)
