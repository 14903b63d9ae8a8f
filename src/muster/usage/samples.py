"""When a time was measured well enough to go by. Pure."""

from typing import Final

_KNOWN_PART: Final = 0.9
"""Of the samples that there should be: an exporter may miss some, a scrape may fail."""


def is_known(samples: float, over_s: float, resolution_s: float) -> bool:
    """Whether there are samples of nearly all of a time that is sampled so often."""
    return samples >= _KNOWN_PART * over_s / resolution_s
