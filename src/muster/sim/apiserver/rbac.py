"""Role-based access control, evaluated as Kubernetes evaluates it. Pure: roles in, decision out.

`Rbac` answers from the stored roles and bindings. `escalation` says what a user would give away
that is not theirs: who writes a role, or binds one, must hold all of it already, or have been
given the verbs `escalate` or `bind`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.pipeline import Attributes, AuthorizationDecision, ObjectReader, UserInfo
from muster.sim.selection import labels_of, selects

GROUP: Final = "rbac.authorization.k8s.io"
SUPERUSERS: Final = "system:masters"
_ACCOUNT: Final = "system:serviceaccount:"
_MOST_READ: Final = 4096


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One PolicyRule."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> "PolicyRule":
        keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(rule.get(key) or ()) for key in keys))

    def allows(self, asked: Attributes) -> bool:
        if not _has(self.verbs, asked.verb):
            return False
        if not asked.is_resource:
            return any(_path_matches(path, asked.path) for path in self.paths)
        return (
            _has(self.groups, asked.group)
            and _resource_matches(self.resources, asked.resource, asked.subresource)
            and (not self.names or asked.name in self.names)
        )

    def atoms(self) -> Iterator["PolicyRule"]:
        """The rule as rules of one verb on one thing each."""
        for verb in self.verbs:
            for path in self.paths:
                yield PolicyRule((verb,), paths=(path,))
            for group in self.groups:
                for resource in self.resources:
                    if not self.names:
                        yield PolicyRule((verb,), (group,), (resource,))
                    for name in self.names:
                        yield PolicyRule((verb,), (group,), (resource,), (name,))

    def covers(self, atom: "PolicyRule") -> bool:
        """Whether whoever has this rule has that one (an atom) too."""
        if not _has(self.verbs, atom.verbs[0]):
            return False
        if atom.paths:
            return any(_path_matches(path, atom.paths[0]) for path in self.paths)
        if not _has(self.groups, atom.groups[0]):
            return False
        resource, _, below = atom.resources[0].partition("/")
        named = not self.names or (bool(atom.names) and atom.names[0] in self.names)
        return named and _resource_matches(self.resources, resource, below)

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("ResourceNames", self.names),
            ("NonResourceURLs", self.paths),
            ("Verbs", self.verbs),
        )
        shown = (f"{name}:[{_quoted(values)}]" for name, values in parts if values)
        return "{" + ", ".join(shown) + "}"


@dataclass(slots=True)
class Rbac:
    """The authorizer: decides by the roles and bindings in the store."""

    reader: ObjectReader
    superusers: frozenset[str] = field(default_factory=lambda: frozenset({SUPERUSERS}))
    _read: dict[tuple[str, str], tuple[Object, list[PolicyRule]]] = field(default_factory=dict)
    """Rules of roles that gather no others, by namespace and name, beside the role they are of.

    Every request asks for them, and a stored object is never changed, only replaced.
    """

    def decide(self, attributes: Attributes) -> AuthorizationDecision:
        if self.superusers.intersection(attributes.user.groups):
            return AuthorizationDecision(allowed=True)
        for rule, source in self._granted(attributes.user, attributes.namespace):
            if rule.allows(attributes):
                return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {source}")
        return AuthorizationDecision(allowed=False)

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[Object], list[Object]]:
        resource_rules: list[Object] = []
        path_rules: list[Object] = []
        for rule in self.held(user, namespace):
            if rule.paths:
                path_rules.append({"verbs": [*rule.verbs], "nonResourceURLs": [*rule.paths]})
            if rule.resources:
                shown = {
                    "verbs": [*rule.verbs],
                    "apiGroups": [*rule.groups],
                    "resources": [*rule.resources],
                    "resourceNames": [*rule.names],
                }
                resource_rules.append({key: value for key, value in shown.items() if value})
        return resource_rules, path_rules

    def held(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        """All rules that the user has in a namespace (empty: in the whole cluster)."""
        if self.superusers.intersection(user.groups):
            return [PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), paths=("*",))]
        return [rule for rule, _ in self._granted(user, namespace)]

    def rules_in(self, reference: Mapping[str, Any], namespace: str) -> list[PolicyRule] | None:
        """The rules of the role that a binding refers to; None when there is no such role."""
        name = str(reference.get("name", ""))
        if reference.get("kind") == "ClusterRole":
            role = self.reader.get(f"clusterroles.{GROUP}", "", name)
            return None if role is None else self._cluster_rules(role)
        role = self.reader.get(f"roles.{GROUP}", namespace, name)
        return None if role is None else self._rules_as_read(role, namespace)

    def _granted(self, user: UserInfo, namespace: str) -> Iterator[tuple[PolicyRule, str]]:
        """Rules with where they come from, cluster-wide ones first."""
        for binding in self.reader.list(f"clusterrolebindings.{GROUP}"):
            yield from self._rules_of(binding, user, "")
        if namespace:
            for binding in self.reader.list(f"rolebindings.{GROUP}", namespace):
                yield from self._rules_of(binding, user, namespace)

    def _rules_of(
        self, binding: Object, user: UserInfo, namespace: str
    ) -> Iterator[tuple[PolicyRule, str]]:
        subject = _subject_of(binding, user, namespace)
        if subject is None:
            return
        role = binding["roleRef"]
        source = _source(binding, role, subject, namespace)
        for rule in self.rules_in(role, namespace) or ():
            yield rule, source

    def _cluster_rules(self, role: Object) -> list[PolicyRule]:
        if not role.get("aggregationRule"):
            return self._rules_as_read(role, "")
        rules = aggregated(role, self.reader.list(f"clusterroles.{GROUP}"))
        return [PolicyRule.of(rule) for rule in rules]

    def _rules_as_read(self, role: Object, namespace: str) -> list[PolicyRule]:
        key = (namespace, str(role["metadata"]["name"]))
        known = self._read.get(key)
        if known is not None and known[0] is role:
            return known[1]
        if len(self._read) >= _MOST_READ:
            self._read.clear()
        rules = [PolicyRule.of(rule) for rule in role.get("rules") or ()]
        self._read[key] = (role, rules)
        return rules


def aggregated(
    role: Object, roles: Iterable[Object], seen: frozenset[str] = frozenset()
) -> list[Object]:
    """The rules of a role that gathers others by label (which may gather too), each once."""
    if not role.get("aggregationRule"):
        return list(role.get("rules") or ())
    seen |= {role["metadata"]["name"]}
    selectors = role["aggregationRule"].get("clusterRoleSelectors") or ()
    ordered = sorted(roles, key=lambda each: str(each["metadata"]["name"]))
    gathered: list[Object] = []
    for other in ordered:
        if other["metadata"]["name"] in seen:
            continue
        if any(selects(selector, labels_of(other)) for selector in selectors):
            rules = aggregated(other, ordered, seen)
            gathered += [rule for rule in rules if rule not in gathered]
    return gathered


def escalation(held: Sequence[PolicyRule], given: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What of `given` somebody who has `held` does not have: must be empty to give it away."""
    missing: list[PolicyRule] = []
    for rule in given:
        lacking = [atom for atom in rule.atoms() if not any(own.covers(atom) for own in held)]
        if lacking:
            missing.append(_joined(rule, lacking))
    return missing


def account_user(namespace: str, name: str, uid: str = "") -> UserInfo:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return UserInfo(f"{_ACCOUNT}{namespace}:{name}", (*groups, "system:authenticated"), uid)


def _joined(rule: PolicyRule, atoms: Sequence[PolicyRule]) -> PolicyRule:
    """Atoms of one rule as one rule again, for the message."""
    verbs = tuple(verb for verb in rule.verbs if any(verb in atom.verbs for atom in atoms))
    kept = [
        tuple(dict.fromkeys(value for atom in atoms for value in getattr(atom, part)))
        for part in ("groups", "resources", "names", "paths")
    ]
    return PolicyRule(verbs, *kept)


def _subject_of(binding: Object, user: UserInfo, namespace: str) -> Mapping[str, Any] | None:
    """The subject of the binding that the user is."""
    for subject in binding.get("subjects") or ():
        name = subject.get("name")
        match subject.get("kind"):
            case "User":
                is_user = name == user.name
            case "Group":
                is_user = name in user.groups
            case "ServiceAccount":
                home = subject.get("namespace") or namespace
                is_user = user.name == f"{_ACCOUNT}{home}:{name}"
            case _:
                is_user = False
        if is_user:
            found: Mapping[str, Any] = subject
            return found
    return None


def _source(
    binding: Object, role: Mapping[str, Any], subject: Mapping[str, Any], namespace: str
) -> str:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    name = binding["metadata"]["name"]
    named = f"{name}/{namespace}" if namespace else name
    who = subject.get("name")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return (
        f'{kind} "{named}" of {role.get("kind")} "{role.get("name")}" to {subject["kind"]} "{who}"'
    )


def _has(values: Sequence[str], value: str) -> bool:
    return "*" in values or value in values


def _resource_matches(resources: Sequence[str], resource: str, subresource: str) -> bool:
    asked = f"{resource}/{subresource}" if subresource else resource
    if "*" in resources or asked in resources:
        return True
    return bool(subresource) and f"*/{subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    if pattern == "*" or pattern == path:
        return True
    return pattern.endswith("*") and path.startswith(pattern[:-1])


def _quoted(values: Iterable[str]) -> str:
    return " ".join(f'"{value}"' for value in values)
