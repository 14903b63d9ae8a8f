"""What commands that change something have in common: their flags, whom they ask, and how they say
what was done and how to undo it.

Whoever runs these acts with the rights of their own kubeconfig; nothing goes through a server of
ours.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import msgspec
import typer

from muster.api.group_names import for_people
from muster.cli.asking import Source
from muster.cli.completing import named
from muster.cli.naming import JOB_HELP, NAMESPACE_HELP
from muster.cli.objects import CannotChange, Cluster, over_connection
from muster.cli.reading import ACCESS, SERVER, Reading, option
from muster.cli.tables import Column, programs_form
from muster.web.frame import Frame

T = TypeVar("T")
_FORMS: Final = ("text", "json", "yaml", "name")

Jobs = Annotated[list[str], typer.Argument(help=JOB_HELP, autocompletion=named("jobs"))]
Job = Annotated[str, typer.Argument(help=JOB_HELP, autocompletion=named("jobs"))]


class Trial(StrEnum):
    """What a dry run asks of the API server."""

    NONE = ""
    CLIENT = "client"
    """Nothing: only what would be done is said."""
    SERVER = "server"
    """Whether it would agree, and it keeps nothing."""


def _trial(text: str) -> Trial:
    if text not in tuple(Trial):
        raise typer.BadParameter(f"{text}: write client or server")
    return Trial(text)


DryRun = Annotated[
    Trial,
    typer.Option(
        "--dry-run",
        parser=_trial,
        metavar="client|server",
        help="Only say what would be done; server: and whether the API server agrees.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


class Done(msgspec.Struct, frozen=True):
    """What a command did, or by a dry run would have done, to one job."""

    did: str
    job: str
    objects: tuple[str, ...] = ()
    """What was made or deleted: KIND NAME."""
    undo: str = ""
    dry_run: bool = False
    place: Mapping[str, int] | None = None
    """Where it stands among those that wait: at, of."""
    start: str | None = None
    """When it is expected to start, where somebody knows."""


@dataclass(slots=True)
class Acting:
    """One run of a command that changes something."""

    reading: Reading
    namespace: str
    form: str

    @property
    def source(self) -> Source:
        return self.reading.source

    def tell(self, items: Sequence[Done], lines: Sequence[str]) -> None:
        """For people these lines, for programs the same as one object."""
        if self.form == "text":
            typer.echo(for_people("\n".join(lines), self.source.called))
            return
        rows = [msgspec.to_builtins(one) for one in items]
        listed = Frame().listed("DoneList", rows)
        typer.echo(programs_form(self.form, listed, rows, list[Column](), "job"))

    def change(self, act: Callable[[Cluster], Awaitable[T]], trial: Trial = Trial.NONE) -> T:
        """Over a connection of its own, in the name of whoever asks."""
        from muster.client.errors import ApiError, BadAccess, Unreachable

        try:
            return over_connection(self.source, act, trial is Trial.SERVER)
        except (ApiError, BadAccess, CannotChange, Unreachable) as problem:
            raise self.reading.failed(problem) from None

    def would(self, trial: Trial) -> str:
        """Before what was done, where it was not."""
        return "would be " if trial else ""

    def confirm(self, question: str, yes: bool) -> None:
        """Asks on a terminal; a script says --yes."""
        if yes:
            return
        question = for_people(question, self.source.called)
        if not sys.stdin.isatty():
            raise self.reading.failed(f"{question} Nobody is there to ask: write --yes.")
        if not typer.confirm(question):
            typer.echo("Nothing was done.", err=True)
            raise typer.Exit(1)


def acting(body: Callable[..., None]) -> Callable[..., None]:
    """The command of a function `body(acting, its own flags)`."""
    own = list(inspect.signature(body).parameters.values())[1:]
    required = [one for one in own if one.default is one.empty]
    others = [one for one in own if one.default is not one.empty]

    def command(**given: Any) -> None:
        common = {name: given.pop(name) for name in _NAMES}
        form = common["output"]
        if form not in _FORMS:
            raise typer.BadParameter(f"-o {form}: write {', '.join(_FORMS)}")
        source = Source(
            common["kubeconfig"],
            common["server"],
            context=common["context"],
            act_as=common["act_as"],
            token_file=common["token_file"],
        )
        body(Acting(Reading(body.__name__, source), common["namespace"], form), **given)

    parameters = [*required, *others, *_COMMON]
    command.__name__, command.__doc__ = body.__name__, body.__doc__
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


_COMMON: Final = (
    option("output", str, f"{', '.join(_FORMS)}.", "text", "--output", "-o"),
    option(
        "namespace", str, NAMESPACE_HELP, "", "--namespace", "-n",
        autocompletion=named("namespaces"),
    ),
    *SERVER,
    *ACCESS,
)  # fmt: skip
_NAMES: Final = tuple(one.name for one in _COMMON)
