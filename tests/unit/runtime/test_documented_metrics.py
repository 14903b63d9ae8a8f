"""The page about services names every metric of the frame, and no other."""

import re
from pathlib import Path

from tests.support.scheduler_world import FakeServer

from muster.base.clock import VirtualClock
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.events import Recorder
from muster.client.transport import InProcessTransport
from muster.client.write import Writer
from muster.runtime.loop_lag import LoopLag
from muster.runtime.meters import meter_leader
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.supervisor import Supervisor

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "service.md"


def test_every_metric_of_the_runtime_is_documented_and_every_documented_one_exists() -> None:
    connection = Connection(InProcessTransport(FakeServer().handle), VirtualClock(), Rand(1))
    log = Log("service", MemorySink())
    recorder = Recorder(Writer(connection), "service", log=log)
    supervisor = Supervisor("service", connection, log=log, recorder=recorder)
    NoEffectReport(supervisor)
    LoopLag(supervisor.clock, supervisor.registry)
    registry = supervisor.registry
    meter_leader(registry, "lease", lambda: True)
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    }
    rows = re.findall(r"^\| `([a-z_]+)` \| [a-z, ]+ \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(exposed)
