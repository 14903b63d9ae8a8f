"""Where the queue controller's pods keep past usage and accounts. Pure.

Config has no word for it, so there is nothing to say: they are always kept, in ConfigMaps of our
namespace, bounded in number and size. The file is each pod's own and may go with it.
"""

from typing import Final

from muster.api.shard import SchedulingShard
from muster.api.validation.problems import Problem
from muster.services.operator.objects import Json

EMBEDDED: Final = "embedded"
KEPT: Final = "cluster"
"""What a shard names as the place of past usage."""
_FOLDER: Final = "/var/lib/muster/usage"
_SIZE_MAX_BYTES: Final = 256 * 2**20
_VOLUME_BYTES: Final = 2 * _SIZE_MAX_BYTES + 64 * 2**20
"""SQLite writes pages anew beside the old ones while it lets go of them."""


def usage_flags() -> list[str]:
    return [
        f"--usage-store={_FOLDER}/usage.db",
        f"--usage-size-max-bytes={_SIZE_MAX_BYTES}",
        "--usage-in-cluster",
    ]


def usage_volume() -> dict[str, Json]:
    """By the folder where it is mounted."""
    return {_FOLDER: {"emptyDir": {"sizeLimit": str(_VOLUME_BYTES)}}}


def usage_problems(shard: SchedulingShard) -> list[Problem]:
    usage = shard.spec.usage_db_config
    if usage is None or usage.client_type != EMBEDDED:
        return []
    if usage.connection_string in ("", KEPT) and not usage.connection_string_env_var:
        return []
    why = "a file of the queue controller is in another pod"
    fix = f"write {KEPT}, or leave it out"
    return [Problem("spec.usageDBConfig.connectionString", why, fix)]
