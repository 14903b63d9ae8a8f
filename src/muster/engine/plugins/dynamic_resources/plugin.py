"""KAI's `dynamicresources`: nodes must have free devices for the claims of a task.

Claims that hold devices already tie their pods to where these are; the others must be servable
together by the free devices of the node. Placing a task gives its claims their devices, taking it
back returns them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from muster.api.devices import ResourceClaim, ResourceSlice
from muster.api.names import Names
from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plan import Bind
from muster.engine.plugins.dynamic_resources.extended import ExtendedResources
from muster.engine.plugins.dynamic_resources.results import claim_allocations, extended_allocation
from muster.model.claim_book import ClaimBook
from muster.model.claim_needs import ClaimNeed, NoSuchClass, claim_need
from muster.model.constraint_terms import ClaimReference
from muster.model.device_pool import DevicePool
from muster.model.extended import made_for_pods
from muster.model.gpu_request import claimed_gpus
from muster.model.ledger import Entries
from muster.model.nearest import nearest
from muster.model.presence import moves
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.model.snapshot import NodeColumns
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Bools, Ints, Rows

_QUEUE_LABEL = Names().queue_label
_NOT_SERVED = "it has resource claims, and the cluster does not serve resource.k8s.io/v1"


class DynamicResources:
    """KAI's `dynamicresources`; its `maxCelCacheEntries` is accepted: every expression is kept."""

    name = "dynamicresources"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("maxCelCacheEntries",))
        self._known: tuple[Mapping[str, ResourceSlice], NodeColumns, DevicePool] | None = None

    def open(self, view: View) -> SessionPlugin:
        objects = view.snapshot.cluster_objects
        uses_claims = any(constraints.claims for constraints in view.snapshot.constraints)
        if not uses_claims and not objects.device_slices:
            return SessionPlugin()
        return _Claims(view, self._pool(objects.device_slices, view.snapshot.nodes))

    def _pool(self, slices: Mapping[str, ResourceSlice], nodes: NodeColumns) -> DevicePool:
        """The devices, which follow from slices and nodes alone: kept while these are the same."""
        if self._known is not None:
            same_slices, same_nodes, pool = self._known
            is_same = same_nodes.names == nodes.names and same_slices == slices
            if is_same and (not pool.roaming or same_nodes.index is nodes.index):
                return pool
        pool = DevicePool(slices.values(), nodes.row, nodes.index)
        self._known = (slices, nodes, pool)
        return pool


class _Claims(SessionPlugin):
    depends_on_time = True
    """While selectors are left that no cycle has come to."""

    def __init__(self, view: View, pool: DevicePool) -> None:
        pool.begin()
        self._now_s = view.now_s
        self._snapshot = view.snapshot
        self._around = view.snapshot.cluster_objects
        self._book = ClaimBook(pool, view.snapshot.nodes.index)
        self._book.open(self._around.device_claims)
        self._extended = ExtendedResources(view.snapshot)
        self._ledger = view.ledger
        self._made = made_for_pods(self._around.device_claims)
        self._needs: dict[int, tuple[tuple[ClaimNeed, ...], Bools]] = {}
        self._specimens: dict[int, int] = {}
        self._enter_decided(view)

    def next_change_s(self) -> float:
        return self._now_s if self._book.pool.has_postponed else math.inf

    def dependence(self, shape: Shape) -> Dependence:
        if any(not reference.template for reference in shape.constraints.claims):
            return Dependence.CLUSTER
        if shape.constraints.claims or self._extended_needs(shape)[0]:
            return Dependence.NODE
        return Dependence.IRRELEVANT

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        fits = np.ones(len(rows), np.bool_)
        needs = []
        keys = self._keys(shape)
        for reference in shape.constraints.claims:
            key = keys[reference.entry]
            usable = self._book.usable(key) if reference.name else None
            if usable is not None:
                fits &= usable[rows] & (not self._book.is_full(key))
            elif (need := self._need(key)) is not None:
                needs.append(need)
            else:
                return np.zeros(len(rows), np.bool_)
        return fits & self._servable(shape, needs, rows)

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        lacks = np.where(self._exist(shape, rows), Reason.DEVICE_CLAIM, Reason.DEVICE_ABSENT)
        return np.where(self.fits(shape, rows), 0, lacks)

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        """Claims that do not exist, are not the queue's, or have too many users."""
        references = shape.constraints.claims
        if references and not self._around.serves_devices:
            return Refusal(Reason.BAD_REQUEST, subject=_NOT_SERVED)
        record = self._snapshot.jobs.records[job]
        # Only KAI's queues have claims of their own.
        queue = record.queue if record.terms is None else None
        keys = self._keys(shape)
        for reference in references:
            key = keys.get(reference.entry, "")
            claim = self._around.device_claims.get(key)
            if claim is None and not reference.name and reference.template:
                return Refusal(Reason.CLAIM_NOT_MADE, subject=reference.template)
            if claim is None:
                named = reference.name or reference.entry
                return Refusal(Reason.CLAIM_MISSING, subject=named)
            if refusal := self._objection(reference, key, claim, queue):
                return refusal
        return None

    def on_ledger_change(self, entries: Entries) -> None:
        for move in moves(entries):
            needs = self._needs_on(move.task, move.node)
            if needs:
                consumer = self._snapshot.tasks.records[move.task].uid
                self._book.post(move.turn, consumer, move.node, needs)

    def can_return(self, tasks: Rows) -> Bools:
        nodes = self._ledger.node[tasks].tolist()
        needs = map(self._needs_on, tasks.tolist(), nodes)
        return np.fromiter(map(self._book.can_return, needs), np.bool_, len(tasks))

    def annotate(self, binds: Sequence[Bind]) -> Sequence[Mapping[str, object]]:
        rows = {self._snapshot.tasks.records[row].uid: row for row in self._rows_with_claims()}
        return [self._details(rows.get(bind.task), bind) for bind in binds]

    def _enter_decided(self, view: View) -> None:
        """Devices of tasks that are being bound, while their claims do not show them yet."""
        tasks = view.snapshot.tasks
        for task in self._rows_with_claims():
            record = tasks.records[task]
            if not record.claim_allocations or not IS_ACTIVE_ALLOCATED[tasks.status[task]]:
                continue
            keys = self._keys_of(view.snapshot.shape_of(task), record.claims)
            keys[""] = self._own_key(task)
            for entry, allocation in record.claim_allocations.items():
                if entry in keys:
                    self._book.enter(keys[entry], record.uid, allocation)

    def _objection(
        self, reference: ClaimReference, key: str, claim: ResourceClaim, queue: str | None
    ) -> Refusal | None:
        need: ClaimNeed | None = None
        if self._book.usable(key) is None:
            try:
                need = claim_need(claim.spec.devices, self._around.device_classes)
            except NoSuchClass as missing:
                meant = nearest(missing.name, self._around.device_classes)
                names = (meant,) if meant else ()
                return Refusal(Reason.DEVICE_CLASS_MISSING, subject=missing.name, names=names)
        is_shared = not reference.template and claim.pod_group is None
        is_owned = queue is not None and is_shared and bool(claimed_gpus(claim))
        if is_owned and claim.metadata.labels.get(_QUEUE_LABEL) != queue:
            return Refusal(Reason.CLAIM_OF_OTHER_QUEUE, subject=reference.name)
        if self._book.is_full(key):
            return Refusal(Reason.CLAIM_FULL, subject=reference.name)
        if need is not None and self._book.pool.postpones(need, claim.metadata.namespace):
            return Refusal(Reason.BUDGET_SPENT, subject=f"resource claim {claim.metadata.name}")
        if need is not None and (problem := self._book.pool.problem(need)):
            subject = f"resource claim {claim.metadata.name}, {problem}"
            return Refusal(Reason.BAD_REQUEST, subject=subject)
        return None

    def _servable(self, shape: Shape, needs: list[ClaimNeed], rows: Rows) -> Bools:
        """Free devices for the claims, and on some nodes for resources asked for by name too."""
        by_name, nodes = self._extended_needs(shape)
        plain = self._book.servable(needs, rows) if needs else np.ones(len(rows), np.bool_)
        if not by_name:
            return plain
        return np.where(nodes[rows], self._book.servable([*needs, *by_name], rows), plain)

    def _exist(self, shape: Shape, rows: Rows) -> Bools:
        """Where there are such devices at all, whoever holds them: bool[len(rows)]. A claim that
        has its devices says where it can be used; somebody may give it up.
        """
        exist = np.ones(len(rows), np.bool_)
        keys = self._keys(shape)
        for reference in shape.constraints.claims:
            key = keys[reference.entry]
            need = self._need(key)
            has_devices = bool(reference.name) and self._book.usable(key) is not None
            if need is not None and not has_devices:
                exist &= self._book.exist(need, rows)
        return exist

    def _needs_on(self, task: int, node: int) -> dict[str, ClaimNeed]:
        """What each claim of the task needs there, by key."""
        shape, record = self._snapshot.shape_of(task), self._snapshot.tasks.records[task]
        keys = self._keys_of(shape, record.claims)
        needs = {key: need for key in keys.values() if (need := self._need(key)) is not None}
        by_name, nodes = self._extended_needs(shape)
        if by_name and nodes[node]:
            needs[self._own_key(task)] = by_name[0]
        return needs

    def _own_key(self, task: int) -> str:
        """The claim that stands for what the pod asks for by name: the one that was made when it
        was bound, or one that is only in the bind request yet.
        """
        tasks = self._snapshot.tasks
        uid = tasks.records[task].uid
        made = self._made.get(uid) if IS_ACTIVE_ALLOCATED[tasks.status[task]] else None
        return made or f"pod:{uid}"

    def _keys(self, shape: Shape) -> dict[str, str]:
        """The claims of the shape by entry; those made per pod are shown by one of the pods."""
        references = shape.constraints.claims
        claims: Mapping[str, str] = {}
        if any(not reference.name for reference in references):
            if shape.row not in self._specimens:
                same = np.flatnonzero(self._snapshot.tasks.shape == shape.row)
                self._specimens[shape.row] = int(same[0]) if len(same) else -1
            specimen = self._specimens[shape.row]
            claims = self._snapshot.tasks.records[specimen].claims if specimen >= 0 else {}
        return self._keys_of(shape, claims)

    def _keys_of(self, shape: Shape, claims: Mapping[str, str]) -> dict[str, str]:
        """The claims by entry of a pod whose own claims are these."""
        named = {r.entry: r.name or claims.get(r.entry, "") for r in shape.constraints.claims}
        return {entry: f"{shape.constraints.namespace}/{name}" for entry, name in named.items()}

    def _need(self, key: str) -> ClaimNeed | None:
        claim = self._around.device_claims.get(key)
        if claim is None:
            return None
        try:
            return claim_need(claim.spec.devices, self._around.device_classes)
        except NoSuchClass:
            return None

    def _extended_needs(self, shape: Shape) -> tuple[tuple[ClaimNeed, ...], Bools]:
        known = self._needs.get(shape.row)
        if known is None:
            known = self._needs[shape.row] = self._extended.needs(shape)
        return known

    def _rows_with_claims(self) -> Iterable[int]:
        concerned = np.fromiter(
            (
                bool(s.constraints.claims) or bool(self._extended_needs(s)[0])
                for s in self._snapshot.shapes
            ),
            np.bool_,
        )
        tasks = self._snapshot.tasks
        return np.flatnonzero(tasks.live & concerned[tasks.shape]).tolist()

    def _details(self, task: int | None, bind: Bind) -> Mapping[str, object]:
        if task is None:
            return {}
        shape, record = self._snapshot.shape_of(task), self._snapshot.tasks.records[task]
        details: dict[str, object] = {}
        keys = self._keys_of(shape, record.claims)
        if keys:
            details["resourceClaimAllocations"] = claim_allocations(
                self._book, keys, self._around, bind.node
            )
        own = self._book.allocation(self._own_key(task))
        if own:
            asks = list(self._extended.asks(shape))
            details["extendedResourceClaimAllocation"] = extended_allocation(
                self._book.pool, own, asks, self._around, bind.node
            )
        return details
