"""Tells whoever runs a service which of its configuration does nothing."""

from collections.abc import Iterable

from prometheus_client import Gauge

from muster.api.validation.problems import Problem
from muster.runtime.supervisor import Supervisor


class NoEffectReport:
    """In the log whenever the configuration changes, and at any time as a metric and a page."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._log = supervisor.log.child("configuration")
        self._keys = Gauge(
            "muster_configuration_without_effect",
            "1 for each key that is configured and does nothing.",
            ["key"],
            registry=supervisor.registry,
        )
        self._found: tuple[Problem, ...] = ()
        supervisor.debug["configuration"] = lambda: [str(one) for one in self._found]

    def show(self, found: Iterable[Problem]) -> None:
        """What does nothing from now on; said once."""
        before, self._found = self._found, tuple(found)
        if self._found == before:
            return
        self._keys.clear()
        for one in self._found:
            self._keys.labels(one.path).set(1)
            self._log.warning(
                "configuration without effect", key=one.path, why=one.message, fix=one.fix
            )
