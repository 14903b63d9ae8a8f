"""A question as its path and query, answered from a moment: the HTTP API, and the command line."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.api.selectors import BadSelector, label_selector
from muster.model.nearest import nearest
from muster.web.frame import Frame
from muster.web.moment import Moment
from muster.web.shapes import Ailment
from muster.web.views import jobs as job_views
from muster.web.views.job_columns import job_columns
from muster.web.views.nodes import gpu_map, node, nodes
from muster.web.views.queues import queues
from muster.web.views.status import status

_PAGE: Final = 200
PAGE_MAX: Final = 1000


class NotThere(Exception):
    """Nothing has that name now."""

    def __init__(self, text: str, because: str = "") -> None:
        super().__init__(text)
        self.because = because


class BadQuestion(Exception):
    """A field that is not known, or a value that cannot be."""

    def __init__(self, code: str, text: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.code = code
        self.known = known


def is_known(path: str) -> bool:
    """Whether there may be an answer, whatever the cluster is like."""
    kind, _, name = path.partition("/")
    return path in ("status", "map", "jobs", "shapes", "names", *_LISTS) or bool(
        name and kind in _ONES
    )


def answer(
    moment: Moment,
    path: str,
    query: Mapping[str, str],
    cluster: str = "",
    visible: frozenset[str] | None = None,
    ailments: tuple[Ailment, ...] = (),
) -> Any:
    """What is below /api/v1; raises `NotThere` or `BadQuestion`. `visible`: jobs are listed of
    these namespaces only, page by page too. `ailments`: what is wrong apart from that."""
    if not is_known(path):
        raise NotThere(f"There is nothing at {path}.")
    kind, _, name = path.partition("/")
    if path == "status":
        return status(moment, cluster, ailments)
    if path == "map":
        return gpu_map(moment)
    try:
        listed = _list(moment, Frame(cluster, moment.at_s, moment.revision), path, query, visible)
    except BadSelector as wrong:
        raise BadQuestion("BadSelector", f"labels: {wrong}.") from None
    if listed is not None:
        return listed
    found = _ONES[kind](moment, name)
    if found is None:
        raise NotThere(
            f"There is no {kind.removesuffix('s')} {name}.", _instead(moment, kind, name)
        )
    return found


def _instead(moment: Moment, kind: str, name: str) -> str:
    """What may have been meant. Names of jobs are not for everybody."""
    if kind == "jobs":
        return "It may have ended."
    near = nearest(name, _NAMED[kind](moment, None))
    return f"Did you mean {near}?" if near else "It may have been deleted."


def _list(
    moment: Moment,
    frame: Frame,
    path: str,
    query: Mapping[str, str],
    visible: frozenset[str] | None,
) -> dict[str, Any] | None:
    """None: it is no list that is asked for."""
    if path == "jobs":
        return _jobs(moment, frame, query, visible)
    if path == "shapes":
        wanted = _filter(dict(query), visible)
        return frame.listed("ShapeList", job_views.shapes(moment, wanted))
    if path == "names":
        return _names(moment, frame, query, visible)
    if path in _LISTS:
        title, view, labels = _LISTS[path]
        selector = label_selector(query.get("labels", ""))
        items = [one for one in view(moment) if selector.matches(labels(moment, one.name))]
        return frame.listed(title, items)
    return None


def _queue(moment: Moment, name: str) -> Any:
    return next((found for found in queues(moment) if found.name == name), None)


def _labels_of_node(moment: Moment, name: str) -> Mapping[str, str]:
    found = moment.snapshot.nodes
    return found.records[found.row[name]].labels


_LabelsOf = Callable[[Moment, str], Mapping[str, str]]
_LISTS: Final[Mapping[str, tuple[str, Callable[[Moment], list[Any]], _LabelsOf]]] = {
    "queues": ("QueueList", queues, lambda moment, name: moment.labels("queues", name)),
    "nodes": ("NodeList", nodes, _labels_of_node),
}
_ONES: Final[Mapping[str, Callable[[Moment, str], Any]]] = {
    "queues": _queue,
    "nodes": node,
    "jobs": job_views.job_page,
}


def _jobs(
    moment: Moment, frame: Frame, query: Mapping[str, str], visible: frozenset[str] | None
) -> dict[str, Any]:
    asked = dict(query)
    sort, limit, cursor = (asked.pop(name, "") for name in ("sort", "limit", "cursor"))
    wanted = _filter(asked, visible, ("sort", "limit", "cursor"))
    if sort.removeprefix("-") not in ("", *job_views.SORTS):
        raise BadQuestion("UnknownField", f"Jobs are not sorted by {sort}.", job_views.SORTS)
    first, most = _number(cursor, 0), _number(limit, _PAGE)
    end = first + min(most or PAGE_MAX, PAGE_MAX)
    total, found = job_views.page(moment, wanted, sort, first, end)
    following = str(end) if end < total else ""
    return frame.listed("JobList", found, total=total, next=following)


def _filter(
    asked: dict[str, str], visible: frozenset[str] | None, more: tuple[str, ...] = ()
) -> job_views.Filter:
    """`more`: what may be asked beside the fields of a job."""
    fields = job_views.Filter.names()
    for unknown in sorted(asked.keys() - set(fields)):
        raise BadQuestion("UnknownField", f"{unknown} is no field of a job.", (*fields, *more))
    return job_views.Filter(**asked, visible=visible)


def _names(
    moment: Moment, frame: Frame, query: Mapping[str, str], visible: frozenset[str] | None
) -> dict[str, Any]:
    """What a shell completes: little, however large the cluster is."""
    of, begins = query.get("of", ""), query.get("begins", "")
    if of not in _NAMED:
        raise BadQuestion("UnknownField", f"of: {of[:40]!r} has no names.", tuple(_NAMED))
    found = [one for one in _NAMED[of](moment, visible) if one.startswith(begins)]
    return frame.listed("NameList", [{"name": one} for one in found[:_PAGE]], total=len(found))


def _jobs_named(moment: Moment, visible: frozenset[str] | None) -> list[str]:
    shown = job_columns(moment).key[job_columns(moment).shown].tolist()
    return sorted(key for key in shown if visible is None or str(key).partition("/")[0] in visible)


def _namespaces(moment: Moment, visible: frozenset[str] | None) -> list[str]:
    return sorted({key.partition("/")[0] for key in _jobs_named(moment, visible)})


_NAMED: Final[Mapping[str, Callable[[Moment, frozenset[str] | None], list[str]]]] = {
    "jobs": _jobs_named,
    "namespaces": _namespaces,
    "nodes": lambda moment, _: list(moment.snapshot.nodes.names),
    "queues": lambda moment, _: list(moment.snapshot.queues.names),
}


def _number(text: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not text.isdecimal() or len(text) > 9:
        raise BadQuestion("NotANumber", f"{text!r}: limit and cursor are whole numbers.")
    return int(text)
