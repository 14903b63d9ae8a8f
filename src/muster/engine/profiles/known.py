"""Profiles by name, and reading their configuration."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from muster.api.validation.problems import Problem
from muster.engine.config.conf import SchedulerConf, parse_conf
from muster.engine.config.dialects import parse_dialect
from muster.engine.config.profile import Profile
from muster.engine.profiles.kube_batch import KUBE_BATCH, KUBE_BATCH_02
from muster.engine.profiles.volcano import VOLCANO
from muster.engine.registry import build_policy
from muster.engine.tiers.rules import SWITCHES

KAI = "kai"
TIERED: Mapping[str, Profile] = MappingProxyType(
    {each.name: each for each in (VOLCANO, KUBE_BATCH, KUBE_BATCH_02)}
)
NAMES = (KAI, *TIERED)


def profile_of(name: str) -> Profile | None:
    """The profile of that name; None for KAI, which everything is unless said otherwise."""
    if name not in NAMES:
        raise ValueError(f'no profile "{name}"; known are {", ".join(NAMES)}')
    return TIERED.get(name)


def parse_for(profile: Profile | None, text: str, file: str) -> SchedulerConf:
    """A configuration file in the profile's own format."""
    if profile is None:
        return parse_conf(text, file)
    said: list[Problem] = []
    conf = parse_dialect(text, profile, SWITCHES, said, file)
    build_policy(conf, None, profile)  # plugins say which arguments they do not know
    return replace(conf, no_effect=tuple(said))
