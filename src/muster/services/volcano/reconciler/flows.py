"""Flows and their templates: read, decide, write."""

from contextlib import suppress
from dataclasses import dataclass

from muster.api.kinds import VOLCANO_JOB, VOLCANO_JOB_FLOW, VOLCANO_JOB_TEMPLATE
from muster.api.meta import Key
from muster.api.volcano_batch import Job
from muster.api.volcano_flow import CREATED_BY_TEMPLATE, JobFlow, JobTemplate
from muster.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.client.events import Recorder, reference_to
from muster.client.informer import Index, Informer
from muster.client.write import Deletion, Propagation, Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.volcano.decide import flows
from muster.services.volcano.decide.job_status import Why


@dataclass(slots=True)
class JobFlowReconciler:
    """Makes the jobs of a flow whose turn has come."""

    _flows: Informer[JobFlow]
    _templates: Informer[JobTemplate]
    _jobs: Informer[Job]
    _jobs_of: Index[Job, Key]
    _writer: Writer
    _recorder: Recorder | None = None

    async def reconcile(self, key: Key) -> Result:
        flow = self._flows.get(key)
        if flow is None or flow.metadata.deletion_timestamp is not None:
            return DONE
        decision = flows.decide(self._view(flow))
        for body in decision.create:
            try:
                with suppress(AlreadyExists):
                    await self._writer.create(VOLCANO_JOB, body, key.namespace)
            except ApiError as error:
                if error.is_passing:
                    raise
                why = f"job {body['metadata']['name']}: {error}"
                self._tell(flow, Why("FailedCreate", why, is_warning=True))
        if decision.status is not None:
            version = {"metadata": {"resourceVersion": flow.metadata.resource_version}}
            patch = {**decision.status, **version}
            await self._writer.patch(VOLCANO_JOB_FLOW, key, patch, subresource="status")
        for gone, uid in decision.delete:
            deletion = Deletion(uid=uid, propagation=Propagation.BACKGROUND)
            with suppress(NotFound, Conflict):
                await self._writer.delete(VOLCANO_JOB, gone, deletion)
        if decision.event is not None:
            self._tell(flow, decision.event)
        return DONE

    def _view(self, flow: JobFlow) -> flows.FlowView:
        namespace = flow.metadata.namespace
        mine = [
            job
            for job in self._jobs_of.get(flow.key)
            if (owner := job.metadata.controller) is not None and owner.uid == flow.metadata.uid
        ]
        own = {job.metadata.name for job in mine}
        names = {flows.job_name(flow, step.name) for step in flow.spec.flows} - own
        found = {
            step.name: self._templates.get(Key(namespace, step.name)) for step in flow.spec.flows
        }
        return flows.FlowView(
            flow,
            mine,
            {name: one for name, one in found.items() if one is not None},
            frozenset(name for name in names if self._jobs.get(Key(namespace, name)) is not None),
        )

    def _tell(self, flow: JobFlow, why: Why) -> None:
        if self._recorder is not None:
            self._recorder.warning(reference_to(VOLCANO_JOB_FLOW, flow), why.reason, why.message)


@dataclass(slots=True)
class JobTemplateReconciler:
    """Says on a template which jobs were made from it."""

    _templates: Informer[JobTemplate]
    _jobs_from: Index[Job, Key]
    _writer: Writer

    async def reconcile(self, key: Key) -> Result:
        template = self._templates.get(key)
        if template is None or template.metadata.deletion_timestamp is not None:
            return DONE
        names = tuple(sorted(job.metadata.name for job in self._jobs_from.get(key)))
        if names != template.status.job_depends_on_list:
            patch = {"status": {"jobDependsOnList": list(names)}}
            await self._writer.patch(VOLCANO_JOB_TEMPLATE, key, patch, subresource="status")
        return DONE


def flow_of(job: Job) -> tuple[Key, ...]:
    owner = job.metadata.controller
    is_flow = owner is not None and owner.kind == "JobFlow"
    return (Key(job.metadata.namespace, owner.name),) if owner is not None and is_flow else ()


def template_of(job: Job) -> tuple[Key, ...]:
    namespace, _, name = job.metadata.annotations.get(CREATED_BY_TEMPLATE, "").partition(".")
    return (Key(namespace, name),) if name and namespace == job.metadata.namespace else ()


def templates_of(flow: JobFlow) -> tuple[Key, ...]:
    return tuple(Key(flow.metadata.namespace, step.name) for step in flow.spec.flows)
