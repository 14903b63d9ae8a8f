"""muster top: all of it, live."""

import sys
from typing import Annotated

import typer

from muster.cli.jobs import with_places
from muster.cli.moments import now_s
from muster.cli.past import event_text
from muster.cli.people import status_lines
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import age, amount


@reading
def top(
    asked: Reading,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
) -> Answer:
    """All of it, live: status, who is owed, who waits, what happened. q ends."""
    asked.every_s = every
    asked.watches = asked.watches or sys.stdout.isatty()
    status = asked.ask("status")
    listed = asked.ask("jobs", {"state": "waiting", "sort": "-created", "limit": "8"})
    queues = asked.ask("queues")["items"]
    told = asked.try_ask("history", {"limit": "6"})
    owed = [one for one in queues if one["stands"]["kind"] == "owed" and one["leaf"]]

    def page() -> list[str]:
        lines = status_lines(asked, status)
        lines += ["", "OWED"] if owed else []
        for one in sorted(owed, key=lambda one: (-one["stands"]["gpus"], one["name"]))[:6]:
            gpu = one["gpu"]
            held = f"{amount(gpu['used'])} of {amount(gpu['share'])} GPUs"
            lines.append(f"  {one['name']:<24} {held}")
        lines += ["", "NEWEST THAT WAIT"] if listed["items"] else []
        for job in with_places(asked, listed["items"]):
            code = job["reason"]["code"] if job["reason"] else "not tried yet"
            waited = age(now_s() - job["created"])
            lines.append(f"  {job['key']:<40} {job['queue']:<16} {waited:>7}  {code}")
        lines += ["", "NEWEST EVENTS"] if told and told["items"] else []
        for event in told["items"] if told else ():
            lines.append(f"  {event['job']:<40} {event_text(event)}")
        return lines

    return asked.one("Status", status, page, "cluster")
