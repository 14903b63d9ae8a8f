"""What jobs and their pods are called where no namespace stands before the name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.api.group_names import owner_name
from muster.web.moment import Moment


@dataclass(frozen=True, slots=True)
class HiddenNames:
    """Those of jobs that a reader may not see; `open`: what else is called so, and may be seen."""

    hidden: frozenset[str]
    open: frozenset[str]

    def has(self, word: str) -> bool:
        """Whether it is such a job, or a pod of one: a pod has the name of its job before it."""
        if word in self.open:
            return False
        parts = word.split("-")
        return any("-".join(parts[:end]) in self.hidden for end in range(len(parts), 0, -1))


NOBODY: Final = HiddenNames(frozenset(), frozenset())


def namespaces(moment: Moment) -> frozenset[str]:
    """In which there are jobs."""
    return frozenset(_by_namespace(moment))


def hidden_names(moment: Moment, visible: frozenset[str]) -> HiddenNames:
    """For a reader who sees these namespaces; made once for a moment and all who see the same."""
    made = ("hidden names", *sorted(visible))
    found: HiddenNames | None = moment.made.get(str(made))
    if found is None:
        found = moment.made[str(made)] = HiddenNames(*_told_apart(moment, visible))
    return found


def _told_apart(moment: Moment, visible: frozenset[str]) -> Iterator[frozenset[str]]:
    by_namespace, snapshot = _by_namespace(moment), moment.snapshot
    seen = [names for namespace, names in by_namespace.items() if namespace in visible]
    others = [names for namespace, names in by_namespace.items() if namespace not in visible]
    yield frozenset[str]().union(*others)
    yield frozenset((*snapshot.nodes.names, *snapshot.queues.names)).union(*seen)


def _by_namespace(moment: Moment) -> dict[str, set[str]]:
    found: dict[str, set[str]] | None = moment.made.get("names by namespace")
    if found is None:
        found = moment.made["names by namespace"] = {}
        jobs = moment.snapshot.jobs
        for key, record in zip(jobs.keys, jobs.records, strict=True):
            namespace, _, name = key.partition("/")
            owners = () if record is None else record.known_as
            told = (name, owner_name(name), *(one.partition("/")[2] for one in owners))
            found.setdefault(namespace, set()).update(told)
    return found
