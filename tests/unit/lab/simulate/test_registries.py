"""What a service remembers of the gone is found wherever it is kept by their names."""

from typing import Any, cast

from tests.support.scripted import ScriptedServer

from muster.api.coordination import ObjectReference
from muster.api.meta import Key
from muster.base.clock import VirtualClock
from muster.base.expiring import ExpiringMap
from muster.base.log import Log, MemorySink
from muster.client.events import Recorder, _Same, _Written
from muster.client.write import Writer
from muster.lab.simulate.registries import remembered


class Service:
    """As much of one as is looked at."""

    __module__ = "muster.services.made_up"
    name = "made-up"

    def __init__(self, kept: object) -> None:
        self.log = self.clock = self.registry = None
        self.kept = kept


def test_names_of_the_gone_are_found_in_maps_that_expire_as_in_others() -> None:
    expiring: ExpiringMap[tuple[str, str], bool] = ExpiringMap(VirtualClock(), 10)
    expiring.put(("ns", "gone"), True)
    expiring.put(("ns", "there"), True)
    for kept in ({"gone": 1}, {"gone"}, expiring):
        service = cast("Any", Service(kept))
        assert remembered(service, ["gone"]) == {"Service.kept": 1}


def test_events_that_were_written_may_name_the_gone() -> None:
    """People read them for an hour, and the recorder adds to them; of these a number is kept."""
    writer = Writer(ScriptedServer().connection(clock=VirtualClock()))
    recorder = Recorder(writer, "scheduler", log=Log("t", MemorySink()))
    about = ObjectReference(kind="Pod", namespace="default", name="victim")
    same = _Same(about, "Normal", "Evict", "Pod default/victim was preempted by default/gone")
    recorder._written.put(same, _Written(Key("default", "event"), 1))
    assert remembered(cast("Any", Service(recorder)), ["gone", "victim"]) == {}


def test_maps_by_class_are_looked_through() -> None:
    """A class refers to the tuple of its bases and itself."""
    kept = {(Service, "gone"): 1, Service: 2}
    assert remembered(cast("Any", Service(kept)), ["gone"]) == {"Service.kept": 1}
