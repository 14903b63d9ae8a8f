"""Pod -> owners -> desired PodGroup -> what changed of it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.api.meta import Key
from muster.client.errors import (
    AlreadyExists,
    ApiError,
    NotFound,
    Unreachable,
)
from muster.client.events import Recorder, reference_to
from muster.client.informer import Informer
from muster.client.kinds import Plain, plainly
from muster.client.write import Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.podgrouper import decide
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object
from muster.services.podgrouper.groupers.table import group_of
from muster.services.podgrouper.groupers.workload import (
    GroupingSettings,
    NotRead,
    ObjectRef,
    Workload,
)
from muster.services.podgrouper.own_writes import OwnWrites
from muster.services.podgrouper.owners import (
    OwnerForbidden,
    OwnerMissing,
    OwnersSilent,
    owner_chain,
)
from muster.services.podgrouper.reading import LocalReads, OwnerReads, pod_object

_GROUP = plainly(POD_GROUP)
_DENIED: Final = "denied the request: "
"""API servers write it behind the name of a webhook."""
_READS_MAX = 20
"""More objects than any grouper needs: a bound against asking for ever."""
_WALK_S_MAX = 30.0
"""A walk holds a worker; whoever serves the kind of an owner may not answer."""


@dataclass(frozen=True, slots=True)
class PodGrouperInformers:
    """The local copies that the pod grouper looks at."""

    pods: Informer[Pod]
    groups: Informer[Plain]
    reads: Callable[[Pod], Awaitable[LocalReads]]
    settings: Callable[[], GroupingSettings]


@dataclass(slots=True)
class PodGrouper:
    """Ties one pod to its group, making the group where it is missing."""

    _stores: PodGrouperInformers
    _owners: OwnerReads
    _writer: Writer
    _recorder: Recorder | None
    _own: OwnWrites = field(init=False)

    def __post_init__(self) -> None:
        self._own = OwnWrites(self._stores.groups)

    async def reconcile(self, key: Key) -> Result:
        pod = self._stores.pods.get(key)
        settings = self._stores.settings()
        if pod is None or not decide.is_ours(pod_object(pod), settings):
            return DONE
        try:
            await self._group(pod, settings)
        except (GroupingError, ApiError) as problem:
            if isinstance(problem, GroupingError) and pod.metadata.deletion_timestamp is not None:
                return DONE  # Its owners may be gone already.
            await self._say(pod, problem)
            raise
        return DONE

    async def _say(self, pod: Pod, problem: GroupingError | ApiError) -> None:
        """On the pod: why it waits. Of a pod in a group the scheduler speaks."""
        text = problem.sentence if isinstance(problem, GroupingError) else _refused(problem)
        if self._recorder is not None:
            about = reference_to(POD, pod)
            self._recorder.warning(about, names.REASON_POD_GROUPER_WARNING, text)
        if isinstance(problem, ApiError) and problem.is_passing:
            return  # Nobody has to change anything.
        waits = decide.waits_ungrouped(pod, text, self._writer.connection.clock.now_s())
        if waits is not None:
            # The event has said it, and the next attempt says it again.
            with suppress(ApiError, Unreachable):
                await self._writer.set_condition(POD, pod.key, waits, uid=pod.metadata.uid)

    async def _group(self, pod: Pod, settings: GroupingSettings) -> None:
        plain = pod_object(pod)
        owners, unread = await self._owner_chain(plain)
        if any(decide.is_skipped(owner) for owner in owners):
            return
        top = owners[-1] if owners else plain
        reads = await self._stores.reads(pod)
        group = await self._grouped(Workload(plain, top, owners, reads, settings), reads)
        if group is None:
            return
        await self._write_group(group, plain, settings)
        self._warn(pod, group, unread, settings, reads)
        patch = decide.pod_patch(group, plain)
        if patch is not None:
            with suppress(NotFound):
                await self._writer.patch(POD, pod.key, patch, uid=pod.metadata.uid)

    def _warn(
        self,
        pod: Pod,
        group: Group,
        unread: ObjectRef | None,
        settings: GroupingSettings,
        reads: LocalReads,
    ) -> None:
        """What its author meant otherwise: a queue that nobody named, for a label is misspelled or
        of an owner whose labels we may not read; a priority class that is not there."""
        if self._recorder is None or names.ANNOTATION_POD_GROUP in pod.metadata.annotations:
            return
        plain = pod_object(pod)
        text = decide.mistaken_label(group, plain, settings)
        if not text and unread is not None:
            text = decide.unread_owner(group, plain, unread, settings)
        for said in (text, decide.unknown_class(group, plain, reads.has_priority_class)):
            if said:
                about = reference_to(POD, pod)
                self._recorder.warning(about, names.REASON_POD_GROUPER_WARNING, said)

    async def _owner_chain(self, pod: Object) -> tuple[list[Object], ObjectRef | None]:
        try:
            return await self._walk(pod)
        except OwnerMissing as missing:
            # Deleted and made again under its name, perhaps: what we remember is the old one.
            self._owners.forget(missing.ref)
            return await self._walk(pod)

    async def _walk(self, pod: Object) -> tuple[list[Object], ObjectRef | None]:
        """The owners, and the one above them that we may not read."""
        walk, unread = owner_chain(pod), None
        try:
            ref = next(walk)
            async with asyncio.timeout(_WALK_S_MAX):
                while True:
                    answer = await self._owners.get(ref)
                    unread = ref if isinstance(answer, OwnerForbidden) else None
                    ref = walk.send(answer)
        except StopIteration as end:
            found: list[Object] = end.value
            return found, unread
        except TimeoutError:
            raise OwnersSilent(ref) from None

    async def _grouped(self, workload: Workload, reads: LocalReads) -> Group | None:
        """Asks the grouper again with each object that it turns out to need."""
        for _ in range(_READS_MAX):
            try:
                return group_of(workload)
            except NotRead as needed:
                found = await self._owners.get(needed.ref)
                reads.fetched[needed.ref] = None if isinstance(found, OwnerForbidden) else found
        raise GroupingError(f"more than {_READS_MAX} objects are needed to group this pod")

    async def _write_group(self, group: Group, pod: Object, settings: GroupingSettings) -> None:
        key = Key(group.namespace, group.name)
        async with self._own.turn(key):
            write = decide.group_write(group, pod, self._own.newest(key), settings)
            match write:
                case decide.CreateGroup(body):
                    try:
                        made = await self._writer.create(_GROUP, body, group.namespace)
                    except AlreadyExists:
                        # Made by somebody else, and not yet in our copy: its pods are told of it.
                        return
                    self._own.note(key, made)
                case decide.MergeGroup(patch):
                    self._own.note(key, await self._writer.patch(_GROUP, key, patch))


def _refused(problem: ApiError) -> str:
    """For the author of the pod, who called nobody: what lasts, as the one says it who refuses."""
    if problem.is_passing or not problem.message:
        return str(problem)
    return problem.message.rpartition(_DENIED)[2]
