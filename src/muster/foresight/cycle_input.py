"""What a cycle started from, as a file: the scheduler's `/debug/snapshot`, `muster snapshot`.

In a notebook: `foresight.read_situation("cycle.json")`.
"""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.api.codec import from_wire
from muster.engine.holds import Hold
from muster.foresight.situation import Situation, rules_of
from muster.model.records import ClusterRecords

GZIP: Final = b"\x1f\x8b"


class NotACycle(Exception):
    """The file holds no cycle's input; the text says what is wrong."""


class CycleInput(msgspec.Struct, frozen=True):
    """Everything that a cycle depended on."""

    now_s: float
    conf: str
    """Text of the configuration file."""
    records: ClusterRecords
    settings: Mapping[str, Any] = {}
    """The command-line settings that decisions depend on."""
    holds: tuple[Hold, ...] = ()
    """Room that earlier cycles had made."""
    acted_s: Mapping[str, float] = {}
    """When plugins had last done what they do only now and then."""


def unpacked(data: bytes) -> bytes:
    """What was perhaps compressed. Raises `NotACycle`."""
    if not data.startswith(GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise NotACycle(f"truncated or corrupt: {error}") from None


def read_situation(path: str | Path) -> Situation:
    """What a file of the scheduler's saw, to be asked about. Raises `NotACycle`, ConfigError."""
    data = unpacked(Path(path).read_bytes())
    try:
        found = msgspec.json.decode(data, type=CycleInput, dec_hook=from_wire)
    except msgspec.DecodeError as error:
        raise NotACycle(f"{path} is no cycle of muster's: {error}") from None
    rules = rules_of(found.conf, str(path), **found.settings)
    return Situation.of(found.records, found.now_s, rules, found.holds, found.acted_s)
