"""Pod -> its owners, nearest first, the top one last.

Written as a pure walk: `owner_chain` asks for one object at a time and is resumed with it, so that
the same rules serve the reconciler (which fetches) and the tests (which look up).
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from muster.api.bounds import OWNERS_MAX
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.group import GroupingError, Object
from muster.services.podgrouper.groupers.workload import ObjectRef

_OWNERS_SHOWN = 5
_REFERENCE_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


class OwnerMissing(GroupingError):
    """An owner that a reference names does not exist, or another object bears its name."""

    def __init__(self, text: str, ref: ObjectRef) -> None:
        super().__init__(text)
        self.ref = ref


class OwnersSilent(GroupingError):
    """Whoever serves the kind of an owner does not answer."""

    def __init__(self, ref: ObjectRef) -> None:
        super().__init__(
            f"metadata.ownerReferences: {ref.kind} {ref.name} ({ref.api_version}) could not be "
            "read in time; it is tried again: see whether its API answers (kubectl get apiservices)"
        )


@dataclass(frozen=True, slots=True)
class OwnerForbidden:
    """The answer to a read that our role does not allow."""


def owner_chain(pod: Object) -> Generator[ObjectRef, Object | OwnerForbidden | None, list[Object]]:
    """Walks up from the pod's first owner; above a forbidden owner nothing is known.

    Anybody may write owner references, also such that go in a circle.
    """
    chain: list[Object] = []
    references = pod["metadata"].get("ownerReferences") or []
    namespace = fields.namespace_of(pod)
    while references:
        reference = references[0]
        ref = ObjectRef(
            str(reference["apiVersion"]), str(reference["kind"]), namespace, str(reference["name"])
        )
        if problem := ref.problem():
            raise GroupingError(
                f"metadata.ownerReferences: {problem}; remove this reference or correct it"
            )
        found = yield ref
        if isinstance(found, OwnerForbidden):
            break
        if found is None or fields.uid_of(found) != reference.get("uid"):
            raise OwnerMissing(_missing_text(ref, str(reference.get("uid")), found), ref)
        uids = [fields.uid_of(owner) for owner in chain]
        if fields.uid_of(found) in uids:
            circle = chain[uids.index(fields.uid_of(found)) :]
            raise GroupingError(_cycle_text([*circle, found]))
        if len(chain) == OWNERS_MAX:
            raise GroupingError(
                f"metadata.ownerReferences: more than {OWNERS_MAX} owners are above this pod, up "
                f"to {ref.kind} {ref.name}; remove the references that no controller needs"
            )
        chain.append(found)
        references = found["metadata"].get("ownerReferences") or []
        if len(references) > 1:
            raise GroupingError(
                f"found {ref.kind} <{ref.name} in namespace {namespace}> with multiple owners: "
                + _owners_text(references),
                "remove the references that are not of its controller",
            )
    return chain


def _cycle_text(circle: list[Object]) -> str:
    shown = " -> ".join(f"{owner['kind']} {fields.name_of(owner)}" for owner in circle)
    return (
        "metadata.ownerReferences: the owners of this pod go in a circle: "
        f"{shown}; remove one of these references"
    )


def _missing_text(ref: ObjectRef, uid: str, found: Object | None) -> str:
    about = f"failed to find {ref.kind}: <{ref.namespace}/{ref.name}>, uid: <{uid}>"
    if found is None:
        group = ref.api_version.rpartition("/")[0]
        plural = ref.kind.lower() + ("es" if ref.kind.endswith("s") else "s")
        kind = f"{plural}.{group}" if group else plural
        return f'{about}: {kind} "{ref.name}" not found'
    return (
        f"{about}: Owner resource with uid {uid} not found: the object of that name has another "
        f"uid, {fields.uid_of(found)}"
    )


def _owners_text(references: Sequence[Object]) -> str:
    """As Go prints them, but for its pointers."""
    shown = (
        " ".join(_go_text(one.get(key)) for key in _REFERENCE_FIELDS)
        for one in references[:_OWNERS_SHOWN]
    )
    return f"[{' '.join(f'{{{one}}}' for one in shown)}]"


def _go_text(value: object) -> str:
    return "<nil>" if value is None else str(value)
