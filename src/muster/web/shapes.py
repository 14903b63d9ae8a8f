"""What the HTTP API answers with. Fields are only ever added."""

import msgspec


class Amounts(msgspec.Struct, frozen=True):
    """Of one resource, in whole units: GPUs, cores, bytes. None: nothing bounds it."""

    quota: float | None
    share: float | None
    used: float
    limit: float | None
    asked: float
    weight: float
    non_preemptible: float
    past: float | None = None
    """The part of the cluster that it held in the window of past usage; None: no past counts."""


class Standing(msgspec.Struct, frozen=True):
    """How a queue stands against its share: "owed", "borrows" or "even", and by how many GPUs."""

    kind: str
    gpus: float


class JobCounts(msgspec.Struct, frozen=True):
    running: int
    waiting: int


class MinRuntime(msgspec.Struct, frozen=True):
    """How long jobs of a queue run undisturbed; None: as the queue above says."""

    reclaim_s: float | None
    preempt_s: float | None


class Queue(msgspec.Struct, frozen=True):
    name: str
    parent: str
    depth: int
    leaf: bool
    priority: int
    gpu: Amounts
    cpu: Amounts
    memory: Amounts
    stands: Standing
    jobs: JobCounts
    reasons: dict[str, int]
    min_runtime: MinRuntime


class Reason(msgspec.Struct, frozen=True):
    """Why a job waits. `category` is broken, never, policy, now or soon."""

    code: str
    category: str
    message: str
    subject: str
    next: str


class PodCounts(msgspec.Struct, frozen=True):
    running: int
    min: int
    max: int


class GpuCounts(msgspec.Struct, frozen=True):
    asked: float
    held: float


class Job(msgspec.Struct, frozen=True):
    """Times are seconds since 1970."""

    key: str
    kind: str
    known_as: tuple[str, ...]
    """KIND/NAME of what people submitted, where the key does not tell it."""
    queue: str
    user: str
    state: str
    priority: int
    preemptible: bool
    pods: PodCounts
    gpus: GpuCounts
    shape: int
    reason: Reason | None
    created: float
    started: float | None
    nodes: int


class Pod(msgspec.Struct, frozen=True):
    name: str
    node: str
    gpus: float
    state: str


class JobPage(msgspec.Struct, frozen=True):
    job: Job
    pods: tuple[Pod, ...]
    reasons: tuple[Reason, ...]
    no_eviction_because: tuple[Reason, ...]


class Shape(msgspec.Struct, frozen=True):
    """Waiting work of which every pod asks for the same."""

    id: int
    jobs: int
    pods: int
    each: dict[str, float]
    queues: tuple[str, ...]
    asked: float
    reason: str
    oldest: float


class Holder(msgspec.Struct, frozen=True):
    job: str
    part: float


class Device(msgspec.Struct, frozen=True):
    holders: tuple[Holder, ...]


class Node(msgspec.Struct, frozen=True):
    name: str
    state: str
    rack: str
    gpus: int
    used: float
    free: float
    devices: tuple[Device, ...]
    pool: str = ""
    gpu: str = ""
    """Which GPUs, as their vendor's labels call them."""
    since: float | None = None
    """When it was closed to work; None: it is open, or nobody knows."""


class Map(msgspec.Struct, frozen=True):
    """Every GPU: `gpu` has `per` cells for each node, row by row, and in a cell the number of its
    job in `jobs`; 0: free, -1: no device. `shared` lists the cells that several jobs hold.
    """

    rev: int
    per: int
    nodes: tuple[str, ...]
    rack: tuple[int, ...]
    racks: tuple[str, ...]
    state: tuple[str, ...]
    gpu: tuple[int, ...]
    shared: tuple[int, ...]
    jobs: tuple[str, ...]
    queues: tuple[str, ...]
    """The queue of each job."""


class Gpus(msgspec.Struct, frozen=True):
    """`shared`: what is left of GPUs of which somebody holds a part."""

    all: float
    used: float
    free: float
    out: float
    shared: float = 0.0


class Fits(msgspec.Struct, frozen=True):
    """The most free GPUs on one node, in one rack, in all."""

    node: float
    rack: float
    all: float
    node_name: str
    rack_name: str


class Waiting(msgspec.Struct, frozen=True):
    running: int
    waiting: int
    asked: float
    by_code: dict[str, int]
    by_category: dict[str, int]


class Owed(msgspec.Struct, frozen=True):
    queue: str
    gpus: float
    borrowers: tuple[str, ...]


class Trouble(msgspec.Struct, frozen=True):
    name: str
    state: str
    since: float | None = None


class Cycle(msgspec.Struct, frozen=True):
    number: int
    at: float
    took_ms: float


class Undone(msgspec.Struct, frozen=True):
    """Jobs that could start, by the same rules, and that nobody starts."""

    jobs: int
    since: float
    first: str


class Longest(msgspec.Struct, frozen=True):
    """The job that has waited longest."""

    job: str
    since: float


class Ailment(msgspec.Struct, frozen=True):
    """A part that does not do its work: "watch" or "binder", since when, and how it shows."""

    part: str
    since: float
    message: str


class Status(msgspec.Struct, frozen=True):
    cluster: str
    rev: int
    at: float
    gpus: Gpus
    fits: Fits
    jobs: Waiting
    owed: tuple[Owed, ...]
    nodes: tuple[Trouble, ...]
    cycle: Cycle
    longest: Longest | None = None
    undone: Undone | None = None
    ailments: tuple[Ailment, ...] = ()
    """What is wrong apart from what is shown; the stream tells it with each beat."""
