"""A service as a command: a table of flags in, a function for typer out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from muster.api.meta import Key
from muster.cli.pages import PAGE_ADDRESSES, PageSettings
from muster.cli.serving import Process, serve
from muster.runtime.supervisor import Supervisor

Given = Mapping[str, Any]
"""What the flags say, by their keys in the table."""
_FROM_FIELD = object()


@dataclass(frozen=True, slots=True)
class Flag:
    """A row of a service's table. What it takes is what its default is: a text, a number, ..."""

    name: str
    help: str = ""
    default: Any = _FROM_FIELD
    """By default what the field holds; None: a file that may be left out."""
    read: Callable[[Any, str], Any] | None = None
    """From what is written (and the flag's name) to the value; raises BadParameter."""
    least: int | None = None
    short: str = ""

    def parameter(self, key: str, fields: Mapping[str, Any]) -> Parameter:
        """As typer wants it."""
        default = fields[key] if self.default is _FROM_FIELD else self.default
        if self.read is not None and not isinstance(default, int):
            default = str(default or "")
        kind: Any = Path | None if default is None else type(default)
        names = (self.short, self.name) if self.short else (self.name,)
        if kind is bool:
            names = (f"{self.name}/--no-{self.name.removeprefix('--')}",)
        option = Annotated[kind, typer.Option(*names, min=self.least, help=self.help or None)]
        return Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=option)

    def value(self, written: Any) -> Any:
        return self.read(written, self.name) if self.read is not None else written


class Wiring(Protocol):
    """A service's module of that name."""

    def build(self, supervisor: Supervisor, config: Any) -> object: ...


def _unchanged(config: Any, given: Given) -> Any:
    return config


class Service:
    """One command. Flags stand under the names of the fields that they set.

    Fields are those of `Process`, of `config` and of what is in `config`. What belongs to none of
    them, or to several at once, is for `finished` to put into the configuration.
    """

    def __init__(
        self,
        name: str,
        help: str,
        wiring: Wiring,
        config: Any,
        lease: str | Callable[[Given], str] = "",
        finished: Callable[[Any, Given], Any] = _unchanged,
        /,
        **flags: Flag,
    ) -> None:
        self.name = name
        self._help = help
        self.wiring = wiring
        self._config = config
        self._lease = lease
        self._finished = finished
        self.flags = flags

    def command(self) -> Callable[..., None]:
        """A function with a parameter for each flag."""

        def run(**written: Any) -> None:
            self._run({key: flag.value(written[key]) for key, flag in self.flags.items()})

        fields = _fields(_process(self.name)) | _fields(self._config)
        parameters = [flag.parameter(key, fields) for key, flag in self.flags.items()]
        run.__doc__ = self._help
        run.__dict__["__signature__"] = Signature(parameters)
        return run

    def configured(self, given: Given) -> tuple[Process, Any]:
        """What the flags make of the process and of the service's configuration."""
        lease = None
        if given.get("leader_elect"):
            name = self._lease if isinstance(self._lease, str) else self._lease(given)
            lease = Key(given["namespace"], name)
        process = _with_fields(replace(_process(self.name), lease=lease), given)
        return process, self._finished(_with_fields(self._config, given), given)

    def _run(self, given: Given) -> None:
        process, config = self.configured(given)
        serve(process, lambda supervisor: self.wiring.build(supervisor, config))


def _process(name: str) -> Process:
    return Process(name, pages=PageSettings(PAGE_ADDRESSES.get(name, PageSettings().listen)))


def _fields(config: Any) -> dict[str, Any]:
    """By name, with those of the configurations in it."""
    found: dict[str, Any] = {}
    for field in fields(config) if is_dataclass(config) else ():
        found[field.name] = value = getattr(config, field.name)
        found |= _fields(value)
    return found


def _with_fields(config: Any, values: Mapping[str, Any]) -> Any:
    """The same with other values, wherever in it a field has that name."""
    if not is_dataclass(config) or isinstance(config, type):
        return config
    changed = {
        field.name: values.get(field.name, _with_fields(getattr(config, field.name), values))
        for field in fields(config)
    }
    return replace(config, **changed)
