"""Which pods of a sub-group start first, and are evicted last: leaders, then by label.

Three of KAI's plugins: `kubeflow` (masters and launchers lead), `ray` (the head leads), `taskorder`
(by the task-priority label: labelled pods first, larger numbers first, nonsense last).
"""

from collections.abc import Callable, Mapping

import numpy as np

from muster.api import names
from muster.api.selectors import integer
from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.numerics.arrays import Floats, Rows

Labels = Mapping[str, str]
Key = Callable[[Labels], tuple[float, ...]]


def kubeflow_key(labels: Labels) -> tuple[float, ...]:
    """Masters and launchers first."""
    return (0.0 if labels.get(names.LABEL_KUBEFLOW_ROLE) in ("master", "launcher") else 1.0,)


def ray_key(labels: Labels) -> tuple[float, ...]:
    """The head first."""
    return (0.0 if labels.get(names.LABEL_RAY_NODE_TYPE) == "head" else 1.0,)


def label_key(labels: Labels) -> tuple[float, ...]:
    """By the label's number, larger first; then pods without it; then those with nonsense."""
    text = labels.get(names.LABEL_TASK_PRIORITY)
    if text is None:
        return (1.0, 0.0)
    number = integer(text)
    return (2.0, 0.0) if number is None else (0.0, -float(number))


class _TaskOrder(WithoutArguments):
    """A plugin that orders tasks by something in their labels."""

    key: Key

    def open(self, view: View) -> SessionPlugin:
        return _ByLabels(view, type(self).key)


class Kubeflow(_TaskOrder):
    """KAI's `kubeflow`."""

    name = "kubeflow"
    key = staticmethod(kubeflow_key)


class Ray(_TaskOrder):
    """KAI's `ray`."""

    name = "ray"
    key = staticmethod(ray_key)


class TaskPriority(_TaskOrder):
    """KAI's `taskorder`."""

    name = "taskorder"
    key = staticmethod(label_key)


class _ByLabels(SessionPlugin):
    def __init__(self, view: View, key: Key) -> None:
        self._records = view.snapshot.tasks.records
        self._key = key
        self._unlabelled = key({})

    def task_keys(self, tasks: Rows) -> Floats:
        keys = np.empty((len(tasks), len(self._unlabelled)))
        keys[:] = self._unlabelled
        for index, task in enumerate(tasks.tolist()):
            labels = self._records[task].labels
            if labels:
                keys[index] = self._key(labels)
        return keys
