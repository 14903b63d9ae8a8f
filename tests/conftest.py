"""Plugins of our own: how tests draw, a real control plane, and an account of what did not run."""

import pytest
from tests.support.draws import load_profile
from tests.support.not_run import NotRun

pytest_plugins = ["tests.support.kube"]

# Here and not in a hook: a test takes the profile that is loaded when its module is imported.
load_profile()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotRun(), "muster-not-run")
