"""A plan carried out on records, for tests: see `muster.foresight.aftermath`."""

from muster.foresight.aftermath import Unplanned, carried_out

__all__ = ["Unplanned", "carried_out"]
