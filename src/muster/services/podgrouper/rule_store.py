"""The rules in force: those of the ConfigMap as it is now. What is wrong in it is said there."""

from collections.abc import Sequence

from muster.api import names
from muster.api.core import ConfigMap
from muster.api.kinds import CONFIG_MAP
from muster.base.log import Log
from muster.client.events import Recorder, reference_to
from muster.services.podgrouper.groupers.rule_book import GroupingRule, rule_book


class RuleStore:
    """Hears of every change of the ConfigMap; `rules` is what can be followed of it."""

    def __init__(self, recorder: Recorder | None, log: Log) -> None:
        self.rules: Sequence[GroupingRule] = ()
        self._recorder = recorder
        self._log = log

    def put(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is None:
            self.rules = ()
            return
        if old is not None and old.data == new.data:
            return
        book = rule_book(new.data.get(names.GROUPING_RULES_KEY, "rules: []"))
        self.rules = book.rules
        for problem in book.problems:
            where = f"{names.GROUPING_RULES_KEY}: {problem}"
            self._log.warning("grouping rule rejected", config_map=new.metadata.name, problem=where)
            if self._recorder is not None:
                about = reference_to(CONFIG_MAP, new)
                self._recorder.warning(about, names.REASON_BAD_GROUPING_RULE, where)
