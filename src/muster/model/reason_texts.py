"""The words of public reasons: the subject, one sentence, and the numbers for programs.

What is said of nodes is said in counts: "61 lack GPUs". A sentence says what is, why, and with
which numbers; what to do about it is the code's next step (`model.reason_codes`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.base.timefmt import rfc3339
from muster.model.gpu_request import GPU_RESOURCES
from muster.model.nearest import nearest
from muster.model.reason_codes import Code, is_lasting
from muster.model.reasons import Evidence, NodeCount, Reason, Refusal
from muster.numerics.axis import GPU_UNIT

_ALIKE = 0.85
"""Names of resources of other makers are alike too."""
_MOST_COUNTS = 5
"""Reasons of nodes that a sentence lists."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one reason."""

    subject: str
    sentence: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


def told(code: Code, refusal: Refusal) -> Told:
    """What is said of a refusal that goes by this code."""
    return _BY_CODE.get(code, _plain)(refusal)


def amount(resource: str, units: int) -> str:
    """An amount of the axis in the words of a user: 1500 thousandths of a GPU are "1.5 GPUs"."""
    if resource in _COUNTED:
        one, many = _COUNTED[resource]
        number = _decimals(units / GPU_UNIT)
        return f"{number} {one if number == '1' else many}"
    if _is_in_bytes(resource):
        return f"{_size(units, _SIZES)} of {resource}"
    return f"{units} {resource}"


def _of_queue(resource: str, units: int) -> str:
    """The same of a queue, whose specification counts megabytes of 10^6."""
    if _is_in_bytes(resource):
        return f"{_size(units, _DECIMAL_SIZES)} of {resource}"
    return amount(resource, units)


def _is_in_bytes(resource: str) -> bool:
    return resource in _IN_BYTES or resource.startswith("hugepages-")


def _size(units: int, sizes: tuple[tuple[int, str], ...]) -> str:
    """So many bytes, never with an exponent: two amounts that differ are to look different."""
    for size, word in sizes:
        if units >= size:
            return f"{_decimals(units / size)} {word}"
    return f"{units} bytes" if units else f"0 {sizes[0][1]}"


def _decimals(number: float) -> str:
    text = f"{number:.3f}"
    return text.rstrip("0").rstrip(".")


def resource_word(resource: str) -> str:
    """What is short, without a number."""
    return {"gpu": "GPUs", "cpu": "CPU", "pods": "pod slots"}.get(resource, resource)


_COUNTED = {"gpu": ("GPU", "GPUs"), "cpu": ("CPU", "CPUs")}
_IN_BYTES = ("memory", "ephemeral-storage")
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_DECIMAL_SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def node_counts(counts: tuple[NodeCount, ...]) -> str:
    """How many nodes say what: "61 lack GPUs, 2 are not ready"."""
    return ", ".join(_listed_counts(counts))


def _listed_counts(counts: tuple[NodeCount, ...]) -> list[str]:
    listed = [_node_count(count) for count in counts[:_MOST_COUNTS]]
    if more := sum(count.nodes for count in counts[_MOST_COUNTS:]):
        listed.append(f"{more} have other reasons")
    return listed


def _node_count(count: NodeCount) -> str:
    one, many = _node_words(count)
    words = (one if count.nodes == 1 else many).format(subject=resource_word(count.subject))
    return f"{count.nodes} {words}"


def _node_words(count: NodeCount) -> tuple[str, str]:
    """Of one node, and of several."""
    if count.reason is Reason.TAINT and count.subject:
        words = "taint {subject}, which it does not tolerate"
        return f"has {words}", f"have {words}"
    if count.reason is Reason.PLUGIN and count.subject:
        return "is refused by plugin {subject}", "are refused by plugin {subject}"
    return _NODE_WORDS[count.reason]


_NODE_WORDS: dict[Reason, tuple[str, str]] = {
    Reason.RESOURCES: ("lacks {subject}", "lack {subject}"),
    Reason.SHARED_GPU: ("lacks room on shared GPUs", "lack room on shared GPUs"),
    Reason.POD_SLOTS: (
        "has no pod slot left (pod number exceeded)",
        "have no pod slot left (pod number exceeded)",
    ),
    Reason.NOT_READY_NODE: ("is not ready", "are not ready"),
    Reason.UNSCHEDULABLE_NODE: ("is cordoned", "are cordoned"),
    Reason.TAINT: (
        "has a taint that it does not tolerate",
        "have a taint that it does not tolerate",
    ),
    Reason.NODE_SELECTOR: (
        "does not match its node selector or affinity",
        "do not match its node selector or affinity",
    ),
    Reason.HOST_PORT: ("has the host port taken", "have the host port taken"),
    Reason.POD_AFFINITY: (
        "is away from the pods it wants to be with",
        "are away from the pods it wants to be with",
    ),
    Reason.POD_ANTI_AFFINITY: ("has pods it keeps away from", "have pods it keeps away from"),
    Reason.OTHERS_ANTI_AFFINITY: (
        "has pods that keep away from it",
        "have pods that keep away from it",
    ),
    Reason.SPREAD: ("would break its topology spread", "would break its topology spread"),
    Reason.VOLUME: ("cannot reach its volume", "cannot reach its volume"),
    Reason.SHARED_VOLUME: (
        "cannot use the volume of a claim shared with a pod elsewhere",
        "cannot use the volume of a claim shared with a pod elsewhere",
    ),
    Reason.VOLUME_LIMIT: ("has no volume slot left", "have no volume slot left"),
    Reason.DEVICE_CLAIM: (
        "has too few of the claimed devices free",
        "have too few of the claimed devices free",
    ),
    Reason.DEVICE_ABSENT: (
        "does not have the claimed devices",
        "do not have the claimed devices",
    ),
    Reason.VOLUME_IN_USE: (
        "has to wait for its volume, which another pod uses alone",
        "have to wait for its volume, which another pod uses alone",
    ),
    Reason.STORAGE_CAPACITY: (
        "has too little storage left for its volume",
        "have too little storage left for its volume",
    ),
    Reason.NUMA: ("cannot align it to NUMA zones", "cannot align it to NUMA zones"),
    Reason.GPU_KIND: (
        "has the wrong kind of GPUs, or none",
        "have the wrong kind of GPUs, or none",
    ),
    Reason.GPU_MEMORY_UNKNOWN: (
        "does not say how much memory its GPUs have",
        "do not say how much memory their GPUs have",
    ),
    Reason.GPU_TOO_SMALL: (
        "has GPUs with too little memory",
        "have GPUs with too little memory",
    ),
    Reason.QUEUE_ON_NODE: (
        "has smaller GPUs, of which it would go over the {subject}",
        "have smaller GPUs, of which it would go over the {subject}",
    ),
    Reason.WORKER_LABEL: ("lacks the worker label", "lack the worker label"),
    Reason.PLUGIN: ("is refused by a plugin", "are refused by a plugin"),
    Reason.OUTSIDE_DOMAIN: (
        "is outside the chosen topology domain",
        "are outside the chosen topology domain",
    ),
}

_SENTENCES: dict[Reason, str] = {
    Reason.CONFIG_MAP_MISSING: "Config map {subject} does not exist.",
    Reason.VOLUME_MISSING: "Volume claim {subject} does not exist.",
    Reason.VOLUME_CLAIM_UNUSABLE: "Volume claim {subject} cannot be used: {names}.",
    Reason.CLAIM_MISSING: "Resource claim {subject} does not exist.",
    Reason.CLAIM_NOT_MADE: "No resource claim is made for it of template {subject} yet.",
    Reason.DEVICE_CLASS_MISSING: "Device class {subject} does not exist.",
    Reason.CLAIM_OF_OTHER_QUEUE: "Resource claim {subject} belongs to another queue: its label "
    "kai.scheduler/queue does not name the queue of the job.",
    Reason.CLAIM_FULL: "Resource claim {subject} has as many consumers as it may have.",
    Reason.LEGACY_MIG: "It asks for MIG by annotation, which is not supported: ask for a resource "
    "such as nvidia.com/mig-1g.5gb.",
    Reason.UNKNOWN_SUB_GROUP: "It names sub-group {subject}, which its pod group does not have.",
    Reason.BAD_REQUEST: "Its request cannot be counted: {subject}.",
    Reason.QUEUE_CLOSED: "Queue {subject} is not open to its namespace.",
    Reason.QUEUE_PARENT_MISSING: "Its queue is below queue '{subject}', which does not exist.",
    Reason.QUEUE_IN_CYCLE: "Queue {subject} is its own ancestor, or below a queue that is.",
    Reason.QUEUE_TOO_DEEP: f"Queue {{subject}} is more than {QUEUE_LEVELS_MAX} levels deep.",
    Reason.QUEUE_NOT_LEAF: "Queue {subject} has child queues and runs no jobs itself.",
    Reason.TOPOLOGY_MISSING: "Topology {subject} does not exist.",
    Reason.TOPOLOGY_LEVEL_MISSING: "The topology has no level {subject}.",
    Reason.TOPOLOGY_UNLABELLED: "No node carries the label {subject} of the topology.",
    Reason.PREEMPTION_DELAY: "It may not cause evictions before {until}.",
    Reason.QUEUE_DEPTH: "It is too far back in its queue for this cycle.",
    Reason.OVER_SHARE: "Queue {subject} has its share: it may use what is free, and take nothing "
    "from others.",
    Reason.NO_VICTIMS: "Nothing that runs may be evicted for it: all of it cannot be preempted, is "
    "within its queue's share, or is of the same or a higher priority.",
    Reason.PROTECTED: "Job {subject}, which would have to make way, may run undisturbed until "
    "{until}.",
    Reason.REFUSED_BY_PLUGIN: "Plugin {subject} refuses it.",
    Reason.DISRUPTION_BUDGET: "The disruption budget of {subject} is spent.",
    Reason.BUDGET_SPENT: "The search budget of this cycle is spent.",
    Reason.PLUGIN_FAILED: "Plugin {subject} failed, so it cannot be placed safely.",
    Reason.SEARCH_TIME: "The search for pods to evict was cut short: it took too long.",
    Reason.WITHIN_SHARE: "Queue {subject} would fall below its share.",
    Reason.POD_BUDGET: "Pod disruption budget {subject} lets no more pods go.",
    Reason.EVICTION_REFUSED: "Evicting {subject} was refused, and is tried again later.",
    Reason.BIND_REFUSED: "Binding it was refused ({subject}), and is tried again later.",
    Reason.HELD: "It is on hold: {subject}.",
    Reason.BINDS: "Its nodes are chosen, and it is being bound.",
}


def _plain(refusal: Refusal) -> Told:
    """A sentence with a name in it."""
    if refusal.reason is Reason.QUEUE_DEPTH and len(refusal.names) == _PLACE_AND_DEPTH:
        return _queue_depth(refusal)
    if refusal.reason in _OF_SHARES and refusal.evidence:
        return _OF_SHARES[refusal.reason](refusal)
    sentence = _SENTENCES[refusal.reason]
    if refusal.reason is Reason.HELD and not refusal.subject:
        sentence = "It is on hold."
    if refusal.reason is Reason.QUEUE_NOT_LEAF and refusal.names:
        sentence = "Queue {subject} has child queues ({names}) and runs no jobs itself."
    said = sentence.format(
        subject=refusal.subject, until=rfc3339(refusal.until_s), names=", ".join(refusal.names)
    )
    if refusal.names and "{names}" not in sentence:
        said += f" Did you mean {refusal.names[0]}?"
    evidence: dict[str, Any] = {"subject": refusal.subject} if refusal.subject else {}
    if refusal.until_s:
        evidence["until"] = rfc3339(refusal.until_s)
    return Told(refusal.subject, said, evidence)


def _queue_depth(refusal: Refusal) -> Told:
    place, depth = refusal.names
    first = f"only the first {depth} jobs of queue {refusal.subject} are tried"
    if depth == "1":
        first = f"only the first job of queue {refusal.subject} is tried"
    sentence = f"It is too far back in its queue for this cycle: {first}, and it is number {place}."
    evidence = {"queue": refusal.subject, "place": int(place), "depth": int(depth)}
    return Told(refusal.subject, sentence, evidence)


def _over_share(refusal: Refusal) -> Told:
    """It would be above its share with the job, if it is not already."""
    held, share = _held_and_share(refusal)
    sentence = (
        f"Queue {refusal.subject} has its share: it holds {held} and its share is {share}, so it "
        "may use what is free, and take nothing from others."
    )
    return Told(refusal.subject, sentence, _share_evidence(refusal))


def _within_share(refusal: Refusal) -> Told:
    held, share = _held_and_share(refusal)
    sentence = (
        f"Queue {refusal.subject} would fall below its share: it holds {held} and its share is "
        f"{share}, so it need not give what the job needs."
    )
    return Told(refusal.subject, sentence, _share_evidence(refusal))


def _held_and_share(refusal: Refusal) -> tuple[str, str]:
    (numbers,) = refusal.evidence
    return _of_queue(numbers.resource, numbers.held), _of_queue(numbers.resource, numbers.bound)


def _share_evidence(refusal: Refusal) -> dict[str, Any]:
    (numbers,) = refusal.evidence
    return {
        "queue": refusal.subject,
        "resource": numbers.resource,
        "held": numbers.held,
        "share": numbers.bound,
    }


def _no_queue(refusal: Refusal) -> Told:
    meant = f" Did you mean {refusal.names[0]}?" if refusal.names else ""
    sentence = f"Queue '{refusal.subject}' does not exist.{meant}"
    return Told(
        refusal.subject, sentence, {"queue": refusal.subject, "nearest": list(refusal.names)}
    )


def _pods_missing(refusal: Refusal) -> Told:
    part = f" of sub-group {refusal.sub_group}" if refusal.sub_group else ""
    exist = "exists" if refusal.found == 1 else "exist"
    sentence = (
        f"{refusal.found} of the {refusal.minimum} pods{part} that it needs to start {exist}."
    )
    return Told(refusal.sub_group, sentence, _members(refusal))


def _gated(refusal: Refusal) -> Told:
    part = f" of sub-group {refusal.sub_group}" if refusal.sub_group else ""
    needed = "1 pod" if refusal.minimum == 1 else f"{refusal.minimum} pods"
    sentence = (
        f"It needs {needed}{part} to start; {refusal.found} may be scheduled, and "
        f"scheduling gates hold back {refusal.gated}."
    )
    return Told(refusal.sub_group, sentence, _members(refusal))


def _members(refusal: Refusal) -> dict[str, Any]:
    return {"subGroup": refusal.sub_group, "found": refusal.found, "minimum": refusal.minimum}


def _larger_than_a_node(refusal: Refusal) -> Told:
    most = refusal.evidence[0]
    best = f"more than {amount(most.resource, most.free)}" if most.free else "any"
    meant = "" if most.free else nearest(most.resource, GPU_RESOURCES, _ALIKE)
    hint = f" Did you mean {meant}?" if meant else ""
    need = amount(most.resource, most.need)
    sentence = f"A pod asks for {need}, and no node has {best}.{hint}"
    return Told(most.resource, sentence, {"resources": [_resource(e) for e in refusal.evidence]})


def _too_large(refusal: Refusal) -> Told:
    """A task that no node could take if it were empty, or more tasks than all could."""
    if refusal.reason is not Reason.NO_NODE:
        return _larger_than_a_node(refusal)
    room, evidence = refusal.room, _room_evidence(refusal)
    if dominant_count(refusal.nodes).reason is Reason.GPU_TOO_SMALL and refusal.evidence:
        (most,) = refusal.evidence
        sentence = (
            f"A pod asks for {amount(most.resource, most.need)}, and no GPU has more than "
            f"{amount(most.resource, most.free)} ({most.where})."
        )
        return Told("pod", sentence, evidence)
    if room is not None and not room.when_empty and refusal.evidence and refusal.evidence[0].each:
        sentence = f"A pod asks for {_need(refusal)}, and no node that it could use has so many."
        return Told("pod", sentence, evidence)
    if room is None or room.when_empty <= 0:
        need = f"{_need(refusal)} for a pod" if refusal.evidence else "all that a pod asks for"
        sentence = f"No node that it could use has {need}, even if it were empty"
        return Told("pod", f"{sentence}: {node_counts(refusal.nodes)}.", evidence)
    each = f" of {_need(refusal)} each" if refusal.evidence else ""
    sentence = (
        f"The nodes that it could use have places for {room.when_empty} of its "
        f"{refusal.minimum} pods{each}, even if they were empty."
    )
    return Told("gang", sentence, evidence)


def _no_matching_node(refusal: Refusal) -> Told:
    most = dominant_count(refusal.nodes)
    one = _node_words(most)[0].format(subject=most.subject)
    first, *rest = _listed_counts((most, *(one for one in refusal.nodes if one is not most)))
    if most.alone:
        some = f"{most.alone} of these {'has' if most.alone == 1 else 'have'}"
        others = some if most.alone < most.nodes else "and"
        first += f" ({others} nothing else against it)"
    total = sum(count.nodes for count in refusal.nodes)
    sentence = f"None of {_nodes(total)} can run it: {', '.join([first, *rest])}."
    if total == most.nodes == 1:
        sentence = f"The only node {one}."
    return Told(most.reason.name.lower(), sentence, _room_evidence(refusal))


def _no_room(refusal: Refusal) -> Told:
    if refusal.reason is not Reason.NO_NODE:
        return _short(refusal)
    sentence = f"{_head(refusal)}{_of_nodes(refusal)}"
    return Told(_short_of(refusal), sentence, _room_evidence(refusal))


def _short(refusal: Refusal) -> Told:
    """All nodes together have too little free."""
    (numbers,) = refusal.evidence
    sentence = (
        f"It needs {amount(numbers.resource, numbers.need)}, and all nodes together have "
        f"{amount(numbers.resource, numbers.free)} free."
    )
    return Told(numbers.resource, sentence, {"resources": [_resource(numbers)]})


def _fragmented(refusal: Refusal) -> Told:
    room = refusal.room
    assert room is not None, "fragments are seen by the room that there is"
    (numbers, *_) = refusal.evidence
    sentence = (
        f"{amount(numbers.resource, room.free)} are free on {_nodes(room.eligible)} that it could "
        f"use, and none has {amount(numbers.resource, numbers.need)} in one piece (most: "
        f"{amount(numbers.resource, numbers.free)} on {numbers.where})."
    )
    if refusal.minimum > 1:
        sentence = f"{_places(refusal)}: {sentence}"
    return Told(numbers.resource, sentence, _room_evidence(refusal))


def _behind(refusal: Refusal) -> Told:
    room = refusal.room
    assert room is not None, "who is behind others had room at first"
    who = f": {', '.join(refusal.names)}" if refusal.names else ""
    sentence = f"There was room for it, and jobs before it in the order took it{who}."
    return Told("", sentence, {**_room_evidence(refusal), "ahead": list(refusal.names)})


def _room_held(refusal: Refusal) -> Told:
    who = ", ".join(refusal.names)
    sentence = f"What is free is held for {who}: others were evicted so that it can start."
    return Told("", sentence, {**_room_evidence(refusal), "holders": list(refusal.names)})


def _topology_full(refusal: Refusal) -> Told:
    if refusal.reason is Reason.OUTSIDE_DOMAIN:
        return _no_room(refusal)
    numbers = "".join(
        f"; {e.where} has {amount(e.resource, e.free)} of {amount(e.resource, e.need)} free"
        for e in refusal.evidence[:1]
    )
    sentence = (
        f"All {refusal.minimum} pods must be in one domain of {refusal.subject}, and the best has "
        f"places for {refusal.found}{numbers}."
    )
    resources = [_resource(e) for e in refusal.evidence]
    evidence = {"level": refusal.subject, **_members(refusal), "resources": resources}
    return Told(refusal.subject, sentence, evidence)


def _topology_too_small(refusal: Refusal) -> Told:
    room = refusal.room
    most = room.when_empty if room else refusal.found
    sentence = (
        f"All {refusal.minimum} pods must be in one domain of {refusal.subject}, and the largest "
        f"has places for {most}, even if it were empty."
    )
    return Told(refusal.subject, sentence, {"level": refusal.subject, **_members(refusal)})


def _bound(refusal: Refusal) -> Told:
    """A limit or a quota that would be broken, or could never hold it."""
    name = "limit" if refusal.reason is Reason.OVER_LIMIT else "quota"
    if not refusal.evidence:
        sentence = f"Queue {refusal.subject} would go over its {name}."
        return Told(refusal.subject, sentence, {"queue": refusal.subject})
    (e,) = refusal.evidence
    need, bound, held = (_of_queue(e.resource, units) for units in (e.need, e.bound, e.held))
    what = "what cannot be preempted holds" if name == "quota" else "it holds"
    sentence = (
        f"Queue {refusal.subject} would go over its {name}: that is {bound}, {what} {held}, and "
        f"the job needs {need}."
    )
    if e.need > e.bound:
        none = "" if e.bound else ", where absent or 0 means none"
        holds = f"queue {refusal.subject} may never hold more than {bound} ({name}{none})"
        if name == "quota":
            holds = f"it cannot be preempted: of such jobs {holds}"
        sentence = f"The job needs {need}, and {holds}."
    evidence = {
        "queue": refusal.subject,
        "resource": e.resource,
        "need": e.need,
        "held": e.held,
        name: e.bound,
    }
    return Told(refusal.subject, sentence, evidence)


def _victims(refusal: Refusal) -> Told:
    sentence = f"Its nodes are chosen ({refusal.subject}), and pods there are leaving for it."
    return Told("", sentence, {"nodes": refusal.subject, "victims": list(refusal.names)})


_PLACE_AND_DEPTH = 2
_OF_SHARES: dict[Reason, Callable[[Refusal], Told]] = {
    Reason.OVER_SHARE: _over_share,
    Reason.WITHIN_SHARE: _within_share,
}
"""Where the numbers are known."""

_BY_CODE: dict[Code, Callable[[Refusal], Told]] = {
    Code.QUEUE_DOES_NOT_EXIST: _no_queue,
    Code.PODS_MISSING: _pods_missing,
    Code.GATED: _gated,
    Code.TOO_LARGE: _too_large,
    Code.NO_MATCHING_NODE: _no_matching_node,
    Code.NO_ROOM: _no_room,
    Code.FRAGMENTED: _fragmented,
    Code.BEHIND_OTHERS: _behind,
    Code.HELD_FOR_OTHERS: _room_held,
    Code.TOPOLOGY_FULL: _topology_full,
    Code.TOPOLOGY_TOO_SMALL: _topology_too_small,
    Code.ABOVE_LIMIT: _bound,
    Code.QUEUE_AT_LIMIT: _bound,
    Code.NON_PREEMPTIBLE_OVER_QUOTA: _bound,
    Code.WAITING_FOR_VICTIMS: _victims,
}


def dominant_count(counts: tuple[NodeCount, ...]) -> NodeCount:
    """The reason without which most nodes would pass; what a node is made of and where it is, which
    nobody mends, counts where nothing else alone keeps the task off some node.
    """
    return max(
        counts,
        key=lambda count: (
            count.alone > 0 and count.reason not in _GIVEN,
            count.alone,
            count.nodes,
            -count.reason,
        ),
    )


_GIVEN = (
    Reason.GPU_KIND,
    Reason.GPU_TOO_SMALL,
    Reason.GPU_MEMORY_UNKNOWN,
    Reason.DEVICE_ABSENT,
    Reason.VOLUME,
)


def _head(refusal: Refusal) -> str:
    which = "one more" if refusal.minimum > 1 and refusal.found else "a pod"
    need = f"No node can take {which}."
    if _is_short(refusal):
        need = f"No node has {_need(refusal)} free for {which}."
    return f"{_places(refusal)}. {need}" if refusal.minimum > 1 else need


def _is_short(refusal: Refusal) -> bool:
    """Whether the numbers are what keeps it off some node."""
    short = (Reason.RESOURCES, Reason.SHARED_GPU)
    return bool(refusal.evidence) and any(count.reason in short for count in refusal.nodes)


def _places(refusal: Refusal) -> str:
    have = "has" if refusal.found == 1 else "have"
    return f"{refusal.found} of its {refusal.minimum} pods {have} a place, and it starts whole"


def _need(refusal: Refusal) -> str:
    need = refusal.evidence[0]
    asked = amount(need.resource, need.need)
    return asked if need.each is None else f"{amount(*need.each)} on each of {asked}"


def _of_nodes(refusal: Refusal) -> str:
    total = sum(count.nodes for count in refusal.nodes)
    if not total:
        return " There are no nodes."
    counts = tuple(sorted(refusal.nodes, key=_hope))
    most = ""
    if _is_short(refusal):
        best = refusal.evidence[0]
        most = f" (most free: {amount(best.resource, best.free)} on {best.where})"
    if total == 1:
        return f" The only node {node_counts(counts).removeprefix('1 ')}{most}."
    first, *rest = _listed_counts(counts)
    return f" Of {_nodes(total)} {', '.join([f'{first}{most}', *rest])}."


def _hope(count: NodeCount) -> tuple[bool, bool]:
    """What room alone would mend comes first, and last what no leaving pod mends."""
    return count.reason not in _OF_ROOM, is_lasting(count.reason)


_OF_ROOM = (Reason.RESOURCES, Reason.SHARED_GPU)


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _short_of(refusal: Refusal) -> str:
    """What most nodes that it could use lack."""
    if refusal.evidence:
        return resource_word(refusal.evidence[0].resource)
    return dominant_count(refusal.nodes).reason.name.lower() if refusal.nodes else ""


def _room_evidence(refusal: Refusal) -> dict[str, Any]:
    room = refusal.room
    return {
        **_members(refusal),
        "eligible": room.eligible if room else 0,
        "free": room.free if room else 0,
        "nodes": [
            {
                "reason": count.reason.name.lower(),
                "nodes": count.nodes,
                "alone": count.alone,
                "subject": count.subject,
            }
            for count in refusal.nodes
        ],
        "resources": [_resource(evidence) for evidence in refusal.evidence],
    }


def _resource(evidence: Evidence) -> dict[str, Any]:
    return {
        "name": evidence.resource,
        "need": evidence.need,
        "best": evidence.where,
        "free": evidence.free,
    }


def next_step(code: Code, refusal: Refusal | None) -> str:
    """What helps: by the reason, where the code's own advice would not fit."""
    if refusal is None:
        return code.meaning.next_step
    if code is Code.ABOVE_LIMIT and refusal.reason is Reason.OVER_QUOTA:
        return (
            "Make it preemptible (kai.scheduler/preemptibility: preemptible), ask for less, or "
            "have the quota raised."
        )
    if refusal.reason is Reason.TOO_LARGE and not refusal.evidence[0].free:
        return (
            "Ask for a resource that nodes have (kubectl describe nodes lists them), or add nodes "
            "that have it."
        )
    if code is Code.NO_MATCHING_NODE and refusal.nodes:
        return _NODE_STEPS.get(dominant_count(refusal.nodes).reason, code.meaning.next_step)
    return _STEPS.get(refusal.reason, code.meaning.next_step)


_STEPS: dict[Reason, str] = {
    Reason.TOPOLOGY_MISSING: "Create the Topology, or correct the name.",
    Reason.TOPOLOGY_LEVEL_MISSING: "Name one of its levels.",
    Reason.TOPOLOGY_UNLABELLED: "Label the nodes, or name another level.",
    Reason.CLAIM_NOT_MADE: "If this lasts, see whether that ResourceClaimTemplate exists, and what "
    "the events of the pod say.",
    Reason.VOLUME_CLAIM_UNUSABLE: "Look at the events of the claim, and at its storage class.",
    Reason.CLAIM_OF_OTHER_QUEUE: "Label the claim with the queue of the job, or use another claim.",
}
_NODE_STEPS: dict[Reason, str] = {
    Reason.TAINT: "Tolerate the taint (spec.tolerations of the pod), or have it taken off.",
    Reason.NODE_SELECTOR: "Correct nodeSelector or nodeAffinity of the pod, or label a node so.",
    Reason.DEVICE_ABSENT: "Correct the device class or the selectors of the claim, or add nodes "
    "with such devices.",
    Reason.VOLUME: "Use a volume that reaches these nodes, or nodes that it reaches.",
}
"""What lets most nodes pass."""
