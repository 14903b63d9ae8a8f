"""Flows of Volcano's jobs: steps that exist once, and wait for others that exist."""

from typing import Final

from muster.api.bounds import VOLCANO_JOB_TASKS_MAX
from muster.api.validation.problems import (
    DNS_LABEL_MAX,
    Problem,
    Problems,
    is_dns_label,
    unlike,
    warning,
)
from muster.api.validation.volcano_jobs import circle
from muster.api.volcano_flow import DELETE, RETAIN, JobFlow

_STEPS_MAX: Final = VOLCANO_JOB_TASKS_MAX


def job_flow_problems(flow: JobFlow) -> Problems:
    steps = flow.spec.flows
    if len(steps) > _STEPS_MAX:
        message = f"{len(steps)} steps are more than {_STEPS_MAX}"
        yield Problem("spec.flows", message, "divide them into several flows")
        return
    if flow.spec.job_retain_policy:
        choices = (RETAIN, DELETE)
        yield from unlike("spec.jobRetainPolicy", flow.spec.job_retain_policy, choices)
    known = {step.name for step in steps}
    seen: set[str] = set()
    for index, step in enumerate(steps):
        path = f"spec.flows[{index}]"
        if step.name in seen:
            yield Problem(f"{path}.name", f"{step.name} stands twice", "give each step a template")
        seen.add(step.name)
        yield from _name_problems(flow, f"{path}.name", step.name)
        if step.patch is not None:
            yield warning(f"{path}.patch", "nobody reads it", "write another JobTemplate")
        if step.depends_on is None:
            continue
        if step.depends_on.probe is not None:
            fix = "a step begins when its targets are Completed"
            yield warning(f"{path}.dependsOn.probe", "nobody reads it", fix)
        for name in step.depends_on.targets:
            if name not in known:
                fix = "name another step of this flow"
                yield Problem(f"{path}.dependsOn.targets", f"there is no step {name}", fix)
    needs = {each.name: each.depends_on.targets for each in steps if each.depends_on is not None}
    if found := circle(needs):
        fix = "let one of them depend on none of the others"
        yield Problem("spec.flows", f"steps wait for each other: {' -> '.join(found)}", fix)


def _name_problems(flow: JobFlow, path: str, name: str) -> Problems:
    if not is_dns_label(name):
        fix = "use up to 63 lower-case letters, digits and -"
        yield Problem(path, f"{name!r} cannot be part of the name of a job", fix)
        return
    longest = f"{flow.metadata.name}-{name}"
    if len(longest) > DNS_LABEL_MAX:
        fix = f"shorten the names of flow and template by {len(longest) - DNS_LABEL_MAX}"
        yield Problem(path, f"its job would be called {longest}, {len(longest)} letters", fix)
