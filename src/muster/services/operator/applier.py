"""One object at a time: make it, change it, remove it, and only where that is needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.api.config import Config
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.api.shard import SchedulingShard
from muster.base.log import Log
from muster.client.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable, described
from muster.client.informer import Informer
from muster.client.kinds import header
from muster.client.read import Reader
from muster.client.write import Deletion, Propagation, Writer
from muster.services.operator.changes import change, whole_body
from muster.services.operator.contests import Contests
from muster.services.operator.objects import OPTIONAL, Json, ObjectId, Wanted


@dataclass(frozen=True, slots=True)
class Copies:
    """What the operator knows of the cluster without asking."""

    configs: Informer[Config]
    shards: Informer[SchedulingShard]
    made: Mapping[str, Informer[Json]]
    """By the full name of their kind."""
    others: Mapping[str, Informer[Json]] = field(default_factory=dict)
    """Likewise, kinds of other systems: whether the cluster has them."""

    def served(self) -> frozenset[str]:
        """The optional kinds that the cluster has."""
        optional = {kind.full_name: self.made[kind.full_name] for kind in OPTIONAL}
        both = {**optional, **self.others}
        return frozenset(name for name, informer in both.items() if informer.is_served)

    def live(self, kind: Kind[Json], key: Key) -> Json | None:
        informer = self.made.get(kind.full_name)
        return informer.get(key) if informer is not None else None


@dataclass(frozen=True, slots=True)
class Applier:
    """Writes what differs, and remembers the answers until the local copies show them."""

    copies: Copies
    reader: Reader
    writer: Writer
    log: Log
    contests: Contests
    _written: dict[ObjectId, Json] = field(default_factory=dict)

    def begin(self) -> None:
        """A new look: by now the copies show what the last one wrote, or are read again."""
        self._written.clear()

    def live(self, kind: Kind[Json], key: Key) -> Json | None:
        """The object as last seen, by whichever way it was."""
        return self._written.get((kind.full_name, key)) or self.copies.live(kind, key)

    async def bring_about(self, want: Wanted, owner: Json | None) -> list[str]:
        """Why it could not be; empty when the object is as it is to be."""
        try:
            return await self._apply(want, owner)
        except (ApiError, Unreachable) as error:
            return [f"{want}: {described(error)}"]

    async def remove(self, kind: Kind[Json], live: Json) -> list[str]:
        meta = header(live)
        deletion = Deletion(uid=meta.uid, propagation=Propagation.BACKGROUND)
        try:
            await self.writer.delete(kind, meta.key, deletion)
        except (NotFound, Conflict):
            return []  # Gone, or another one by now.
        except (ApiError, Unreachable) as error:
            return [f"{kind.kind} {meta.key}: {described(error)}"]
        self.log.info("removed", kind=kind.kind, object=str(meta.key))
        return []

    async def _apply(self, want: Wanted, owner: Json | None) -> list[str]:
        copy = self.copies.live(want.kind, want.key)
        if copy is not None and not change(want, owner, copy):
            return []
        try:
            live = await self.reader.get(want.kind, want.key)
        except NotFound:
            if told := self._contested(want, "removes it"):
                return told
            await self._create(want, owner)
            return []
        if patch := change(want, owner, live):
            fields = _names(patch)
            if told := self._contested(want, f"changes {fields}"):
                return told
            uid = header(live).uid
            live = await self.writer.patch(want.kind, want.key, patch, uid=uid)
            self.contests.was_set(want)
            self.log.info("changed", kind=want.kind.kind, object=str(want.key), fields=fields)
        self._written[want.id] = live
        return []

    def _contested(self, want: Wanted, how: str) -> list[str]:
        wait_s = self.contests.wait_s(want)
        why = f"somebody {how} again and again: it is set right less often now"
        return [f"{want}: {why}"] if wait_s > 0 else []

    async def _create(self, want: Wanted, owner: Json | None) -> None:
        """By apply: its URL names the object, and rights may then be limited to that name. (To give
        rights away that we do not hold, ours are.)"""
        body = whole_body(want, owner)
        if not want.is_kept:
            made = await self.writer.apply(want.kind, want.key, body, force=True)
        else:
            try:
                made = await self.writer.create(want.kind, body, want.key.namespace)
            except AlreadyExists:
                return  # Somebody else was faster, and it is theirs.
        self.contests.was_set(want)
        self._written[want.id] = made
        self.log.info("made", kind=want.kind.kind, object=str(want.key))


def _names(patch: Json) -> str:
    """Which parts changed: values may be nobody's business."""
    return ", ".join(
        f"{key}.{below}" if isinstance(value, dict) else key
        for key, value in patch.items()
        for below in (value if isinstance(value, dict) else ("",))
    )
