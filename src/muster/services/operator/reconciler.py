"""Looks at Config, shards and everything that was made of them, and writes what differs.

One look is a look at all of it: shards share an account, webhooks wait for a Deployment. What the
local copies show to be right costs nothing; where they differ the object itself is read, compared
and changed. Nothing that somebody else owns is deleted.
"""

import base64
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Literal

from muster.api import kinds, names
from muster.api.config import Config
from muster.api.kinds import Kind
from muster.api.meta import Condition, Key, ObjectMeta
from muster.api.shard import SchedulingShard
from muster.base.clock import Clock
from muster.client.errors import ApiError, Deposed, NotFound, Unreachable, described
from muster.client.write import Writer
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.reconciler import DONE, Result
from muster.services.operator import hook_moves
from muster.services.operator.applier import Applier
from muster.services.operator.certificates import Certificates, renewed
from muster.services.operator.changes import is_taken_over
from muster.services.operator.decide import (
    Desired,
    desired,
    ineffective,
    missing_dependencies,
    usable_config,
    usable_shards,
)
from muster.services.operator.dialects import kept_for
from muster.services.operator.hook_moves import waiting
from muster.services.operator.objects import (
    DEPLOYMENT,
    MADE,
    SECRET,
    SERVICE,
    Json,
    Wanted,
    wanted,
)
from muster.services.operator.settings import Installation, Release, Settings
from muster.services.operator.status import Facts, status_patch, unavailability

All = Literal["installation"]
ALL: Final[All] = "installation"
_LOOK_AGAIN_S: Final = 300.0
"""Certificates come of age, and kinds come to be served, without anybody telling."""
_RETRY_S: Final = 15.0
_READ: Final = names.DEFAULT.config
_NO_CONFIG: Final = f"there is no Config {_READ}, without which no scheduler runs: make one"
_BAD_CONFIG: Final = f"Config {_READ} cannot be used: mend what its condition Deployed names"
_FAILED: Final = "the operator could not look at everything, and tries again"
_FAILED_SHARD: Final = f"{_FAILED}: see condition Deployed of Config {_READ}"
_CONFIG: Final = ""
"""Whose failures: Config's; a shard's stand under its name."""
_WAITS: Final = "not before admission answers for it"
_HEARD_S: Final = 10.0
"""API servers hear of moved webhooks by a watch: so long after it they may ask whom they asked."""
_STILL_ASKED: Final = "not before every API server has heard that admission answers for it"


@dataclass(slots=True)
class _Look:
    """One look at the installation, and what came of it."""

    config: Config
    shards: Sequence[SchedulingShard]
    installation: Installation
    wants: Desired
    wrong: dict[str, list[str]]
    failures: dict[str, list[str]] = field(default_factory=dict)

    def failed(self, owner: str, failures: Iterable[str]) -> None:
        self.failures.setdefault(owner, []).extend(failures)

    @property
    def is_settled(self) -> bool:
        return not any(self.failures.values())


@dataclass(frozen=True, slots=True)
class Operator:
    """Keeps the installation as Config and shards want it."""

    _applier: Applier
    _writer: Writer
    _clock: Clock
    _namespace: str
    _release: Release
    _no_effect: NoEffectReport
    _asked_s: dict[str, float] = field(default_factory=dict)
    """When webhooks were last seen to ask a service for what is to move to admission; from the
    first look on, and before it others may have moved them."""

    async def reconcile(self, key: All) -> Result:
        config = self._applier.copies.configs.get(Key("", _READ))
        try:
            await self._tell_others()
            if config is None or config.metadata.deletion_timestamp is not None:
                # Whatever belongs to it goes with it, and no scheduler does without.
                await self._tell_shards(self._shards(), _NO_CONFIG)
                return DONE
            return await self._follow(config)
        except (Unreachable, Deposed):
            raise  # There is nobody to tell, or it is not ours to.
        except Exception as error:
            if config is not None:
                await self._tell_failed(config, error)
            raise

    async def _follow(self, config: Config) -> Result:
        self._applier.begin()
        problems = [*map(str, usable_config(config)), *self._misplaced(config)]
        if problems:
            # What was said of the others is so still: nothing changes.
            await self._tell_shards(filter(_is_unseen, self._shards()), _BAD_CONFIG)
            await self._tell(kinds.CONFIG, config, config.status.conditions, Facts(problems))
            return Result(_LOOK_AGAIN_S)
        look = await self._look(config)
        await self._bring_about(look)
        await self._clear(look)
        await self._report(look)
        waits = look.wrong or not look.is_settled
        return Result(_RETRY_S if waits else _LOOK_AGAIN_S)

    async def _look(self, config: Config) -> _Look:
        settings, copies = Settings.of(config, self._image()), self._applier.copies
        shards = self._shards()
        self._no_effect.show(ineffective(config, shards))
        served = copies.served()
        usable, wrong = usable_shards(shards, settings, served)
        trusted, failures = await self._certificates(config, settings)
        installation = Installation(
            settings,
            usable,
            *kept_for(shards, settings, served),
            served,
            base64.b64encode(trusted).decode(),
        )
        texts = {name: [str(one) for one in found] for name, found in wrong.items()}
        look = _Look(config, shards, installation, desired(installation), texts)
        look.failed(_CONFIG, failures)
        return look

    def _shards(self) -> list[SchedulingShard]:
        every = self._applier.copies.shards.objects.values()
        return [one for one in every if not one.metadata.deletion_timestamp]

    def _image(self) -> Release:
        """What we were told; else what we run from ourselves, so that one change upgrades all."""
        own = self._applier.live(DEPLOYMENT, Key(self._namespace, names.OPERATOR_DEPLOYMENT))
        if self._release != Release() or own is None:
            return self._release
        return Release.of(own["spec"]["template"]["spec"]["containers"][0]["image"])

    def _misplaced(self, config: Config) -> list[str]:
        """Our rights end at our namespace."""
        given, here = config.spec.namespace or names.DEFAULT.namespace, self._namespace
        if given == here:
            return []
        return [f"spec.namespace: {given} is not where the operator is: write {here}"]

    async def _certificates(self, config: Config, settings: Settings) -> tuple[bytes, list[str]]:
        """What API servers should trust; the secrets hold it, and what it vouches for."""
        namespace, service = self._namespace, names.SERVICE_ADMISSION
        authority = await self._secret(names.SECRET_WEBHOOK_CA)
        serving = await self._secret(names.SECRET_WEBHOOK_TLS)
        held = Certificates(
            authority.get("tls.crt", b""),
            authority.get("tls.key", b""),
            authority.get("ca.crt", b""),
            serving.get("tls.crt", b""),
            serving.get("tls.key", b""),
        )
        hosts = [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]
        now = renewed(held, hosts, self._clock.now_s())
        first = {"tls.crt": now.authority, "tls.key": now.authority_key, "ca.crt": now.trusted}
        second = {"tls.crt": now.serving, "tls.key": now.serving_key}
        failures: list[str] = []
        # The authority first: what it signs must never be there without it.
        for name, files in ((names.SECRET_WEBHOOK_CA, first), (names.SECRET_WEBHOOK_TLS, second)):
            if failures:
                break
            failures += await self._applier.bring_about(
                _secret(name, namespace, files), owner_of(kinds.CONFIG, config.metadata)
            )
        return now.trusted, failures

    async def _secret(self, name: str) -> dict[str, bytes]:
        try:
            found = await self._applier.reader.get(SECRET, Key(self._namespace, name))
        except NotFound:
            return {}
        return {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}

    # --- Writing ------------------------------------------------------------------------------

    async def _bring_about(self, look: _Look) -> None:
        owner = owner_of(kinds.CONFIG, look.config.metadata)
        self._heed_those_before()
        asked = self._still_asked(look.wants)
        later = waiting(look.wants.config, asked | self._lately_asked())
        for want in look.wants.config:
            if want not in later:
                look.failed(_CONFIG, await self._bring(want, owner))
        for want in look.wants.webhooks:
            look.failed(_CONFIG, await self._bring_hook(want, owner))
        self._asked_s.update(dict.fromkeys(asked, self._clock.monotonic_s()))
        still = self._still_asked(look.wants)
        for want in later:
            why = _WAITS if want.key.name in still else _STILL_ASKED
            look.failed(_CONFIG, [f"{want}: {why}"])
        for shard in look.installation.shards:
            belongs = owner_of(kinds.SCHEDULING_SHARD, shard.metadata)
            for want in look.wants.shards[shard.metadata.name]:
                look.failed(shard.metadata.name, await self._bring(want, belongs))

    async def _bring(self, want: Wanted, owner: Json) -> list[str]:
        return await self._applier.bring_about(want, None if want.is_kept else owner)

    async def _bring_hook(self, want: Wanted, owner: Json) -> list[str]:
        """From then on what users write depends on an answer, so somebody must be there."""
        live = self._applier.live(want.kind, want.key)
        admission = self._applier.live(DEPLOYMENT, Key(self._namespace, names.SERVICE_ADMISSION))
        is_answered = live is not None and hook_moves.is_answered(want, live, self._namespace)
        if is_answered or (admission is not None and hook_moves.has_rolled(admission)):
            return await self._bring(want, owner)
        told = [f"{want}: {_WAITS}"]
        if live is None:
            return told
        return told + await self._bring(hook_moves.trusting(want, live, self._namespace), owner)

    def _heed_those_before(self) -> None:
        """One of us may have moved webhooks an instant ago, and ended. Whom they asked is then as
        KAI left it."""
        if not self._asked_s:
            keys = [Key(self._namespace, name) for name in hook_moves.ANSWER_FOR_KAI]
            lives = {
                key.name: [self._applier.live(kind, key) for kind in (DEPLOYMENT, SERVICE)]
                for key in keys
            }
            now_s = self._clock.monotonic_s()
            for name, both in lives.items():
                is_as_left = any(live and not is_taken_over(live) for live in both)
                self._asked_s[name] = now_s if is_as_left else -inf

    def _lately_asked(self) -> frozenset[str]:
        """Services that an API server may still ask, which has not heard of the move."""
        since_s = self._clock.monotonic_s() - _HEARD_S
        return frozenset(name for name, asked_s in self._asked_s.items() if asked_s > since_s)

    def _still_asked(self, wants: Desired) -> frozenset[str]:
        """Services that the API server asks for webhooks which are to move to admission."""
        lives = [self._applier.live(want.kind, want.key) or {} for want in wants.webhooks]
        hooks = [hook for live in lives for hook in live.get("webhooks", ())]
        found = {service for service, _ in hook_moves.asked(hooks, self._namespace)}
        return frozenset(found - {names.SERVICE_ADMISSION})

    async def _clear(self, look: _Look) -> None:
        """Remove what belongs to Config or to a shard and is wanted no more."""
        wants = [*look.wants.config, *look.wants.webhooks, *_each(look.wants.shards.values())]
        wanted_ids = {want.id for want in wants}
        owners = {look.config.metadata.uid: _CONFIG}
        owners |= {one.metadata.uid: one.metadata.name for one in look.installation.shards}
        done = {uid: name for uid, name in owners.items() if not look.failures.get(name)}
        for kind in reversed(MADE):
            informer = self._applier.copies.made.get(kind.full_name)
            for live in list(informer.objects.values()) if informer is not None else ():
                owner = done.get(_controller_uid(live))
                meta = live["metadata"]
                key = Key(meta.get("namespace", ""), meta["name"])
                if owner is not None and (kind.full_name, key) not in wanted_ids:
                    look.failed(owner, await self._applier.remove(kind, live))

    # --- Saying so ----------------------------------------------------------------------------

    async def _report(self, look: _Look) -> None:
        for shard in look.shards:
            name = shard.metadata.name
            facts = Facts(
                look.wrong.get(name, ()),
                look.failures.get(name, ()),
                self._unavailable(look.wants.shards.get(name, ())),
            )
            await self._tell(kinds.SCHEDULING_SHARD, shard, shard.status.conditions, facts)
        # Last: it is where a look that fails is told.
        facts = Facts(
            failures=look.failures.get(_CONFIG, ()),
            unavailable=self._unavailable(look.wants.config),
            missing=missing_dependencies(look.installation),
        )
        await self._tell(kinds.CONFIG, look.config, look.config.status.conditions, facts)

    async def _tell_failed(self, config: Config, error: Exception) -> None:
        """Whatever it was: what was said before it may be so no more."""
        facts = Facts(failures=[f"{_FAILED}: {described(error)}"])
        with suppress(ApiError, Unreachable):
            await self._tell(kinds.CONFIG, config, config.status.conditions, facts)
            await self._tell_shards(filter(_is_unseen, self._shards()), _FAILED_SHARD)

    async def _tell_shards(self, shards: Iterable[SchedulingShard], why: str) -> None:
        for shard in shards:
            facts = Facts(failures=[why])
            await self._tell(kinds.SCHEDULING_SHARD, shard, shard.status.conditions, facts)

    async def _tell_others(self) -> None:
        """Configs that nobody reads say so."""
        facts = Facts([f"metadata.name: only {_READ} is read: write in that one what is to hold"])
        for config in list(self._applier.copies.configs.objects.values()):
            if config.metadata.name != _READ:
                await self._tell(kinds.CONFIG, config, config.status.conditions, facts)

    def _unavailable(self, wants: Iterable[Wanted]) -> list[str]:
        found: list[str] = []
        for want in wants:
            if want.kind is DEPLOYMENT:
                live = self._applier.live(DEPLOYMENT, want.key)
                found.append(unavailability(live) if live else f"{want.key.name}: not there yet")
        return [text for text in found if text]

    async def _tell(
        self, kind: Kind[Any], owner: Any, said: Sequence[Condition], facts: Facts
    ) -> None:
        metadata: ObjectMeta = owner.metadata
        patch = status_patch(said, facts, metadata.generation, self._clock.now_s())
        if patch is not None:
            try:
                await self._writer.patch(kind, metadata.key, patch, subresource="status")
            except NotFound:
                return


def owner_of(kind: Kind[Any], metadata: ObjectMeta) -> Json:
    """A reference by which an object belongs to this one, and goes with it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
    }


def installation_of(_: object) -> tuple[All, ...]:
    """Whatever changed, the installation may have."""
    return (ALL,)


def _is_unseen(shard: SchedulingShard) -> bool:
    """Whether nothing was said yet of what it wants now."""
    said = shard.status.conditions
    return not said or any(one.observed_generation < shard.metadata.generation for one in said)


def _secret(name: str, namespace: str, files: dict[str, bytes]) -> Wanted:
    data = {key: base64.b64encode(content).decode() for key, content in files.items()}
    return wanted(SECRET, name, namespace, app=names.SERVICE_ADMISSION, type="Opaque", data=data)


def _controller_uid(live: Json) -> str:
    references = live["metadata"].get("ownerReferences", ())
    return next((str(one["uid"]) for one in references if one.get("controller")), "")


def _each(many: Iterable[Iterable[Wanted]]) -> list[Wanted]:
    return [want for wants in many for want in wants]
