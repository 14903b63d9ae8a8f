"""Whether a manifest would be let in, as far as that can be said without sending it.

Asked are the API server's own rules for built-in kinds, and what our webhooks change and refuse in
pods. Not asked are the schemas of other kinds, quotas, who may create what, and the webhooks of
others: a plan is made by a process that may write nothing, not even to try.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.services.admission.mutate import Mutated, mutate_pod
from muster.services.admission.review import AdmissionResponse, Review
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.validate_pods import validate_pod
from muster.services.admission.validate_queues import NO_QUEUES, Queues
from muster.services.admission.validate_workloads import validate_workload
from muster.sim.apiserver import dry_run

Object = Mapping[str, Any]
_SUFFIX: Final = "planned"
"""In place of the letters that tell config maps of pods apart."""


@dataclass(frozen=True, slots=True)
class Rules:
    """By what our webhooks judge."""

    settings: AdmissionSettings = field(
        # Whether GPUs may be shared is a flag of a process that we cannot ask: nothing is refused
        # that would be let in.
        default_factory=lambda: AdmissionSettings(gpu_sharing=True)
    )
    queues: Queues = field(default_factory=lambda: NO_QUEUES)
    namespaces: Container[str] | None = None
    """Those that there are; None: it is not known."""


@dataclass(slots=True)
class Door:
    """What is wrong with a submission, said once for equal pods."""

    rules: Rules
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def takes(self, manifest: Object) -> None:
        """What was written."""
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        objections = [f"{name}: {text}" for text in dry_run.objections_to(dict(manifest))]
        self.problems += objections
        if objections:  # No webhook is asked about what the API server cannot read.
            return
        namespace = manifest["metadata"]["namespace"]
        self._say(name, validate_workload(Review("CREATE", manifest, None, namespace)))

    def has_room_for(self, manifest: Object, coming: Container[str]) -> None:
        """Whether the namespace is there; `coming`: those that are submitted with it."""
        there, namespace = self.rules.namespaces, manifest["metadata"]["namespace"]
        if there is not None and namespace not in there and namespace not in coming:
            self.problems.append(
                f"{manifest['kind']} {manifest['metadata']['name']}: there is no namespace "
                f"{namespace}: create it, or name another"
            )

    def pod(self, pod: Object, top: Object) -> Object:
        """A pod that comes of it, as it would be stored."""
        namespace, name = pod["metadata"]["namespace"], f"pod {pod['metadata']['name']}"
        changed = mutate_pod(Review("CREATE", pod, None, namespace), self.rules.settings, _SUFFIX)
        if not isinstance(changed, Mutated):
            self._say(name, changed)
            return pod
        stored = changed.pod
        if self._is_new(pod):
            # Templates of built-in kinds were looked at with what they stand in.
            if not dry_run.is_builtin(dict(top)):
                found = dry_run.objections_to({**stored, "apiVersion": "v1", "kind": "Pod"})
                self.problems += [f"{name}: {text}" for text in found]
            review = Review("CREATE", stored, None, namespace)
            self._say(name, AdmissionResponse((), changed.warnings))
            self._say(name, validate_pod(review, self.rules.settings, self.rules.queues))
        return stored

    def _is_new(self, pod: Object) -> bool:
        """Whether it is unlike those before it in more than its name."""
        metadata = pod["metadata"]
        key = (id(pod["spec"]), str((metadata.get("labels"), metadata.get("annotations"))))
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _say(self, name: str, answer: AdmissionResponse) -> None:
        self.problems += [f"{name}: {problem.told}" for problem in answer.problems]
        self.warnings += [f"{name}: {text}" for text in answer.warnings]
