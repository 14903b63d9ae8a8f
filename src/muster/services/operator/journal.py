"""Where a scheduler's pod keeps its journal, and how much of it. Pure.

On a volume of its own, of a size that the journal keeps well within: a kubelet evicts a pod whose
volume is too full. It goes with the pod unless the shard names a PersistentVolumeClaim.
"""

from typing import Final

from muster.api.shard import SchedulingShard
from muster.api.validation.problems import Problem
from muster.services.operator.objects import Json

FOLDER: Final = "/var/lib/muster/journal"
CLAIM: Final = "journal-claim"
"""The shard's word for the claim that the journal is kept on."""
SIZE: Final = "journal-size-max-bytes"
SIZE_MAX_BYTES: Final = 2**30
_ROOM: Final = 2
"""The file may be written anew beside itself while what is old is let go of."""
_SLACK_BYTES: Final = 64 * 2**20
_OFF: Final = ""


def folder_of(shard: SchedulingShard) -> str:
    """Empty: the shard wants none."""
    given = shard.spec.args.get("journal-folder", "auto")
    return FOLDER if given == "auto" else given


def journal_flags(shard: SchedulingShard) -> list[str]:
    return [f"--journal-folder={folder_of(shard)}", f"--{SIZE}={_size(shard)}"]


def journal_volume(shard: SchedulingShard) -> dict[str, Json]:
    """By the folder where it is mounted."""
    folder = folder_of(shard)
    if folder == _OFF:
        return {}
    if claim := shard.spec.args.get(CLAIM, ""):
        return {folder: {"persistentVolumeClaim": {"claimName": claim}}}
    limit = _size(shard) * _ROOM + _SLACK_BYTES
    return {folder: {"emptyDir": {"sizeLimit": str(limit)}}}


def journal_problems(shard: SchedulingShard) -> list[Problem]:
    found: list[Problem] = []
    folder, given = folder_of(shard), shard.spec.args.get(SIZE, "1")
    if folder != _OFF and not folder.startswith("/"):
        why = f"{folder!r} is no path from the root"
        found.append(Problem("spec.args[journal-folder]", why, f"write auto, or {FOLDER}"))
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        found.append(
            Problem(f"spec.args[{SIZE}]", f"{given!r} is no size", "write bytes: 1073741824")
        )
    if folder == _OFF and shard.spec.args.get(CLAIM):
        why, fix = "there is no journal to keep on it", "remove it, or set journal-folder to auto"
        found.append(Problem(f"spec.args[{CLAIM}]", why, fix))
    return found


def _size(shard: SchedulingShard) -> int:
    return int(shard.spec.args.get(SIZE, SIZE_MAX_BYTES))
