"""What the operator decides from: Config with its defaults, shards with theirs, and the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.codec import builtins
from muster.api.config import Config
from muster.api.config_defaults import defaulted_config, names_of
from muster.api.names import DEFAULT_IMAGE, Names
from muster.api.profiles import ProfileName
from muster.api.shard import SchedulingShard
from muster.services.operator.objects import Json

VOLCANO_SECTION: Final = "volcanoControllers"


@dataclass(frozen=True, slots=True)
class Release:
    """The image of this release, which all services run from."""

    repository: str = ""
    tag: str = ""
    image: str = DEFAULT_IMAGE

    @classmethod
    def of(cls, text: str) -> "Release":
        """From an image as pods name it: repository/image:tag or repository/image@digest."""
        where, _, digest = text.partition("@")
        repository, _, last = where.rpartition("/")
        image, _, tag = last.partition(":")
        return cls(repository, digest or tag, image)


@dataclass(frozen=True, slots=True)
class Settings:
    """Config in its own words: `spec` with all defaults, `given` as it was written."""

    spec: Json
    given: Json
    names: Names
    image: str = DEFAULT_IMAGE
    """What our own image is called; one of the user's has another name."""

    @classmethod
    def of(cls, config: Config, release: Release) -> "Settings":
        defaulted = defaulted_config(config, release.repository, release.tag, release.image)
        spec, given = builtins(defaulted.spec), builtins(config.spec)
        # Of Volcano's controllers Config says nothing.
        spec[VOLCANO_SECTION] = spec["podGroupController"]
        return cls(spec, given, names_of(config), release.image)

    @property
    def everywhere(self) -> Json:
        found: Json = self.spec["global"]
        return found

    @property
    def prometheus(self) -> Json:
        found: Json = self.spec["prometheus"]
        return found

    def section(self, name: str) -> Json:
        """What is said of one service."""
        found: Json = self.spec[name]
        return found

    def was_given(self, *path: str) -> Any:
        """What was written at a path, or None."""
        found: Any = self.given
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return found


@dataclass(frozen=True, slots=True)
class Installation:
    """All that the desired objects follow from."""

    settings: Settings
    shards: Sequence[SchedulingShard] = ()
    """With their defaults, and only those that can be used."""
    leases: Sequence[str] = ()
    """Of the schedulers of all shards: whoever schedules now goes on to."""
    profiles: frozenset[ProfileName] = frozenset()
    """Of all shards that have what they need: what runs for them now goes on to."""
    served: frozenset[str] = field(default_factory=frozenset)
    """Full names of the optional kinds that the cluster serves."""
    ca_bundle: str = ""
    """Base64 of what API servers should trust when they ask our webhooks."""
