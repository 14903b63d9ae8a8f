"""Plugins of our own: how tests draw, a real control plane, and an account of what did not run."""

import os
import tempfile

import pytest
from tests.support.draws import load_profile
from tests.support.not_run import NotRun

from muster.base.kernel_cache import keep_kernels_apart

pytest_plugins = [
    "tests.support.kube",
    "tests.support.second_look",
    "tests.support.side_by_side",
]

# Before any test imports numba.
keep_kernels_apart()
# What programs keep of a user from one time to the next (journals, which clusters run) is not the
# user's own here, and not that of the tests beside these.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="muster-tests-")
# Here and not in a hook: a test takes the profile that is loaded when its module is imported.
load_profile()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotRun(), "muster-not-run")
