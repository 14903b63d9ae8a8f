"""The page about services names every metric of the frame, and no other."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from muster.runtime.meters import ClientMeters, ControllerMeters, InformerMeters, meter_leader

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "service.md"


def test_every_metric_of_the_runtime_is_documented_and_every_documented_one_exists() -> None:
    registry = CollectorRegistry()
    ClientMeters(registry)
    ControllerMeters(registry)
    InformerMeters(registry)
    meter_leader(registry, "lease", lambda: True)
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    }
    rows = re.findall(r"^\| `([a-z_]+)` \| [a-z, ]+ \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(exposed)
