"""Does what a story says, one step at a time."""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.meta import Key
from muster.client.errors import ApiError
from muster.client.kinds import Plain
from muster.client.write import Deletion, Propagation
from muster.lab.cluster import Cluster
from muster.lab.simulate import story as told
from muster.lab.simulate.files import SchedulerFiles
from muster.lab.simulate.invariants import Watchman
from muster.lab.simulate.manifests import (
    APP,
    BUDGET,
    CLAIM,
    CONTROLLED,
    HOME,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    Made,
    budget_body,
    objects_of,
    pod_names,
)
from muster.lab.simulate.network import Network
from muster.lab.simulate.odd_objects import ODD_OBJECTS
from muster.lab.simulate.replicas import Replicas
from muster.lab.simulate.view import PODS

_AT_ONCE: Final = Deletion(grace_s=0, propagation=Propagation.BACKGROUND)
_SOON: Final = Deletion(propagation=Propagation.BACKGROUND)
_FINALIZER: Final = "example.com/held"
# What controllers say of a node's state by taints; others are the node's own.
_OF_NODE_LIFE: Final = "node.kubernetes.io/"


@dataclass(slots=True)
class Actor:
    """People, and the world's bad luck."""

    cluster: Cluster
    network: Network
    replicas: Replicas
    watchman: Watchman
    files: SchedulerFiles | None = None
    _work: dict[str, told.Submit] = field(default_factory=dict)
    _gone: dict[str, Plain] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)
    _cordoned: set[str] = field(default_factory=set)
    _held: set[str] = field(default_factory=set)
    _later: list["asyncio.Task[None]"] = field(default_factory=list)
    _under_way: set["asyncio.Task[None]"] = field(default_factory=set)
    """Of those, what has begun: half of it must not be left undone when calm comes."""

    async def do(self, step: told.AnyStep) -> None:
        match step:
            case told.Strike():
                self.network.strike(step)
            case told.Listen():
                self.network.listen(step)
            case told.Outage(for_s=for_s):
                self.network.is_away = True
                self._after(for_s, self._back())
            case told.Kill(who=who, after=after):
                self.replicas.kill(who, after)
            case told.Freeze(who=who, for_s=for_s, after=after):
                self.replicas.freeze(who, for_s, after)
            case told.Configure() | told.BreakDisk():
                self._to_files(step)
            case _:
                # What the server refuses people have not done.
                with suppress(ApiError):
                    await self._by_people(step)

    async def calm(self) -> None:
        """Everything that goes wrong ends: nodes come back, finalizers go."""
        for task in self._later:
            task.cancel()  # of those that wait; what has begun goes on to its end
        self.network.calm()
        if self.files is not None:
            self.files.mend_disk()
            self.files.configure("built-in")
        self.replicas.calm()
        for node in list(self._silent):
            self._answer(node)
        for node in list(self._gone):
            await self._return(node)
        for node in list(self._cordoned):
            await self._set_cordon(node, False)
        for app in list(self._held):
            await self._release(app)
        await asyncio.gather(*self._under_way)

    async def clear(self) -> None:
        """People take away all that they made."""
        for budget in self.cluster.server.store.list("poddisruptionbudgets.policy", HOME):
            await self._delete(BUDGET, budget["metadata"]["name"])
        for kind in CONTROLLED.values():
            storage = f"{kind.plural}.{kind.group}"
            for found in list(self.cluster.server.store.list(storage, HOME)):
                await self._delete(kind, found["metadata"]["name"])
        for pod in list(self.cluster.server.store.list(PODS, HOME)):
            await self._delete(POD, pod["metadata"]["name"])
        for kind, storage in (
            (POD_GROUP, "podgroups.scheduling.run.ai"),
            (CLAIM, "persistentvolumeclaims"),
        ):
            for found in list(self.cluster.server.store.list(storage, HOME)):
                await self._delete(kind, found["metadata"]["name"])

    # --- People -----------------------------------------------------------------------------------

    async def _by_people(self, step: told.AnyStep) -> None:
        match step:
            case told.Submit():
                self._work[step.name] = step
                await self._create(objects_of(step))
            case told.Remove(name=name):
                await self._remove(name, _SOON)
            case told.Resize(name=name, pods=pods):
                await self._resize(name, pods)
            case told.Recreate(name=name):
                await self._recreate(name)
            case told.Finalize(name=name, for_s=for_s):
                await self._finalize(name, for_s)
            case told.Protect(name=name, at_least=at_least, twice=twice):
                self.watchman.protected.add(name)
                for number in range(1 + twice):
                    body = budget_body(f"{name}-budget-{number}", name, at_least)
                    await self._create([(BUDGET, body)])
            case told.SetQuota(queue=queue, gpus=gpus, limit=limit):
                gpu = {"quota": gpus, "limit": limit}
                patch = {"spec": {"resources": {"gpu": gpu}}}
                await self.cluster.writer.patch(QUEUE, Key("", queue), patch)
            case told.Malform(what=what):
                await self._malform(what)
            case _:
                await self._to_nodes(step)

    async def _to_nodes(self, step: told.AnyStep) -> None:
        if getattr(step, "node", "") not in self.cluster.fleet.node_names:
            return  # A story that is being shortened loses nodes before what happens to them.
        match step:
            case told.Cordon(node=node, for_s=for_s):
                await self._set_cordon(node, True)
                self._after(for_s, self._set_cordon(node, False))
            case told.Silence(node=node, for_s=for_s):
                self._silent.add(node)
                self.cluster.fleet.fail(node)
                self._after(for_s, self._answered(node))
            case told.Vanish(node=node, for_s=for_s) if node not in self._gone:
                self._gone[node] = await self.cluster.reader.get(NODE, Key("", node))
                self.cluster.fleet.fail(node)
                await self.cluster.writer.delete(NODE, Key("", node))
                self._after(for_s, self._return(node))

    async def _create(self, objects: Iterable[Made]) -> None:
        for kind, body in objects:
            namespace = HOME if kind.namespaced else ""
            with suppress(ApiError):
                await self.cluster.writer.create(kind, body, namespace)

    async def _delete(self, kind: Any, name: str, deletion: Deletion = _SOON) -> None:
        with suppress(ApiError):
            await self.cluster.writer.delete(kind, Key(HOME, name), deletion)

    async def _remove(self, name: str, deletion: Deletion) -> None:
        work = self._work.get(name)
        if work is None:
            return
        if work.kind in CONTROLLED:
            await self._delete(CONTROLLED[work.kind], name, deletion)
        for pod in pod_names(work):
            await self._delete(POD, pod, deletion)
        if work.kind == "groups":
            await self._delete(POD_GROUP, name, deletion)

    async def _resize(self, name: str, pods: int) -> None:
        work = self._work.get(name)
        if work is not None and work.kind in ("deployment", "statefulset"):
            patch = {"spec": {"replicas": pods}}
            await self.cluster.writer.patch(CONTROLLED[work.kind], Key(HOME, name), patch)

    async def _recreate(self, name: str) -> None:
        work = self._work.get(name)
        if work is not None:
            await self._remove(name, _AT_ONCE)
            await self._create(objects_of(work))

    async def _finalize(self, name: str, for_s: float) -> None:
        self._held.add(name)
        patch = {"metadata": {"finalizers": [_FINALIZER]}}
        for pod in self._pods_of(name):
            with suppress(ApiError):
                await self.cluster.writer.patch(POD, Key(HOME, pod), patch)
            await self._delete(POD, pod)
        self._after(for_s, self._release(name))

    async def _release(self, name: str) -> None:
        self._held.discard(name)
        for pod in self._pods_of(name):
            with suppress(ApiError):
                patch = {"metadata": {"finalizers": None}}
                await self.cluster.writer.patch(POD, Key(HOME, pod), patch)

    async def _malform(self, what: str) -> None:
        """Owners are named by uids that only the server knows."""
        uids: dict[str, str] = {}
        for kind, body in ODD_OBJECTS[what]():
            for owner in body["metadata"].get("ownerReferences") or ():
                owner["uid"] = uids.get(owner["name"], owner["uid"])
            namespace = HOME if kind.namespaced else ""
            made = await self.cluster.writer.create(kind, body, namespace)
            uids[made["metadata"]["name"]] = made["metadata"]["uid"]
            if what == "owner cycle" and len(uids) == 2:
                owner = {**body["metadata"]["ownerReferences"][0]}
                owner |= {"name": "odd-right", "uid": uids["odd-right"]}
                patch = {"metadata": {"ownerReferences": [owner]}}
                await self.cluster.writer.patch(kind, Key(HOME, "odd-left"), patch)

    def _pods_of(self, app: str) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.cluster.server.store.list(PODS, HOME)
            if (pod["metadata"].get("labels") or {}).get(APP) == app
        ]

    def _to_files(self, step: told.Configure | told.BreakDisk) -> None:
        assert self.files is not None, "stories with such steps have files"
        match step:
            case told.Configure(what=what):
                self.files.configure(what)
            case told.BreakDisk(for_s=for_s):
                self.files.break_disk()
                self._after(for_s, self._mended(self.files))

    # --- The world --------------------------------------------------------------------------------

    async def _mended(self, files: SchedulerFiles) -> None:
        files.mend_disk()

    async def _back(self) -> None:
        self.network.is_away = False

    async def _set_cordon(self, node: str, is_so: bool) -> None:
        (self._cordoned.add if is_so else self._cordoned.discard)(node)
        with suppress(ApiError):
            patch = {"spec": {"unschedulable": is_so or None}}
            await self.cluster.writer.patch(NODE, Key("", node), patch)

    async def _answered(self, node: str) -> None:
        self._answer(node)

    def _answer(self, node: str) -> None:
        self._silent.discard(node)
        if node not in self._gone:
            self.cluster.fleet.recover(node)

    async def _return(self, node: str) -> None:
        """The node registers anew, as it was."""
        was = self._gone.pop(node, None)
        if was is None:
            return
        metadata = {"name": node, "labels": was["metadata"].get("labels") or {}}
        spec = {key: one for key, one in was["spec"].items() if key != "unschedulable"}
        taints = spec.pop("taints", None) or ()
        spec["taints"] = [one for one in taints if not one["key"].startswith(_OF_NODE_LIFE)]
        with suppress(ApiError):
            await self.cluster.writer.create(NODE, {"metadata": metadata, "spec": spec})
            status = {"status": was["status"]}
            await self.cluster.writer.patch(NODE, Key("", node), status, subresource="status")
        if node not in self._silent:
            self.cluster.fleet.recover(node)

    def _after(self, for_s: float, work: Coroutine[Any, Any, None]) -> None:
        async def wait() -> None:
            try:
                await self.cluster.clock.sleep(for_s)
            except asyncio.CancelledError:
                work.close()
                raise
            self._later.remove(task)
            self._under_way.add(task)
            await work
            self._under_way.discard(task)

        task = asyncio.create_task(wait())
        self._later.append(task)
