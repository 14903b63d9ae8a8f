"""Plugins of our own: a real control plane, and an honest account of what could not run."""

import pytest
from tests.support.not_run import NotRun

pytest_plugins = ["tests.support.kube"]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotRun(), "muster-not-run")
