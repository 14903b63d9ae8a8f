"""The most of everything that users count, nest or refer by: each bound, and why it lies there.

A number in an object must never become a loop or an allocation of that size, and references that
users write may form chains and circles. Each bound is far above what anybody means and low enough
that all the work up to it is small. What lies beyond is refused, or said on the object that is over
it, with the field and what to write instead; everything else goes on.

Bounds that belong to one format stand with it: lengths of quantities and durations in their
modules, digits of whole numbers in `base.parse_int`.
"""

from typing import Final

OWNERS_MAX: Final = 32
"""Owners above a pod, nearest to top. Controllers that make objects for controllers stack five or
six high; every owner is one read of the API server."""

QUEUE_LEVELS_MAX: Final = 64
"""Queues from a root down to a leaf, both included. Companies have a dozen levels; the scheduler
keeps every queue's ancestors as a row of this width."""

SUB_GROUP_LEVELS_MAX: Final = 64
"""Sub-groups from the top of a pod group down: more are a circle, or somebody's joke."""

SEGMENTS_MAX: Final = 3_000
"""Leaves that the pod grouper cuts a workload into: segments of workers, replicas of jobs."""

SUB_GROUPS_MAX: Final = 4_000
"""Sub-groups of one pod group: as many leaves as there may be, and groups above them. Every one is
a row of the scheduler's tables, and is asked about whenever the group is."""

TOPOLOGY_LEVELS_MAX: Final = 16
"""Levels of a topology, as the CRD has it."""

NUMA_ZONES_MAX: Final = 64
"""NUMA zones of a node. A kubelet aligns at most 8 unless told otherwise; machines that show the
memory of their GPUs as zones have some dozens. Arrays of all nodes have the width of the widest."""

NUMA_CPUS_MAX: Final = 4_096
"""CPUs of a node that are told apart: four times what the largest machines have."""

CARDS_MAX: Final = 64
"""Cards of a node whose parts are given out: four times what the largest machines have."""

RESOURCES_PER_POD_MAX: Final = 64
"""Resources that one pod asks for by name. Each name that anybody asks for is a column of all nodes
and of all shapes of pods."""

RESOURCE_COLUMNS_MAX: Final = 512
"""Resources that are counted in all. What nodes offer is always counted; what no node offers is not
once there are so many: nobody can get it anyway."""

SPREAD_CONSTRAINTS_MAX: Final = 64
"""Topology spread constraints of one pod. People write two or three; each is weighed against all
nodes whenever something was placed."""

AFFINITY_TERMS_MAX: Final = 128
"""Terms of one pod about other pods: near them or away from them, required or preferred."""

NODE_TERMS_MAX: Final = 500
"""Expressions about nodes in one pod's node affinity. Each is a column over all nodes."""

SELECTOR_WORDS_MAX: Final = 5_000
"""Keys and values in all selectors of one pod: the names of all nodes of a large cluster are as
many. A pod of etcd's size has room for two hundred thousand, and every one is kept and compared."""

TOLERATIONS_MAX: Final = 1_000
"""Tolerations of one pod. Controllers add half a dozen."""

HOST_PORTS_MAX: Final = 1_000
"""Ports of the node that one pod wants. Ingress controllers want a few, game servers dozens."""

SHARED_GPUS_MAX: Final = 1024
"""GPUs of which one pod has a part, or that its claims share with others. Each gets a name, and the
largest nodes have dozens."""

SEARCHED_DEVICES_MAX: Final = 256
"""Devices of claims that are chosen one by one for a task. Each is a level deeper in the search, of
which Python has a thousand; eight claims as large as Kubernetes stores them are as many."""

CEL_LETTERS_MAX: Final = 10 * 1024
"""Letters of one CEL expression: Kubernetes' own bound for those that select devices."""

CEL_LEVELS_MAX: Final = 100
"""Levels of calls in calls of a CEL expression; `a || b || ...` is one, however many there are."""

CEL_COST_MAX: Final = 1_000_000
"""What one evaluation of a CEL expression may cost at most, in Kubernetes' units: its own bound for
selectors of devices, and for a rule of a CRD. Some tenths of a second at the worst."""

SELECTOR_COST_MAX: Final = 5_000_000
"""What one selector of a resource claim may cost over all devices that it can tell apart; where
these are very many, `SELECTOR_COST_PER_DEVICE` for each."""

SELECTOR_COST_PER_DEVICE: Final = 500
"""Comparing a few attributes costs some dozens."""

SELECTING_MAX: Final = 500_000
"""What the selectors of one namespace's claims that were not met before may cost in one cycle, in
Kubernetes' units: half a second at the worst. One that has begun is ended."""

SELECTING_OF_ALL_MAX: Final = 2_000_000
"""The same of all namespaces."""

SELECTIONS_KEPT_MAX: Final = 1024
"""Selections of devices that are remembered: anybody who may write a claim may write new ones."""

CEL_KEPT_LETTERS_MAX: Final = 1 << 20
"""Letters of all CEL expressions whose programs are kept: a program takes a hundred bytes for each,
and anybody who may write a claim may write ten thousand."""

GRACE_BELIEVED_MAX_S: Final = 3_600
"""How long a pod that was asked to leave is expected to, at most, whatever grace it was given. Then
its room is no longer waited for."""

REPLICAS_MAX: Final = 100
"""Replicas of one of our own services. Two or three are enough: of most of them one works and the
others wait, and all of them watch the whole cluster."""

COUNT_MAX: Final = 2**31 - 1
"""What Kubernetes has room for where it counts: replicas, members, priorities. The schemas of our
kinds say so too; an object that came past them must still fit the columns of the scheduler."""

YAML_VALUES_MAX: Final = 1_000_000
"""Values in a YAML text once its aliases stand for what they name. Ten lines of aliases of aliases
are thousands of millions."""

YAML_LEVELS_MAX: Final = 100
"""Levels of lists and maps in a YAML text; objects of Kubernetes have two dozen."""

JSON_LEVELS_MAX: Final = 200
"""Levels of lists and maps in an object that we read. Servers store up to ten thousand, where a
field may hold anything; what is deeper is nothing that we look at."""

VOLCANO_JOB_TASKS_MAX: Final = 1_000
"""Tasks of one Volcano Job. People write two or three; each is asked for its state in every look at
the job."""

VOLCANO_JOB_PODS_MAX: Final = 20_000
"""Pods of one Volcano Job. Their names are gone through whenever the job is looked at, and the
hosts of all of them stand in one config map, which etcd takes up to a megabyte of."""

VOLCANO_POLICIES_MAX: Final = 100
"""Lifecycle policies of a Volcano Job, and of each of its tasks."""

VOLCANO_JOB_VOLUMES_MAX: Final = 200
"""Volumes of one Volcano Job: each is in every container of every pod of it."""

VOLCANO_PLUGIN_ARGUMENTS_MAX: Final = 100
"""Arguments of one plugin of a Volcano Job: they are gone through for every pod."""

PODS_PER_WORKLOAD_MAX: Final = 10_000
"""Pods that one workload of the embedded cluster may have at a time: a laptop holds so many."""

JOB_INDEXES_MAX: Final = 1_000_000
"""Completed indexes of an indexed Job that the embedded cluster keeps track of."""

PATCH_COPIES_BYTES_MAX: Final = 3 << 20
"""What the `copy` operations of one JSON patch may copy in all: Kubernetes' own bound."""


def clamped(number: int) -> int:
    """A whole number within the counts of Kubernetes."""
    return max(-COUNT_MAX, min(COUNT_MAX, number))
