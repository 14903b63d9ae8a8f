"""What a shard's args may say: flags of its scheduler, and words for the operator itself. Pure.

A scheduler that is given what it cannot read ends at once, again and again; so values are held to
the same forms here, and what is wrong is said on the shard.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from muster.api.duration import BadDuration, Duration
from muster.api.shard import SchedulingShard
from muster.api.validation.problems import Problem
from muster.base.parse_int import parse_int
from muster.services.operator.dialects import CONF_MAP
from muster.services.operator.journal import CLAIM, SIZE
from muster.services.operator.utilization import UTILIZATION

Form = Callable[[str], str]
"""What to write instead of a text; empty: it will do."""


def _text(_: str) -> str:
    return ""


def _duration(text: str) -> str:
    try:
        Duration(text)
    except BadDuration:
        return "write a duration like 30s"
    return ""


def _rate(text: str) -> str:
    try:
        is_rate = 0 < float(text) < inf
    except ValueError:
        is_rate = False
    return "" if is_rate else "write a number above 0"


def _number(text: str) -> str:
    return "" if parse_int(text.removeprefix("-")) is not None else "write a whole number"


def _count(text: str) -> str:
    return "" if parse_int(text) else "write a whole number, 1 or more"


def _address(text: str) -> str:
    fits = not text or text.startswith(("http://", "https://"))
    return "" if fits else "write http://host:4318"


def _one_of(*words: str) -> Form:
    return lambda text: "" if text in words else f"write {' or '.join(words)}"


def _perhaps(text: str) -> str:
    return "" if text in ("", "true", "false") else "write true or false"


def _switch(text: str) -> str:
    return "" if text.lower() in ("true", "false") else "write true or false"


SWITCHES: Final = frozenset(
    {
        "allow-consolidating-reclaim",
        "evict-by-deletion",
        "full-hierarchy-fairness",
        "log-json",
        "restrict-node-scheduling",
        "update-pod-eviction-condition",
    }
)
"""Flags of the scheduler that a shard may set, with true or false."""
VALUES: Final[Mapping[str, Form]] = {
    "bind-requests": _one_of("needed", "always"),
    "burst": _count,
    # A token would have to be in a file, and a shard brings none along.
    "debug-auth": _one_of("kubernetes"),
    "default-queue": _text,
    "default-staleness-grace-period": _duration,
    "enable-namespace-as-queue": _perhaps,
    "journal-input-retention": _duration,
    "journal-retention": _duration,
    "max-consolidation-preemptees": _number,
    "metrics-auth": _one_of("kubernetes", "none"),
    "num-of-status-recording-workers": _count,
    "otlp-endpoint": _address,
    # The dialects say what is wrong with it.
    "profile": _text,
    "qps": _rate,
    "schedule-period": _duration,
    "stuck-in-releasing-threshold": _duration,
    "v": _number,
}
"""The same, with a value of a form. The other flags are the operator's to set."""
OURS: Final = frozenset({CONF_MAP, CLAIM, "journal-folder", SIZE, UTILIZATION})
"""What the operator reads of a shard's args, and turns into volumes and flags."""


def arg_problems(shard: SchedulingShard) -> Iterator[Problem]:
    known = SWITCHES | VALUES.keys() | OURS
    for name, text in sorted(shard.spec.args.items()):
        path = f"spec.args[{name}]"
        form = _switch if name in SWITCHES else VALUES.get(name, _text)
        if name not in known:
            fix = f"known: {', '.join(sorted(known))}"
            yield Problem(path, "the scheduler takes no such flag", fix)
        elif fix := form(text):
            yield Problem(path, f"{text!r} is no value that the scheduler takes", fix)
