"""What people call jobs whose group has another name than what they submitted.

Answers keep the keys of groups, which programs ask by. Beside them stands `called`: of the keys
that are in the answer, those which mean nothing to people, with the names that they typed. It is
put beside whole answers, so whoever writes a new one need not think of it.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from muster.api.group_names import KEY_IN_TEXT, owner_name
from muster.web.moment import Moment

_MADE: Final = "called"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""Owners stand in an annotation, which may hold anything."""
_KEY: Final = re.compile(KEY_IN_TEXT.pattern.encode())


def with_called(body: bytes, moment: Moment | None) -> bytes:
    """An answer, a JSON object, with what the jobs in it are called."""
    known = {} if moment is None else called(moment)
    if not known or len(body) < 3 or not body.startswith(b"{") or not body.endswith(b"}"):
        return body
    found = {key for text in _KEY.findall(body) if (key := text.decode()) in known}
    if not found:
        return body
    told = msgspec.json.encode({key: known[key] for key in sorted(found)})
    return body[:-1] + b',"called":' + told + b"}"


def called(moment: Moment) -> Mapping[str, str]:
    """NAMESPACE/NAME of what was submitted, by key: where the group's own name does not begin with
    it, and nothing else of the namespace goes by it."""
    found: dict[str, str] | None = moment.made.get(_MADE)
    if found is None:
        found = moment.made[_MADE] = dict(_called(moment))
    return found


def _called(moment: Moment) -> Mapping[str, str]:
    jobs = moment.snapshot.jobs
    owned = {
        key: [one.partition("/")[2] for one in record.known_as]
        for key, record in zip(jobs.keys, jobs.records, strict=True)
        if record is not None and record.known_as
    }
    if not owned:
        return {}
    bearers: Counter[tuple[str, str]] = Counter()
    for key in jobs.keys:
        namespace, _, name = key.partition("/")
        bearers.update({(namespace, one) for one in (name, owner_name(name), *owned.get(key, ()))})
    found = {}
    for key, (name, *_) in owned.items():
        namespace, _, own = key.partition("/")
        is_plain = owner_name(own).startswith(f"{name}-")
        if not is_plain and bearers[namespace, name] == 1 and _NAME.fullmatch(name):
            found[key] = f"{namespace}/{name}"
    return found
