"""How hypothesis draws: the same on every machine, or at random where one explores.

A test that is red on one machine and green on the next tells nobody anything. So `make test` draws
what follows from the test alone; `make explore` looks for what those draws miss.
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

EXPLORE: Final = "MUSTER_EXPLORE"
"""The environment variable that, if not empty, makes draws random."""

# A parent is named, because hypothesis has other defaults where it believes to run in CI. How fast
# the machine is must not decide either: no deadline, and no complaint that drawing is slow.
_EVERYWHERE: Final = settings(
    settings.get_profile("default"),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def load_profile() -> None:
    """Register both ways to draw, and choose."""
    settings.register_profile("same", _EVERYWHERE, derandomize=True)
    settings.register_profile("explore", _EVERYWHERE, derandomize=False, max_examples=500)
    settings.load_profile("explore" if os.environ.get(EXPLORE) else "same")
    _draw_no_constants_of_sources()


def _draw_no_constants_of_sources() -> None:
    """Hypothesis likes to draw constants that it finds in the modules that are imported so far.

    With that a draw depends on which tests ran before, and on where the checkout lies: a failure of
    the whole suite, or one found from a seed, would not come back when the test is run alone.
    """
    vars(providers)["_get_local_constants"] = lambda: providers._local_constants
