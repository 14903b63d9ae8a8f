"""Past usage from Prometheus, over its HTTP API."""

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from muster.base.clock import Clock
from muster.base.json_text import parse_json
from muster.client.credentials import Credentials, FixedCredentials, TokenFile
from muster.client.errors import BadAccess, Unreachable
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import Access
from muster.client.transport import Request, Transport
from muster.model.usage import QueueUsage, UsageDatabase, UtilisationSettings
from muster.usage import promql
from muster.usage.source import SHARE_MAX, NoUsage
from muster.usage.windows import window_start_s

_SAID_MAX: Final = 300
Series = list[tuple[Mapping[str, str], float]]
"""Labels and values of an answer."""


class Prometheus:
    """Asks one server."""

    def __init__(self, transport: Transport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout_s = timeout_s

    async def vector(self, expression: str, at_s: float) -> Series:
        """An instant query. Raises `NoUsage`."""
        body = urlencode({"query": expression, "time": f"{at_s:.3f}"}).encode()
        headers = {"content-type": "application/x-www-form-urlencoded"}
        request = Request("POST", "/api/v1/query", headers=headers, body=body)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._transport.send(request, self._timeout_s)
                try:
                    answer = await response.read()
                finally:
                    await response.close()
        except TimeoutError:
            raise NoUsage(f"Prometheus did not answer within {self._timeout_s:g} s") from None
        except (Unreachable, BadAccess) as error:
            raise NoUsage(f"Prometheus cannot be asked: {error}") from None
        return _series(response.status, answer)

    async def close(self) -> None:
        await self._transport.close()


class PrometheusUsage:
    """A `Source`: the window is folded where the samples are."""

    def __init__(self, prometheus: Prometheus, database: UsageDatabase, prefix: str) -> None:
        self._prometheus = prometheus
        self._database = database
        self._prefix = prefix

    async def read(self, now_s: float) -> QueueUsage:
        length_s = now_s - window_start_s(self._database.window, now_s)
        if length_s <= 0:
            return QueueUsage(now_s)  # The first window has not begun.
        questions = [
            self._asked(question, name, now_s, length_s)
            for question in (promql.there_over_window, promql.held_over_window)
            for name in promql.ALLOCATION
        ]
        answers = await asyncio.gather(*questions)
        names, count = list(promql.ALLOCATION), len(promql.ALLOCATION)
        there = {name: _only(answer) for name, answer in zip(names, answers[:count], strict=True)}
        if not any(there.values()):
            raise NoUsage(await self._what_is_missing(now_s))
        by_queue: dict[str, dict[str, float]] = {}
        for name, answer in zip(names, answers[count:], strict=True):
            for queue, held in _by_queue(answer, name).items():
                share = min(held / there[name], SHARE_MAX) if there[name] > 0 else 0.0
                by_queue.setdefault(queue, {})[name] = share
        return QueueUsage(now_s, by_queue)

    async def close(self) -> None:
        await self._prometheus.close()

    async def _asked(self, question: Any, name: str, now_s: float, length_s: float) -> Series:
        expression = question(name, self._database, self._prefix, now_s)
        asked = promql.window_sum(expression, length_s, self._database.resolution_s)
        return await self._prometheus.vector(asked, now_s)

    async def _what_is_missing(self, now_s: float) -> str:
        """Which of the two sides has no samples, so that somebody can mend it."""
        one_of = partial(promql.window_sum, length_s=3600.0, resolution_s=60.0)
        queues = one_of(promql.allocation("cpu", self._database, self._prefix))
        if not await self._prometheus.vector(queues, now_s):
            return (
                "Prometheus has no samples of queues: see that it scrapes the queue controller "
                f"({self._prefix}_{promql.ALLOCATION['cpu']})"
            )
        return (
            "Prometheus has no samples of the cluster's capacity at the times that it knows of "
            f"queues: see that it scrapes the queue controller ({self._prefix}_"
            f"{promql.CAPACITY['cpu']}) or kube-state-metrics (kube_node_status_capacity)"
        )


def prometheus_at(
    address: str, database: UsageDatabase | UtilisationSettings, clock: Clock
) -> Prometheus:
    """The server of a configuration. Raises `NoUsage` where a file of it cannot be read."""
    credentials: Credentials = FixedCredentials()
    if database.token_file:
        credentials = TokenFile(Path(database.token_file), clock)
    try:
        authority = Path(database.ca_file).read_bytes() if database.ca_file else b""
    except OSError as error:
        raise NoUsage(f"caFile {database.ca_file} cannot be read: {error.strerror}") from None
    access = Access(address.rstrip("/"), credentials, ca=authority, context="Prometheus")
    return Prometheus(HttpsTransport(access, clock), database.query_timeout_s)


def _series(status: int, answer: bytes) -> Series:
    try:
        said = parse_json(answer)
        if said["status"] != "success":
            raise NoUsage(f"Prometheus refused: {str(said.get('error'))[:_SAID_MAX]}")
        found = [(one["metric"], float(one["value"][1])) for one in said["data"]["result"]]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        shown = answer[:_SAID_MAX].decode(errors="replace")
        raise NoUsage(f"this is no answer of Prometheus: {status}: {shown}") from None
    return [(labels, value) for labels, value in found if math.isfinite(value)]


def _only(answer: Series) -> float:
    return sum(value for _, value in answer)


def _by_queue(answer: Series, resource: str) -> dict[str, float]:
    found = {}
    for labels, value in answer:
        queue = labels.get(promql.QUEUE_LABEL)
        if not queue:
            raise NoUsage(
                f"{resource}AllocationMetric: its series have no label {promql.QUEUE_LABEL}; "
                "give an expression that has one"
            )
        found[queue] = max(value, 0.0)
    return found
