"""What pod groups are called that were made for an owner: people know them by its name."""

import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from muster.api import names
from muster.api.meta import ObjectMeta
from muster.base.visible import visible

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_UID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KEY: Final = re.compile(r"[a-z0-9-]+/[a-z0-9.-]+")
KEY_IN_TEXT: Final = re.compile(r"[a-z0-9-]+/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""Without the stop of a sentence behind it."""
_OWNED: Final = re.compile(rf"pg-(.+)-{_UID}")
_IN_TEXT: Final = re.compile(rf"\bpg-([a-z0-9.-]+?)-{_UID}\b")
_OF_LABELS: Final = (
    ("spark-app-name", "SparkApplication"),
    ("workflows.argoproj.io/workflow", "Workflow"),
    ("serving.knative.dev/service", "Service"),
)
"""Labels of operators on what they make: the name of what people submitted, and its kind."""
_OF_GANG: Final = "app.kubernetes.io/part-of"
"""On Grove's gangs: the set that they belong to. On other objects people write it themselves."""
_OF_CRON_JOB: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""On the Jobs of a CronJob: each is called by it, and by the minute."""
_MINUTE: Final = re.compile(r"-[0-9]+$")
_TOP_NAME: Final = re.compile(r'^name: "?([^"\n]+)', re.MULTILINE)
_TOP_KIND: Final = re.compile(r'^kind: "?([^"\n]+)', re.MULTILINE)


def owner_name(group: str) -> str:
    """The owner's, without its uid; of another group its own."""
    owned = _OWNED.fullmatch(group)
    return owned[1] if owned else group


def known_as(group: ObjectMeta) -> tuple[str, ...]:
    """KIND/NAME of what people submitted, where the name of the group does not tell it; the first
    is what they call it."""
    own = owner_name(group.name)
    found = dict.fromkeys(_submitted(group))
    return tuple(one for one in found if one.partition("/")[2] != own)


def _submitted(group: ObjectMeta) -> Iterator[str]:
    for label, of_kind in _OF_LABELS:
        if labelled := group.labels.get(label):
            yield f"{of_kind}/{labelled}"
    text = group.annotations.get(names.ANNOTATION_TOP_OWNER, "")
    name, kind = _TOP_NAME.search(text), _TOP_KIND.search(text)
    if name and kind:
        if kind[1] == "Job" and _OF_CRON_JOB in group.annotations:
            yield f"CronJob/{_MINUTE.sub('', name[1])}"
        if kind[1] == "PodGang" and _OF_GANG in group.labels:
            yield f"PodCliqueSet/{group.labels[_OF_GANG]}"
        yield f"{kind[1]}/{name[1]}"
    yield from (f"{owner.kind}/{owner.name}" for owner in group.owner_references)


def group_meant(key: str, known: Collection[str]) -> str:
    """The group of that name, or the only known one that was made for an owner of that name."""
    if key in known:
        return key
    made = fnmatch.filter(known, groups_of(key)) if groups_of(key) else []
    return made[0] if len(made) == 1 else key


def groups_of(key: str) -> str:
    """NAMESPACE/NAME of an owner as a pattern (GLOB) of groups that were made for it; "": no such
    name."""
    if not _KEY.fullmatch(key):
        return ""
    namespace, _, name = key.partition("/")
    return f"{namespace}/pg-{name}-{'-'.join('[0-9a-f]' * size for size in (8, 4, 4, 4, 12))}"


def for_people(text: str, called: Mapping[str, str] = NOTHING) -> str:
    """A key or a sentence as people read it: groups called by their owners, as they are typed, and
    nothing that a tenant wrote to move the cursor, to paint, or to turn words round. `called`:
    what jobs are called of which the group's name does not tell it, by key."""
    found = _IN_TEXT.sub(r"\1", text) if "pg-" in text else text
    if called and "/" in found:
        found = KEY_IN_TEXT.sub(lambda key: called.get(key[0], key[0]), found)
    return visible(found)


def in_one_line(text: str, called: Mapping[str, str] = NOTHING) -> str:
    """The same, where a line is a row: nobody writes rows of his own."""
    return for_people(text, called).replace("\n", "\\n")
