"""Kinds that a user's rule describes: the default group, with what the rule says on top."""

from dataclasses import replace
from typing import Any

from muster.api import cel
from muster.api.bounds import COUNT_MAX
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import group_by_top_owner
from muster.services.podgrouper.groupers.group import Group, GroupingError, SubGroup
from muster.services.podgrouper.groupers.rule_book import GroupingRule, RulePart, RuleValue
from muster.services.podgrouper.groupers.workload import Workload


def rule_of(workload: Workload) -> GroupingRule | None:
    """The rule for the top owner's kind; one that names the version beats one for all."""
    group, version = fields.group_version(workload.top)
    kind = str(workload.top.get("kind") or "")
    fitting = [one for one in workload.settings.rules if one.describes(group, version, kind)]
    exact = [one for one in fitting if one.version == version]
    return next(iter(exact or fitting), None)


def group_by_rule(workload: Workload, rule: GroupingRule) -> Group:
    """One group per top owner: of the rule's minimum, or of its sub-groups."""
    group = group_by_top_owner(workload)
    queue = _text(workload, rule.queue)
    priority_class = _text(workload, rule.priority_class)
    minimum = _count(workload, rule.min_member) if rule.min_member else None
    group = replace(
        group,
        queue=queue or group.queue,
        priority_class=_known_class(workload, priority_class) or group.priority_class,
        topology=rule.topology or group.topology,
        min_member=group.min_member if minimum is None else minimum,
    )
    return _divided(workload, rule, group) if rule.parts else group


def _divided(workload: Workload, rule: GroupingRule, group: Group) -> Group:
    leaves = tuple(
        SubGroup(part.name, _minimum(workload, part), topology=part.topology) for part in rule.parts
    )
    mine = next((part.name for part in rule.parts if _is_of(workload, part)), "")
    if not mine:
        known = ", ".join(part.name for part in rule.parts)
        raise GroupingError(
            f"the pod is of none of the sub-groups of the rule for {rule.kind} ({known}); "
            "label it for one of them, or end the rule with a sub-group without `pods`"
        )
    return replace(
        group,
        min_member=None,
        min_sub_group=len(leaves),
        sub_groups=leaves,
        pod_sub_group=mine,
    )


def _is_of(workload: Workload, part: RulePart) -> bool:
    if not part.labels.items() <= fields.labels(workload.pod).items():
        return False
    if part.condition is None:
        return True
    try:
        return part.condition.is_true({"object": workload.top, "pod": workload.pod})
    except cel.EvaluationFailed as failed:
        raise GroupingError(_failed(part.name, part.condition.text, failed)) from None


def _minimum(workload: Workload, part: RulePart) -> int:
    found = _count(workload, part.min_member)
    return 1 if found is None else found


def _count(workload: Workload, wish: RuleValue) -> int | None:
    value = _value(workload, wish)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # A number of JSON that CEL computed with.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= COUNT_MAX:
        raise GroupingError(
            f"{wish.where} gives {value!r} for {fields.key_of(workload.top)}; "
            "a gang needs a whole number of at least 1"
        )
    return value


def _text(workload: Workload, wish: RuleValue | None) -> str:
    value = _value(workload, wish) if wish else None
    if value is not None and not isinstance(value, str):
        where = wish.where if wish else ""
        raise GroupingError(f"{where} gives {value!r} for {fields.key_of(workload.top)}, no text")
    return value or ""


def _value(workload: Workload, wish: RuleValue) -> Any:
    try:
        return wish.value(workload.top, workload.pod)
    except cel.EvaluationFailed as failed:
        text = wish.program.text if wish.program else wish.path
        raise GroupingError(_failed(wish.where, text, failed)) from None


def _failed(where: str, text: str, failed: cel.EvaluationFailed) -> str:
    return f"{where}: `{text}` has no value here: {failed}; guard it with has(...)"


def _known_class(workload: Workload, name: str) -> str:
    """As with a label: a class that does not exist is as if nobody had spoken."""
    return name if name and workload.reads.has_priority_class(name) else ""
