"""What pods really use, in a shard's own words: idle GPUs, and room that others leave. Pure.

KAI's shard has no field for it, so it stands in its args, as YAML. The scheduler reads what is in
it, and says what is wrong there; here only its keys are known.
"""

from typing import Any, Final

import yaml

from muster.api.profiles import ProfileName
from muster.api.shard import SchedulingShard
from muster.api.validation.problems import Problem
from muster.services.operator.dialects import profile_of
from muster.services.operator.objects import Json

UTILIZATION: Final = "utilization"
_PATH: Final = f"spec.args[{UTILIZATION}]"
_EXAMPLE: Final = "{idleGpus: {below: 5, after: 1h}}"
_KEYS: Final = frozenset(
    {
        "bearerTokenFile",
        "caFile",
        "connectionString",
        "connectionStringEnvVar",
        "fetchInterval",
        "idleGpus",
        "metrics",
        "overcommit",
        "queryTimeout",
        "stalenessPeriod",
    }
)


def utilization(shard: SchedulingShard, address: str) -> Json:
    """For the scheduler's file; `address` where the shard names none. Empty: nothing is asked."""
    given = _given(shard)
    if not isinstance(given, dict) or not given:
        return {}
    named = given.get("connectionString") or given.get("connectionStringEnvVar")
    return dict(given) if named or not address else {**given, "connectionString": address}


def utilization_problems(shard: SchedulingShard, address: str) -> list[Problem]:
    given = _given(shard)
    if given is None:
        return []
    if not isinstance(given, dict):
        return [Problem(_PATH, "it is no YAML of keys and values", f"write {_EXAMPLE}")]
    if profile_of(shard) is not ProfileName.KAI:
        why = "the scheduler of another profile has a conf of its own"
        return [Problem(_PATH, why, "write it in that conf")]
    if unknown := sorted(str(key) for key in given.keys() - _KEYS):
        known = ", ".join(sorted(_KEYS))
        return [Problem(_PATH, f"there is no key {', '.join(unknown)}", f"known: {known}")]
    if given and not utilization(shard, address).keys() & {
        "connectionString",
        "connectionStringEnvVar",
    }:
        fix = "write connectionString here, or spec.prometheus.externalPrometheusUrl in Config"
        return [Problem(_PATH, "nothing says where it is read", fix)]
    return []


def _given(shard: SchedulingShard) -> Any:
    """None: the shard says nothing of it."""
    text = shard.spec.args.get(UTILIZATION)
    if text is None:
        return None
    try:
        return yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
