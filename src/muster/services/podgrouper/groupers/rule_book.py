"""Rules that users write for kinds that nobody here knows: text in, rules and problems out. Pure.

    rules:
      - group: example.com
        version: "*"
        kind: TrainingRun
        minMember: {path: .spec.workers}
        queue: {cel: object.spec.team + "-queue"}

A wish is a constant, `{path: ...}` into the workload, or `{cel: ...}` over `object` (the workload)
and `pod`. A rule with a mistake is left out with a problem that says where and how to mend it; the
others serve.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import yaml

from muster.api import cel
from muster.api.validation.problems import Problem
from muster.api.yaml_text import read_yaml
from muster.services.podgrouper.groupers.group import GroupTopology, Object
from muster.services.podgrouper.groupers.paths import is_path, value_at

VARIABLES: Final = ("object", "pod")
ANY: Final = "*"

_T = TypeVar("_T")
_WISHES: Final = ("minMember", "queue", "priorityClass")
_RULE: Final = frozenset({"group", "version", "kind", *_WISHES, "topology", "subGroups"})
_PART: Final = frozenset({"name", "minMember", "pods", "topology"})
_TOPOLOGY: Final = frozenset({"name", "required", "preferred"})


@dataclass(frozen=True, slots=True)
class RuleValue:
    """Where a value comes from: `constant`, or a field at `path`, or the value of `program`."""

    where: str
    constant: Any = None
    path: str = ""
    program: cel.Program | None = None

    def value(self, workload: Object, pod: Object) -> Any:
        """None when the field is not there. Raises `cel.EvaluationFailed`."""
        if self.program is not None:
            return self.program.evaluate({"object": workload, "pod": pod})
        return value_at(workload, self.path) if self.path else self.constant


@dataclass(frozen=True, slots=True)
class RulePart:
    """A sub-group, and which pods are of it: by labels, by a condition, or all."""

    name: str
    min_member: RuleValue
    labels: Mapping[str, str]
    condition: cel.Program | None = None
    topology: GroupTopology | None = None


@dataclass(frozen=True, slots=True)
class GroupingRule:
    """How workloads of one kind are grouped; what is None stays as it is without a rule."""

    group: str
    version: str
    kind: str
    min_member: RuleValue | None = None
    queue: RuleValue | None = None
    priority_class: RuleValue | None = None
    topology: GroupTopology | None = None
    parts: tuple[RulePart, ...] = ()

    def describes(self, group: str, version: str, kind: str) -> bool:
        return (self.group, self.kind) == (group, kind) and self.version in (ANY, version)


@dataclass(frozen=True, slots=True)
class GroupingRules:
    """The rules that can be followed, and what is wrong with the others."""

    rules: tuple[GroupingRule, ...] = ()
    problems: tuple[Problem, ...] = ()


def rule_book(text: str) -> GroupingRules:
    """The rules of a YAML text. Never raises."""
    try:
        document = read_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as unreadable:
        words = " ".join(str(unreadable).split())
        return GroupingRules(problems=(Problem("", f"is not YAML: {words}", "mend the text"),))
    listed = document.get("rules") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        fix = "write `rules:` and below it one entry per kind"
        return GroupingRules(problems=(Problem("rules", "is not a list", fix),))
    rules: list[GroupingRule] = []
    problems: list[Problem] = []
    for index, entry in enumerate(listed):
        try:
            rule = _rule(entry, f"rules[{index}]")
            _refuse_second(rules, rule, f"rules[{index}]")
            rules.append(rule)
        except _Mistake as mistake:
            problems.append(mistake.problem)
    return GroupingRules(tuple(rules), tuple(problems))


class _Mistake(Exception):
    def __init__(self, path: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.problem = Problem(path, message, fix)


def _rule(entry: Any, where: str) -> GroupingRule:
    fields = _fields(entry, where, _RULE)
    parts = _listed(fields, "subGroups", where, _part)
    if parts and "minMember" in fields:
        raise _Mistake(
            f"{where}.minMember",
            "stands beside subGroups",
            "leave it out: each sub-group has its own minMember",
        )
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        fix = "give each sub-group a name of its own"
        raise _Mistake(f"{where}.subGroups", "two have the same name", fix)
    return GroupingRule(
        group=_text(fields, "group", where, ""),
        version=_text(fields, "version", where, ANY),
        kind=_text(fields, "kind", where),
        min_member=_optional(fields, "minMember", where, int),
        queue=_optional(fields, "queue", where, str),
        priority_class=_optional(fields, "priorityClass", where, str),
        topology=_topology(fields, where),
        parts=parts,
    )


def _part(entry: Any, where: str) -> RulePart:
    fields = _fields(entry, where, _PART)
    minimum = _optional(fields, "minMember", where, int)
    pods = _fields(fields.get("pods") or {}, f"{where}.pods", frozenset({"labels", "cel"}))
    labels = pods.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in labels.items()
    ):
        raise _Mistake(f"{where}.pods.labels", "is not a map of texts", 'write {role: "worker"}')
    condition = _program(pods["cel"], f"{where}.pods.cel") if "cel" in pods else None
    return RulePart(
        name=_text(fields, "name", where),
        min_member=minimum or RuleValue(f"{where}.minMember", constant=1),
        labels=dict(labels),
        condition=condition,
        topology=_topology(fields, where),
    )


def _refuse_second(rules: list[GroupingRule], rule: GroupingRule, where: str) -> None:
    if any(one.describes(rule.group, rule.version, rule.kind) for one in rules):
        what = f"{rule.kind}.{rule.group}" if rule.group else rule.kind
        raise _Mistake(where, f"a rule above it serves {what} already", "leave one of them out")


def _fields(entry: Any, where: str, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise _Mistake(where, "is not a map", f"write fields below it: {', '.join(sorted(known))}")
    unknown = sorted(str(key) for key in entry if key not in known)
    if unknown:
        fix = f"known are {', '.join(sorted(known))}"
        raise _Mistake(f"{where}.{unknown[0]}", "is not a field", fix)
    return entry


def _listed(
    fields: Mapping[str, Any], key: str, where: str, read: Callable[[Any, str], _T]
) -> tuple[_T, ...]:
    entries = fields.get(key)
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise _Mistake(f"{where}.{key}", "is not a list", "begin each entry with a dash")
    return tuple(read(entry, f"{where}.{key}[{index}]") for index, entry in enumerate(entries))


def _text(fields: Mapping[str, Any], key: str, where: str, otherwise: str | None = None) -> str:
    value = fields.get(key, otherwise)
    if value is None:
        raise _Mistake(f"{where}.{key}", "is missing", f"write the {key}")
    if not isinstance(value, str) or (not value and otherwise is None):
        raise _Mistake(f"{where}.{key}", f"{value!r} is not a name", "put a text in quotes")
    return value


def _optional(fields: Mapping[str, Any], key: str, where: str, constant: type) -> RuleValue | None:
    return _value_or_expression(fields[key], f"{where}.{key}", constant) if key in fields else None


def _value_or_expression(value: Any, where: str, constant: type) -> RuleValue:
    if isinstance(value, constant) and not isinstance(value, bool):
        return RuleValue(where, constant=value)
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, text),) = value.items()
        if form == "cel":
            return RuleValue(where, program=_program(text, f"{where}.cel"))
        if form == "path" and isinstance(text, str) and is_path(text):
            return RuleValue(where, path=text)
        if form == "path":
            fix = "write a chain of fields, such as .spec.workers"
            raise _Mistake(f"{where}.path", f"{text!r} is not a path", fix)
    word = "a number" if constant is int else "a text"
    raise _Mistake(
        where,
        f"{value!r} is of no known form",
        f"write {word}, {{path: ...}} or {{cel: ...}}",
    )


def _program(text: Any, where: str) -> cel.Program:
    if not isinstance(text, str):
        raise _Mistake(where, f"{text!r} is not an expression", "put the expression in quotes")
    try:
        return cel.compiled(text, VARIABLES)
    except cel.BadExpression as refused:
        words = " ".join(str(refused).split())
        fix = "write CEL over `object` (the workload) and `pod`"
        raise _Mistake(where, f"does not compile: {words}", fix) from None


def _topology(fields: Mapping[str, Any], where: str) -> GroupTopology | None:
    if "topology" not in fields:
        return None
    where = f"{where}.topology"
    wanted = _fields(fields["topology"], where, _TOPOLOGY)
    name, required, preferred = (
        _text(wanted, "name", where),
        _text(wanted, "required", where, ""),
        _text(wanted, "preferred", where, ""),
    )
    if not required and not preferred:
        raise _Mistake(where, "names no level", "write required or preferred, or both")
    return GroupTopology(name, required, preferred)
