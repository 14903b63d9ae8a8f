"""From a method and a path to a verb on a resource. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from muster.sim.apiserver.kinds import Cause, ServedKind, ServedKinds
from muster.sim.apiserver.pipeline import ANONYMOUS, Attributes, UserInfo
from muster.sim.apiserver.refusal import invalid_options

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True", ""})


@dataclass(slots=True)
class ApiCall:
    """One request that names a resource."""

    kind: ServedKind
    verb: str
    namespace: str
    name: str
    subresource: str
    rest: str  # what follows the subresource in the path
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    user: UserInfo = ANONYMOUS
    warnings: list[str] = field(default_factory=list)
    # The subresource that managed fields name, where the write itself is of the whole object.
    subresource_written: str = ""

    def flag(self, name: str) -> bool:
        return name in self.query and self.query[name] in _TRUE

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    @property
    def dry_run(self) -> bool:
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            options = {"create": "CreateOptions", "update": "UpdateOptions"}
            kind = options.get(self.verb, f"{self.verb.capitalize()}Options")
            text = f'Unsupported value: ["{value}"]: supported values: "All"'
            raise invalid_options(kind, Cause("FieldValueNotSupported", text, "dryRun"))
        return value == "All"

    def attributes(self) -> Attributes:
        return Attributes(
            self.user,
            self.verb,
            self.kind.group,
            self.kind.version,
            self.kind.plural,
            self.subresource,
            self.namespace,
            self.name,
        )


@dataclass(frozen=True, slots=True)
class Location:
    """The parts of a resource path."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    watch: bool = False


def location(path: str) -> Location | None:
    """None when the path names no resource (discovery, health, ...)."""
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = parts[0] == "watch"
    if watch:
        parts = parts[1:]
        if not parts:
            return None
    namespace = ""
    # /namespaces/x and /namespaces/x/status are the namespace itself.
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    elif parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
    padded = [*parts, "", "", ""]
    rest = "/".join(parts[3:])
    return Location(group, version, padded[0], namespace, padded[1], padded[2], rest, watch)


def query_map(query: Sequence[tuple[str, str]]) -> dict[str, str]:
    """First value of each parameter, as the server reads them."""
    found: dict[str, str] = {}
    for key, value in query:
        found.setdefault(key, value)
    return found


def verb_of(method: str, where: Location, query: Mapping[str, str]) -> str:
    if method in _VERBS:
        return _VERBS[method]
    if method == "DELETE":
        return "delete" if where.name else "deletecollection"
    watching = where.watch or query.get("watch", "false") in _TRUE
    if where.name and not where.watch:
        return "get"
    return "watch" if watching else "list"


def find_kind(kinds: ServedKinds, where: Location) -> ServedKind | None:
    return kinds.find(where.group, where.version, where.plural)
