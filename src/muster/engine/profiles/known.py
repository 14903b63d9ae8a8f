"""Profiles by name, and reading their configuration."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from muster.api.validation.problems import Problem
from muster.engine.config.conf import SchedulerConf, parse_conf
from muster.engine.config.dialects import parse_dialect
from muster.engine.config.profile import Profile
from muster.engine.hooks import LEAST_FRAGMENTATION
from muster.engine.profiles.kube_batch import KUBE_BATCH, KUBE_BATCH_02
from muster.engine.profiles.volcano import VOLCANO
from muster.engine.registry import build_policy
from muster.engine.tiers.rules import SWITCHES

MUSTER, KAI = "muster", "kai"
"""Ours and KAI's: the same words, but for what holds where nothing is said."""
_PLACEMENT: Mapping[str, str] = MappingProxyType({MUSTER: LEAST_FRAGMENTATION})
"""How nodes are chosen where a configuration says neither that nor its plugins; others pack."""
TIERED: Mapping[str, Profile] = MappingProxyType(
    {each.name: each for each in (VOLCANO, KUBE_BATCH, KUBE_BATCH_02)}
)
NAMES = (MUSTER, KAI, *TIERED)


def profile_of(name: str) -> Profile | None:
    """The profile of that name; None for those in KAI's words, ours and its own."""
    if name not in NAMES:
        raise ValueError(f'no profile "{name}"; known are {", ".join(NAMES)}')
    return TIERED.get(name)


def conf_of(name: str, text: str, file: str) -> SchedulerConf:
    """A configuration file as the profile of that name reads it."""
    profile = profile_of(name)
    if profile is None:
        return parse_conf(text, file, _PLACEMENT.get(name))
    return parse_for(profile, text, file)


def parse_for(profile: Profile | None, text: str, file: str) -> SchedulerConf:
    """A configuration file in the profile's own format; without one as KAI reads it."""
    if profile is None:
        return parse_conf(text, file)
    said: list[Problem] = []
    conf = parse_dialect(text, profile, SWITCHES, said, file)
    build_policy(conf, None, profile)  # plugins say which arguments they do not know
    return replace(conf, no_effect=tuple(said))
