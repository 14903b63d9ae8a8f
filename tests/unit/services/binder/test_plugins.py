"""The binder's `--plugins`: what is refused, and that nothing is served with it."""

import pytest

from muster.services.binder.plugins import BadPlugins, with_plugins
from muster.services.binder.settings import BinderSettings


@pytest.mark.parametrize(
    "sharing",
    ['{"enabled": false}', '{"enabled": true, "priority": 50}', '{"enabled": true, "priority": 9}'],
)
def test_hami_is_refused_unless_gpu_sharing_comes_before_it(sharing: str) -> None:
    """By default it has the priority 50."""
    text = f'{{"hamicore": {{"enabled": true}}, "gpusharing": {sharing}}}'
    with pytest.raises(BadPlugins, match="hamicore: needs gpusharing enabled, with a higher prio"):
        with_plugins(BinderSettings(), text)
    assert with_plugins(BinderSettings(), text.replace(sharing, '{"priority": 51}')).hami_core
