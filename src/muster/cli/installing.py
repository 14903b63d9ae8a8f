"""Installing and uninstalling over a connection: check first, then write, then wait."""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from muster.api import names
from muster.api.codec import Unreadable, from_builtins
from muster.api.config import Config
from muster.api.kinds import CONFIG, SCHEDULING_SHARD, Kind
from muster.api.meta import Key
from muster.api.shard import SchedulingShard
from muster.base.clock import Clock
from muster.client.connection import Call, Connection
from muster.client.errors import ApiError, Conflict, NotFound, Unreachable, described
from muster.client.kinds import Plain, plain_kind
from muster.client.read import Reader, Selection
from muster.client.transport import Request
from muster.client.write import Deletion, Propagation, Writer
from muster.services.operator.bootstrap import OLDEST_KUBERNETES, Choices, operator_objects
from muster.services.operator.decide import desired, usable_shards
from muster.services.operator.dialects import QUEUES, kept_for
from muster.services.operator.hook_moves import has_rolled
from muster.services.operator.objects import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    DEFINITION,
    DEPLOYMENT,
    MUTATING,
    NAMESPACE,
    ROLE,
    VALIDATING,
    Wanted,
    whole,
)
from muster.services.operator.settings import Installation, Release, Settings

_REVIEW: Final = plain_kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    namespaced=False,
)
_PASSING: Final = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
_HELM: Final = "Helm"
_HELM_RELEASE: Final = "meta.helm.sh/release-name"
_OURS: Final = f"{names.LABEL_MANAGED_BY}={names.SERVICE_OPERATOR}"
_SERVED_WITHIN_S: Final = 120.0
_GONE_WITHIN_S: Final = 300.0
Say = Callable[[str], None]


class Refused(Exception):
    """Why nothing was changed, one reason a line."""


class NotInTime(Exception):
    """What is still missing when the time is up."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one object."""

    want: Wanted
    before: Plain | None
    after: Plain
    """As far as can be told: an object of a kind that is yet to be made is shown as we wrote it."""

    @property
    def verb(self) -> str:
        if self.before is None:
            return "create"
        return "change" if _text(self.before) != _text(self.after) else "keep"

    def diff(self) -> str:
        before = _text(self.before).splitlines() if self.before is not None else []
        lines = difflib.unified_diff(
            before,
            _text(self.after).splitlines(),
            f"{self.want} (now)",
            f"{self.want}",
            lineterm="",
        )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Installer:
    """Acts in the name of whoever runs the command."""

    connection: Connection
    clock: Clock
    say: Say

    @property
    def _reader(self) -> Reader:
        return Reader(self.connection)

    @property
    def _writer(self) -> Writer:
        return Writer(self.connection, "muster-install")

    # --- Before anything is changed -----------------------------------------------------------

    async def check(self, wants: Sequence[Wanted], verbs: Sequence[str]) -> None:
        """Raises `Refused` with everything that is in the way."""
        reasons = [*await self._too_old(), *await self._missing_rights(wants, verbs)]
        reasons = reasons or await self._elsewhere(wants)
        if "create" in verbs:
            reasons = reasons or await self._held_by_helm(wants)
        if reasons:
            raise Refused("\n".join(reasons))

    async def _too_old(self) -> list[str]:
        body = await self.connection.call(Request("GET", "/version"), Call("get", "version"))
        found = json.loads(body)
        digits = "".join(each for each in found["minor"] if each.isdigit())
        version = (int(found["major"]), int(digits or 0))
        if version >= OLDEST_KUBERNETES:
            return []
        here, oldest = (".".join(map(str, each)) for each in (version, OLDEST_KUBERNETES))
        return [f"Kubernetes {here} is too old: upgrade to {oldest} or later"]

    async def _missing_rights(self, wants: Sequence[Wanted], verbs: Sequence[str]) -> list[str]:
        asked = {
            (verb, want.kind.group, want.kind.plural, want.key.namespace)
            for want in wants
            for verb in verbs
        }
        if "create" in verbs:
            # Who writes a role, or binds one, must hold all of it, or have been given these verbs.
            asked |= {
                (verb, kind.group, kind.plural, "")
                for verb in ("bind", "escalate")
                for kind in (CLUSTER_ROLE, ROLE)
            }
        missing: list[str] = []
        for verb, group, resource, namespace in sorted(asked):
            if not await self._may(verb, group, resource, namespace):
                where = f" in namespace {namespace}" if namespace else ""
                name = f"{resource}.{group}" if group else resource
                missing.append(f"you may not {verb} {name}{where}: ask an administrator")
        return missing

    async def _may(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        spec = {"resourceAttributes": {key: text for key, text in attributes.items() if text}}
        answer = await self._writer.create(_REVIEW, {"metadata": {}, "spec": spec})
        return bool(answer["status"]["allowed"])

    async def _elsewhere(self, wants: Sequence[Wanted]) -> list[str]:
        """A cluster has one operator: a second one would take the rights of the first."""
        for want in wants:
            if want.kind is CLUSTER_ROLE_BINDING:
                (wanted,) = {one["namespace"] for one in want.body["subjects"]}
                try:
                    live = await self._reader.get(want.kind, want.key)
                except NotFound:
                    continue
                found = {one.get("namespace", "") for one in live.get("subjects") or ()} - {wanted}
                if found:
                    where = ", ".join(sorted(found))
                    return [f"the operator is in namespace {where}: say so (--namespace {where})"]
        return []

    async def _held_by_helm(self, wants: Iterable[Wanted]) -> list[str]:
        """Helm changes what it installed back, and removes it with its release."""
        for want in wants:
            if want.kind is not DEPLOYMENT:
                continue
            try:
                metadata = (await self._reader.get(want.kind, want.key))["metadata"]
            except NotFound:
                continue
            if (metadata.get("labels") or {}).get(names.LABEL_MANAGED_BY) == _HELM:
                release = (metadata.get("annotations") or {}).get(_HELM_RELEASE, "")
                return [
                    f"Helm installed {want}: go on with helm upgrade {release}, or run "
                    f"muster uninstall and helm uninstall {release} first"
                ]
        return []

    async def plan(self, wants: Iterable[Wanted]) -> list[Step]:
        """What would be done, found out without doing it."""
        return [await self._step(want) for want in wants]

    async def _step(self, want: Wanted) -> Step:
        try:
            before: Plain | None = await self._reader.get(want.kind, want.key)
        except NotFound:
            return Step(want, None, dict(want.body))
        if want.is_kept:
            return Step(want, before, dict(before or {}))
        after = await self._writer.apply(want.kind, want.key, want.body, force=True, is_trial=True)
        return Step(want, before, after)

    # --- Doing --------------------------------------------------------------------------------

    async def carry_out(self, steps: Iterable[Step]) -> None:
        for step in steps:
            want = step.want
            if step.verb == "keep":
                continue
            await self._apply(want)
            self.say(f"{step.verb}d {want}")

    async def _apply(self, want: Wanted) -> None:
        """A kind that was just made is not served at once, nor by all API servers at one time."""
        until_s = self.clock.monotonic_s() + _SERVED_WITHIN_S
        while True:
            try:
                await self._writer.apply(want.kind, want.key, want.body, force=True)
                return
            except ApiError as error:
                if not _is_early(error) or self.clock.monotonic_s() >= until_s:
                    raise
            await self.clock.sleep(0.5)

    async def wait(self, release: Release, namespace: str, within_s: float) -> None:
        """Until Config and all shards are ready, and all that runs for them is of this release;
        says what is missing as it changes."""
        until_s = self.clock.monotonic_s() + within_s
        said = ""
        while missing := await self._missing_so_far(release, namespace):
            if missing != said:
                self.say(f"waiting: {missing}")
                said = missing
            if self.clock.monotonic_s() >= until_s:
                raise NotInTime(f"not ready after {within_s:g} s: {missing}")
            await self.clock.sleep(1.0)
        self.say("ready")

    async def _missing_so_far(self, release: Release, namespace: str) -> str:
        try:
            return await self._missing(release, namespace)
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and not _is_early(error):
                raise
            return described(error)

    async def _missing(self, release: Release, namespace: str) -> str:
        config, shards = [
            (await self._reader.list(whole(kind))).objects for kind in (CONFIG, SCHEDULING_SHARD)
        ]
        running = await self._reader.list(DEPLOYMENT, Selection(namespace))
        # What they say may be of a time before the release changed: that is looked at first.
        texts = _outdated(_images(config, shards, release), running.objects)
        for kind, owners in ((CONFIG, config), (SCHEDULING_SHARD, shards)):
            for one in owners:
                if text := _why_not_ready(one):
                    texts.append(f"{kind.kind} {one['metadata']['name']}: {text}")
        return "; ".join(texts)

    # --- Undoing ------------------------------------------------------------------------------

    async def uninstall(self, wants: Sequence[Wanted], namespace: str, *, purge: bool) -> None:
        """The operator first, so that it puts nothing back; webhooks next, so that nobody waits for
        an answer; then what they belong to. What others may need stays, unless `purge`."""
        mine = [want for want in wants if not want.is_kept and want.kind is not DEFINITION]
        for want in mine:
            if want.kind is DEPLOYMENT:
                await self._delete(want.kind, want.key)
        for kind in (MUTATING, VALIDATING):
            for one in (await self._reader.list(kind, Selection(labels=_OURS))).objects:
                await self._delete(kind, Key("", one["metadata"]["name"]))
        for owner in (SCHEDULING_SHARD, CONFIG):
            for name in await self._names(whole(owner)):
                await self._delete(whole(owner), Key("", name))
        await self._until_gone(namespace)
        for want in reversed(mine):
            await self._delete(want.kind, want.key)
        if purge:
            for want in reversed(wants):
                if want.kind in (DEFINITION, NAMESPACE):
                    await self._delete(want.kind, want.key)

    async def _names(self, kind: Kind[Any]) -> list[str]:
        try:
            return [one["metadata"]["name"] for one in (await self._reader.list(kind)).objects]
        except NotFound:
            return []  # The kind itself is gone.

    async def _until_gone(self, namespace: str) -> None:
        """Something may hold them: a finalizer, or a cluster in which nobody collects garbage."""
        selection, said = Selection(namespace, labels=_OURS), ""
        until_s = self.clock.monotonic_s() + _GONE_WITHIN_S
        while left := (await self._reader.list(DEPLOYMENT, selection)).objects:
            names_left = ", ".join(sorted(one["metadata"]["name"] for one in left))
            if names_left != said:
                self.say(f"waiting for the end of {names_left}")
                said = names_left
            if self.clock.monotonic_s() >= until_s:
                raise NotInTime(
                    f"still there after {_GONE_WITHIN_S:g} s: {names_left}: see what holds them "
                    f"(metadata.finalizers), and run this again"
                )
            await self.clock.sleep(2.0)

    async def _delete(self, kind: Kind[Any], key: Key) -> None:
        try:
            await self._writer.delete(kind, key, Deletion(propagation=Propagation.BACKGROUND))
        except (NotFound, Conflict):
            return
        self.say(f"removed {kind.kind} {key}")


def _is_early(error: ApiError) -> bool:
    """Said by an API server that does not serve our kinds yet (of several one may, and another
    not), or that is about to go or has just come."""
    return isinstance(error, NotFound) or error.is_passing


def _images(configs: Iterable[Plain], shards: Iterable[Plain], release: Release) -> dict[str, str]:
    """By the name of each Deployment, the image that it is to run."""
    wants = operator_objects(Choices(release))
    served = frozenset(kind.full_name for kind in QUEUES.values())
    try:
        for config in configs:
            settings = Settings.of(from_builtins(Config, config), release)
            given = [from_builtins(SchedulingShard, one) for one in shards]
            usable, _ = usable_shards(given, settings, served)
            kept = kept_for(given, settings, served)
            made = desired(Installation(settings, usable, *kept, served))
            wants += [*made.config, *(want for each in made.shards.values() for want in each)]
    except Unreadable:
        pass  # The operator does nothing about it, and its owner never gets ready.
    return {want.key.name: _image(want.body) for want in wants if want.kind is DEPLOYMENT}


def _outdated(images: Mapping[str, str], running: Iterable[Plain]) -> list[str]:
    """Deployments that are to run another image, or have pods of an earlier one left."""
    found = []
    for one in running:
        name = one["metadata"]["name"]
        if name in images and (_image(one) != images[name] or not has_rolled(one)):
            found.append(f"{name}: not rolled yet to {images[name]}")
    return found


def _image(deployment: Mapping[str, Any]) -> str:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def _why_not_ready(owner: Plain) -> str:
    generation = owner["metadata"].get("generation", 0)
    listed = {one["type"]: one for one in (owner.get("status") or {}).get("conditions", ())}
    ready = listed.get(names.CONDITION_READY)
    if ready is None or ready.get("observedGeneration", 0) < generation:
        return "the operator has not looked at it yet"
    if ready["status"] == "True":
        return ""
    reasons = [
        listed[kind]["message"]
        for kind in (names.CONDITION_DEPLOYED, names.CONDITION_AVAILABLE)
        if kind in listed and listed[kind]["status"] != "True"
    ]
    return ", ".join(reasons) or str(ready["message"])


def _text(body: Plain) -> str:
    """The object without what the server keeps to itself."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _PASSING}
    shown = {key: value for key, value in body.items() if key != "status"}
    text: str = yaml.safe_dump({**shown, "metadata": metadata}, width=1000)
    return text
