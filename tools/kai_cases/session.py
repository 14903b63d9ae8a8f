"""One session of a KAI case: its plugins and settings, its actions once, what they left."""

from functools import cache

from tools.kai_cases import format as kai
from tools.kai_cases.cases import NOW_S
from tools.kai_cases.match import CaseSession

from muster.engine.config.conf import DEFAULT_PLUGINS, SchedulerConf, plugin_list
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.policy import Policy
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing.outcome import carried_out

_GRACE = "global_default_staleness_grace_period_seconds"


def run_session(case: kai.Case, records: ClusterRecords) -> CaseSession:
    """Run the actions of the case once on the cluster."""
    conf = _conf(case)
    result = run_cycle(snapshot_of(records), _policy(case), build_actions(conf), NOW_S)
    plan = result.plan
    return CaseSession(
        after=carried_out(records, plan),
        binds=len(plan.binds),
        evictions=len(plan.evictions),
        pipelinings=len(plan.nominations),
    )


def _policy(case: kai.Case) -> Policy:
    grace_s = case.extra.session_overrides.get(_GRACE, 0.0)
    if isinstance(case.plugins, str):
        return _standard_policy(case.plugins, grace_s)
    return build_policy(_conf(case), _settings(grace_s))


@cache
def _standard_policy(plugins: str, grace_s: float) -> Policy:
    names = [n for n in DEFAULT_PLUGINS if plugins == "default" or n != "predicates"]
    tier = plugin_list({name: {} for name in names}, "case")
    return build_policy(SchedulerConf("case", (), (tier,)), _settings(grace_s))


def _settings(grace_s: float) -> EngineSettings:
    return EngineSettings(max_consolidation_victims=None, staleness_grace_s=grace_s)


def _conf(case: kai.Case) -> SchedulerConf:
    plugins: dict[str, dict[str, object]] = {}
    if not isinstance(case.plugins, str):
        plugins = {plugin.name: dict(plugin.arguments or {}) for plugin in case.plugins}
    return SchedulerConf(case.id, case.actions, (plugin_list(plugins, case.id),))
