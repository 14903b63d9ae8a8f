"""Settings of the binder's plugins without effect are logged, counted and listed on a page."""

from typing import cast

from tests.support.scheduler_world import FakeServer
from tests.support.virtual_time import LoopClock, virtually

from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.transport import InProcessTransport
from muster.runtime.supervisor import Supervisor
from muster.services.binder.plugins import with_plugins
from muster.services.binder.settings import BinderSettings
from muster.services.binder.wiring import BinderServiceConfig, build

_PLUGINS = '{"dynamicresources": {"arguments": {"bindTimeoutSeconds": "5"}}}'
_KEY = "dynamicresources.arguments.bindTimeoutSeconds"


def test_plugin_arguments_without_effect_are_reported_by_the_binder() -> None:
    async def scenario() -> None:
        sink = MemorySink()
        connection = Connection(InProcessTransport(FakeServer().handle), LoopClock(), Rand(1))
        supervisor = Supervisor("binder", connection, log=Log("binder", sink))
        build(supervisor, BinderServiceConfig(with_plugins(BinderSettings(), _PLUGINS)))
        value = supervisor.registry.get_sample_value
        assert value("muster_configuration_without_effect", {"key": _KEY}) == 1
        assert sink.messages() == ["configuration without effect"]
        (line,) = cast("list[str]", supervisor.debug["configuration"]())
        assert line.startswith(f"{_KEY}: has no effect")

    virtually(scenario())
