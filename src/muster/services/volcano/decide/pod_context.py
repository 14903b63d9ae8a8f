"""What plugins of jobs have in common: arguments, the names of pods, and changes of their spec."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.api.volcano_batch import Job, TaskSpec
from muster.base.parse_int import parse_int
from muster.services.volcano.decide.members import pod_name

Json = dict[str, Any]

_TRUE: Final = ("", "1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class PodContext:
    """Which pod of which job."""

    job: Job
    task: TaskSpec
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """Those of one plugin, as programs take them: `--flag=value`, `--flag value`, `--switch`."""

    given: tuple[str, ...]

    def text(self, flag: str, otherwise: str = "") -> str:
        for value, following in self._of(flag):
            return following if value is None else value
        return otherwise

    def switch(self, flag: str, otherwise: bool = False) -> bool:
        for value, _ in self._of(flag):
            if (value or "") in _TRUE + _FALSE:
                return (value or "") in _TRUE
        return otherwise

    def number(self, flag: str, otherwise: int, most: int) -> int:
        number = parse_int(self.text(flag))
        return number if number is not None and 0 < number <= most else otherwise

    def port(self, flag: str, otherwise: int) -> int:
        return self.number(flag, otherwise, _PORT_MAX)

    def _of(self, flag: str) -> Iterator[tuple[str | None, str]]:
        """What stands behind the flag: in the same argument (None: nothing), and in the next."""
        for at, each in enumerate(self.given):
            if each in (f"-{flag}", f"--{flag}"):
                yield None, self.given[at + 1] if at + 1 < len(self.given) else ""
            elif each.startswith((f"-{flag}=", f"--{flag}=")):
                yield each.partition("=")[2], ""


def arguments(job: Job, plugin: str) -> Arguments:
    return Arguments(job.spec.plugins.get(plugin, ()))


def task_named(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def hosts(job: Job, task: TaskSpec) -> list[str]:
    """The names under which the pods of a task find each other. A template that names a host says
    it of all of its pods, so there is one.
    """
    host, base = _said(task, "hostname"), _said(task, "subdomain") or job.metadata.name
    if host:
        return [f"{host}.{base}"] if task.replicas else []
    return [f"{pod_name(job, task, index)}.{base}" for index in range(task.replicas)]


def first_host(job: Job, task: TaskSpec) -> str:
    """The name of the first pod, also of a task that has none yet."""
    host = _said(task, "hostname") or pod_name(job, task, 0)
    return f"{host}.{_said(task, 'subdomain') or job.metadata.name}"


def _said(task: TaskSpec, field: str) -> str:
    said = (task.template.get("spec") or {}).get(field)
    return said if isinstance(said, str) else ""


def set_variables(spec: Json, values: Mapping[str, str]) -> None:
    add_variables(spec, [{"name": name, "value": value} for name, value in values.items()])


def add_variables(spec: Json, variables: Sequence[Json]) -> None:
    """To every container that does not set them itself."""
    for container in all_containers(spec):
        given = container.get("env") or []
        named = {one.get("name") for one in given}
        added = [dict(one) for one in variables if one["name"] not in named]
        if added:
            container["env"] = [*given, *added]


def open_port(containers: Iterable[Json], name: str, port: int) -> None:
    """Of every container that has not opened it itself."""
    for container in containers:
        given = container.get("ports") or []
        if all(one.get("containerPort") != port for one in given):
            container["ports"] = [*given, {"name": name, "containerPort": port}]


def mount(spec: Json, volume: Json, folder: str, below: str = "") -> None:
    """A volume, or what is below a path of it, in every container."""
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    where = {"name": volume["name"], "mountPath": folder}
    for container in all_containers(spec):
        mounts = container.get("volumeMounts") or ()
        added = {**where, "subPath": below} if below else where
        container["volumeMounts"] = [*mounts, added]


def all_containers(spec: Json) -> Iterable[Json]:
    return (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
