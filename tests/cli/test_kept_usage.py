"""muster usage on a cluster whose queue controller keeps usage there: no file, no server."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.client import client_of
from tests.support.lab import CONFIG_MAP
from tests.support.laptop import Laptop, laptop
from tests.support.moments import moment_of
from tests.support.served_web import Fixed

from muster.api.names import DEFAULT
from muster.base.clock import SystemClock
from muster.base.log import Log, MemorySink
from muster.cli.observing import Look
from muster.cli.serving import Process, connected
from muster.lab.hosting import NAMESPACE, ensure
from muster.numerics.axis import QUEUE_WIDTH
from muster.testing import make
from muster.usage.accrual import DAY_S, AccountKey, AccountSums
from muster.usage.cluster_copy import map_body, map_of
from muster.usage.days import DayUsage
from muster.usage.source import NoUsage

NOW_S = SystemClock().now_s()
TODAY = int(NOW_S // DAY_S)


def look(at: Laptop) -> Look:
    records = make.cluster()
    process = Process("cli", at.kubeconfig)

    def connect() -> Any:
        return connected(process, SystemClock(), Log("cli", MemorySink()))

    observed: Any = Fixed(records)
    return Look(moment_of(records), observed, connect, DEFAULT.namespace)


async def keep(at: Laptop, day: int, gpu_hours: float) -> None:
    account = (AccountKey(day, "llm", "ann", "team/train"), AccountSums(gpu_s=gpu_hours * 3600))
    usage = DayUsage(day, day * DAY_S + 1.0, [""], [], np.zeros((0, QUEUE_WIDTH, 1)), [account])
    name = map_of(day)
    async with client_of(at.kubeconfig) as client:
        await ensure(client.writer, NAMESPACE, {"metadata": {"name": DEFAULT.namespace}})
        body = {"apiVersion": "v1", "kind": "ConfigMap", **map_body(usage, name)}
        await client.writer.create(CONFIG_MAP, body, DEFAULT.namespace)


def test_accounts_are_read_from_the_cluster_itself(tmp_path: Path) -> None:
    with laptop(tmp_path, nodes=1) as at:

        async def story() -> None:
            with pytest.raises(NoUsage, match="--usage-in-cluster"):
                await look(at).answer("usage", {"by": "queue"})
            await keep(at, TODAY - 1, 3.0)
            await keep(at, TODAY, 4.0)
            found = await look(at).answer("usage", {"by": "queue,user"})
            (line,) = found["items"]
            assert (line.queue, line.user, line.gpu_hours) == ("llm", "ann", 7.0)

        asyncio.run(story())
