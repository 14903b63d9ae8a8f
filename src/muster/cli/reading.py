"""What commands that read have in common: their flags, their forms, and watching.

A command is a function from a `Reading` and its own flags to an `Answer`; `reading` makes of it
what typer calls, with the flags that all of them take.
"""

import inspect
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from muster.api.group_names import for_people, in_one_line
from muster.base.clock import SystemClock
from muster.cli.asking import NOTHING, NoAnswer, Source
from muster.cli.failing import failed
from muster.cli.following import News, follow
from muster.cli.screen import Places, Screen, wait_or_quit
from muster.cli.spinner import busy
from muster.cli.tables import (
    FORMS,
    BadColumn,
    Column,
    Row,
    chosen,
    ordered,
    programs_form,
    table_lines,
    wrapped,
)
from muster.web.frame import Frame

EVERY_S: Final = 2.0
_UNTOLD_S: Final = 30.0
_COLOURS: Final = ("auto", "always", "never")
_COMMON_PANEL: Final = "Flags of all such commands"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found out."""

    listed: Mapping[str, Any]
    """The object of `-o json`; its `items` are the rows."""
    columns: Sequence[Column] = ()
    name: str = "name"
    """The field that names a row."""
    page: Callable[[], list[str]] | None = None
    """Lines in place of the table."""
    notes: Sequence[str] = ()
    """What is said beside it: on stderr, and on a terminal."""
    code: int = 0
    is_ordered: bool = False
    """Whether `--sort-by` was obeyed already."""


@dataclass(slots=True)
class Reading:
    """One run of a command: whom it asks, and how the answer is wanted."""

    command: str
    source: Source
    form: str = "table"
    columns: str = ""
    sort_by: str = ""
    headers: bool = True
    watches: bool = False
    every_s: float = EVERY_S
    colours: bool = False

    def ask(self, path: str, query: Mapping[str, str] = NOTHING, body: bytes = b"") -> Any:
        """The answer of /api/v1/PATH, or the end of the command with what is wrong."""
        try:
            return self._asked(path, query, body)
        except NoAnswer as problem:
            raise self.failed(problem) from None

    def try_ask(self, path: str, query: Mapping[str, str] = NOTHING) -> Any | None:
        """The answer, or None where there is none."""
        try:
            return self._asked(path, query)
        except NoAnswer:
            return None

    def amiss(self, path: str) -> str:
        """What is wrong with a question whose answer is not needed; "": nothing is."""
        try:
            self._asked(path, NOTHING)
        except NoAnswer as problem:
            return str(problem)
        return ""

    def one(
        self,
        kind: str,
        item: Mapping[str, Any],
        page: Callable[[], list[str]],
        name: str = "name",
        code: int = 0,
    ) -> Answer:
        """One thing on a page."""
        listed = self._frame().listed(kind, [item])
        return Answer(listed, _fields(item), name, page, code=code)

    def _frame(self) -> Frame:
        """Of what was just asked. Only programs read it."""
        found = None if self.is_for_people else self.try_ask("status")
        return Frame() if found is None else Frame(found["cluster"], found["at"], found["rev"])

    def _asked(self, path: str, query: Mapping[str, str], body: bytes = b"") -> Any:
        """What is watched is on the screen already: nothing is said beside it."""
        if self.watches:
            return self.source.ask(path, query, body)
        with busy(self.source.doing.what) as self.source.doing:
            return self.source.ask(path, query, body)

    def failed(self, problem: object) -> typer.Exit:
        return failed(self.command, problem, self.source.called)

    @property
    def is_for_people(self) -> bool:
        return self.form in ("table", "wide")

    @property
    def is_wide(self) -> bool:
        return self.form == "wide"


Body = Callable[..., Answer]


def reading(body: Body) -> Callable[..., None]:
    """The command of a function `body(reading, its own flags)`."""
    own = list(inspect.signature(body).parameters.values())[1:]
    required = [one for one in own if one.default is one.empty]
    others = [one for one in own if one.default is not one.empty]

    def command(**given: Any) -> None:
        flags = {name: given.pop(name) for name in _NAMES}
        run(_reading_of(body.__name__, flags), partial(body, **given))

    parameters = [*required, *others, *_COMMON]
    command.__name__, command.__doc__ = body.__name__, body.__doc__
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def run(asked: Reading, body: Callable[[Reading], Answer]) -> None:
    """Ask and print, once or again and again; ends with the code of the answer."""
    try:
        if asked.watches:
            _watch(asked, body)
            return
        answer = body(asked)
        _print(_lines(asked, answer, _rows(asked, answer)))
        for note in answer.notes:
            typer.echo(for_people(note, asked.source.called), err=True)
    except BadColumn as problem:
        raise asked.failed(problem) from None
    if answer.code:
        raise typer.Exit(answer.code)


def _reading_of(command: str, given: Mapping[str, Any]) -> Reading:
    form = given["output"]
    if form not in FORMS:
        raise typer.BadParameter(f"-o {form}: write {', '.join(FORMS)}")
    source = Source(
        given["kubeconfig"],
        given["server"],
        given["scheduler_conf"],
        given["request_timeout"],
        context=given["context"],
        act_as=given["act_as"],
        token_file=given["token_file"],
    )
    return Reading(
        command,
        source,
        form,
        given["columns"],
        given["sort_by"],
        not given["no_headers"],
        given["watch"],
        colours=wants_colours(given["color"]),
    )


def _rows(asked: Reading, answer: Answer) -> Sequence[Row]:
    rows: Sequence[Row] = answer.listed["items"]
    if asked.sort_by and not answer.is_ordered:
        return ordered(rows, answer.columns, asked.sort_by)
    return rows


def _lines(asked: Reading, answer: Answer, rows: Sequence[Row]) -> list[str]:
    columns = chosen(asked.columns) if asked.columns else answer.columns
    if not asked.is_for_people:
        text = programs_form(asked.form, answer.listed, rows, columns, answer.name, asked.headers)
        return text.split("\n") if text else []
    width = 0 if asked.is_wide else _width()
    called = asked.source.called
    if answer.page is not None and not asked.columns:
        people = partial(in_one_line, called=called)
        return [row for line in answer.page() for row in wrapped(people(line), width)]
    shown = [one for one in columns if asked.is_wide or asked.columns or not one.is_wide]
    # Without rows there is a sentence in place of a table.
    if not rows:
        return []
    is_raw = bool(asked.columns)
    return table_lines(
        shown, rows, asked.headers, width, asked.colours, is_raw=is_raw, called=called
    )


def _watch(asked: Reading, body: Callable[[Reading], Answer]) -> None:
    """Until Ctrl-C. On a terminal in place; else what is new, so that it can be piped."""
    is_drawn = sys.stdout.isatty() and asked.is_for_people
    places, before = None, list[str]()
    screen = Screen(0, 0, asked.colours)
    clock, news = SystemClock(), _followed(asked)
    while True:
        answer = body(asked)
        if asked.form == "json":
            lines = [_one_line(answer, _rows(asked, answer))]
        elif answer.page is not None or not is_drawn:
            lines = _lines(asked, answer, _rows(asked, answer))
        screen.width, screen.height = shutil.get_terminal_size()  # people pull at windows
        if is_drawn and answer.page is None:
            places = places or Places(answer.name)
            rows = places.arrange(_rows(asked, answer), clock.monotonic_s())
            lines = _lines(asked, answer, [row for row, _ in rows])
            first = int(asked.headers)
            gone = frozenset(at + first for at, (_, is_gone) in enumerate(rows) if is_gone)
            screen.draw([*lines, *answer.notes], gone)
        elif is_drawn:
            screen.draw([*lines, *answer.notes])
        elif lines != before:
            known = frozenset(before)
            _print(line for line in lines if line not in known)
            before = lines
        # Who follows is told; a look now and then finds what a broken stream has not told.
        if wait_or_quit(_UNTOLD_S if news else asked.every_s, news):
            return
        asked.source.forget()


def _followed(asked: Reading) -> News | None:
    """News of the server; None: the cluster itself is read, again and again, or at a pace of its
    own."""
    source = asked.source
    if not source.named_server or asked.every_s != EVERY_S:
        return None
    news = News()
    follow(source.named_server, source.token_file, news)
    return news


def _one_line(answer: Answer, rows: Sequence[Row]) -> str:
    return msgspec.json.encode({**answer.listed, "items": list(rows)}).decode()


def _print(lines: Any) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _width() -> int:
    """Of the terminal; 0 where there is none: then nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def wants_colours(wanted: str) -> bool:
    """`--color`; of itself only on a terminal that is not told otherwise (no-color.org)."""
    if wanted not in _COLOURS:
        raise typer.BadParameter(f"--color {wanted}: write {', '.join(_COLOURS)}")
    if wanted != "auto":
        return wanted == "always"
    is_dumb = os.environ.get("TERM", "") == "dumb"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and not is_dumb


def _fields(item: Mapping[str, Any]) -> list[Column]:
    """Every field of a thing, for CSV."""
    return chosen(",".join(item))


def option(
    name: str, kind: Any, help: str, default: Any, *flags: str, **more: Any
) -> inspect.Parameter:
    """A flag that several commands have."""
    annotation = Annotated[
        kind, typer.Option(*flags, help=help, rich_help_panel=_COMMON_PANEL, **more)
    ]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


ACCESS: Final = (
    option(
        "kubeconfig",
        Path | None,
        "The cluster; without it KUBECONFIG or ~/.kube/config.",
        None,
    ),
    option("context", str, "Of the kubeconfig.", ""),
    option("act_as", str, "Act as this user.", "", "--as"),
)
"""Flags that say which cluster, and as whom."""
SERVER: Final = (
    option("server", str, "Ask this muster web (http://host:port); or MUSTER_SERVER.", ""),
    option("token_file", Path | None, "With the token for --server.", None),
)
"""Flags that say who is asked in its place."""
_COMMON: Final = (
    option("output", str, f"{', '.join(FORMS)}.", "table", "--output", "-o"),
    option("columns", str, "Fields of the JSON, as columns: key,gpus.asked.", ""),
    option("sort_by", str, "A column or field; - before it: descending.", ""),
    option("watch", bool, "Again and again, in place.", False, "--watch", "-w"),
    option("color", str, f"{', '.join(_COLOURS)}; or NO_COLOR.", "auto"),
    option("no_headers", bool, "Rows only.", False, "--no-headers"),
    *SERVER,
    *ACCESS,
    option("scheduler_conf", Path | None, "The scheduler's configuration file.", None),
    option("request_timeout", float, "Seconds to wait for an answer.", 60.0),
)
_NAMES: Final = tuple(one.name for one in _COMMON)


Selector = Annotated[
    str, typer.Option("--selector", "-l", help="With these labels: app=x,tier!=web,!old.")
]
"""kubectl's flag, of commands that list."""


def context_namespace(source: Source) -> str:
    """Of the kubeconfig's context; "": there is none, as where only a server is named."""
    from muster.client.errors import BadAccess
    from muster.client.kubeconfig import load_access

    try:
        access = load_access(
            SystemClock(), os.environ, path=source.kubeconfig, context=source.context
        )
    except BadAccess:
        return ""
    return access.namespace
