"""Where days of usage lie in the API server: one ConfigMap for each of the last 36 days.

The queue controller that leads writes them; another replica goes on from them, and schedulers and
people read them. There are never more, and none is larger than an object may be. A day has its
place by its number, so that the newest takes that of the one that is too old, and rights can name
them all.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.core import ConfigMap
from muster.api.kinds import CONFIG_MAP
from muster.api.meta import Key
from muster.client.errors import ApiError, BadObject, NotFound, Unreachable
from muster.client.read import Reader
from muster.usage.accrual import DAY_S
from muster.usage.days import BadDay, DayUsage, packed, unpacked
from muster.usage.source import NoUsage

CLUSTER: Final = "cluster"
"""In place of a file's path: these copies."""
SLOTS: Final = 36
_PREFIX: Final = "muster-usage-"
_KEY: Final = "day"
MAP_NAMES: Final = tuple(f"{_PREFIX}{slot:02}" for slot in range(SLOTS))


def map_of(day: int) -> str:
    """The name of the map that a day has its place in."""
    return MAP_NAMES[day % SLOTS]


def map_body(day: DayUsage, name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "binaryData": {_KEY: b64encode(packed(day)).decode()},
    }


def day_in(found: ConfigMap) -> DayUsage:
    """Raises `BadDay`."""
    try:
        day = unpacked(b64decode(found.binary_data.get(_KEY, ""), validate=True))
    except ValueError as error:  # Also of letters that are none of base64's.
        raise BadDay(f"it is no day of usage ({error})") from None
    if map_of(day.day) != found.metadata.name:
        raise BadDay(f"it holds day {day.day}, whose place is {map_of(day.day)}")
    return day


@dataclass(slots=True)
class ClusterCopy:
    """Reads the maps; those of days that are over only once."""

    _reader: Reader
    _namespace: str
    _seen: dict[str, str] = field(default_factory=dict, init=False)
    """Resource versions, by name of map."""

    async def changed(self, now_s: float) -> list[DayUsage]:
        """Days that are new or have grown, oldest first. Raises `NoUsage`; never half of them."""
        found = await self._read(MAP_NAMES if not self._seen else _of_late(now_s))
        days = sorted((_day(one) for one in found.values()), key=lambda day: day.day)
        self._seen |= {name: one.metadata.resource_version for name, one in found.items()}
        if not self._seen:
            raise NoUsage(
                f"nobody keeps usage in this cluster: no ConfigMap {MAP_NAMES[0]} or the like in "
                f"namespace {self._namespace}: see that the queue controller runs with "
                "--usage-in-cluster"
            )
        return days

    def forget(self) -> None:
        """Read all of them anew next time."""
        self._seen.clear()

    async def _read(self, names: Iterable[str]) -> Mapping[str, ConfigMap]:
        found: dict[str, ConfigMap] = {}
        for name in names:
            try:
                one = await self._reader.get(CONFIG_MAP, Key(self._namespace, name))
            except NotFound:
                continue
            except (ApiError, Unreachable, BadObject) as error:
                raise NoUsage(f"usage kept in the cluster cannot be read: {error}") from None
            if one.metadata.resource_version != self._seen.get(name):
                found[name] = one
        return found


def _of_late(now_s: float) -> tuple[str, ...]:
    """Of today and yesterday; of tomorrow, where the clock of whoever writes is ahead."""
    today = int(now_s // DAY_S)
    return tuple(map_of(day) for day in (today - 1, today, today + 1))


def _day(found: ConfigMap) -> DayUsage:
    try:
        return day_in(found)
    except BadDay as error:
        raise NoUsage(
            f"ConfigMap {found.metadata.name}: {error}; delete it to go on without that day"
        ) from None
