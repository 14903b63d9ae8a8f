"""By what a plan's token knows whether it was planned by the same rules."""

import pytest

from muster.engine.profiles.known import NAMES
from muster.foresight.situation import rules_of
from muster.web.live import rules_digest


@pytest.mark.parametrize("profile", NAMES)
def test_the_same_configuration_read_again_is_the_same(profile: str) -> None:
    """A config map that is mounted anew is read anew."""
    assert rules_digest(rules_of(profile=profile)) == rules_digest(rules_of(profile=profile))


def test_another_configuration_or_profile_is_another() -> None:
    usual = "actions: allocate, reclaim"
    more = ("placement: binpack", "placement: spread", "disruptionBudget: {maxEvictedPerCycle: 2}")
    texts = (
        "",
        usual,
        *(f"{usual}\n{line}" for line in more),
        f"{usual}\nqueueDepthPerAction: {{allocate: 5}}",
        f"{usual}\ntiers: [{{plugins: [{{name: priority}}]}}]",
    )
    found = [rules_digest(rules_of(text)) for text in texts]
    found += [rules_digest(rules_of(profile=name)) for name in NAMES if name != "kai"]
    found.append(rules_digest(rules_of(staleness_grace_s=7.0)))
    assert len(set(found)) == len(found)
