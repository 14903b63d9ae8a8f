"""Makes the first Config, shard and queues, once in the life of an installation.

Who installs by applying files cannot bring them along: their kinds do not exist until the files are
applied. A marker keeps them from coming back after somebody removed them; `muster uninstall` takes
it along.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from muster.api.config import Config, ConfigSpec
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.errors import ApiError, NotFound, Unreachable, described
from muster.services.operator.applier import Applier
from muster.services.operator.bootstrap import defaults, defaults_marker

_RETRIES: Final = Backoff(first_s=5.0, longest_s=60.0)


@dataclass(frozen=True, slots=True)
class FirstDefaults:
    """Runs where the operator leads."""

    _applier: Applier
    _namespace: str
    _clock: Clock
    _log: Log

    async def run(self) -> None:
        """Until all is made; then for ever, doing nothing."""
        tries = 0
        while failures := await self._make():
            tries += 1
            self._log.warning("defaults not made", problems="; ".join(failures))
            await self._clock.sleep(_RETRIES.delay_s(tries))
        await asyncio.Event().wait()

    async def _make(self) -> list[str]:
        marker = defaults_marker(self._namespace)
        try:
            await self._applier.reader.get(marker.kind, marker.key)
            return []
        except NotFound:
            pass
        except (ApiError, Unreachable) as error:
            return [f"{marker}: {described(error)}"]
        failures: list[str] = []
        for want in defaults(Config(spec=ConfigSpec(namespace=self._namespace))):
            failures += await self._applier.bring_about(want, None)
        if not failures:
            failures += await self._applier.bring_about(marker, None)
        return failures
