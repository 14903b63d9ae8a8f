"""Which checks belong to which storage, and the step that runs them."""

from collections.abc import Callable, Mapping

from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.pipeline import WriteRequest

Check = Callable[[Object, Object | None], list[Cause]]
CHECKS: Mapping[str, Check] = {}


async def check_kind(request: WriteRequest, old: Object | None, new: Object | None) -> list[Cause]:
    """VALIDATE step of built-in kinds. Writes to a status are not judged by the spec's rules."""
    check = CHECKS.get(request.kind.storage)
    if new is None or check is None or request.kind.is_custom or request.subresource:
        return []
    return check(new, old)
