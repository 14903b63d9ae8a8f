"""What was estimated, and how good it was: a record that outlives the process, in SQLite.

An estimate of a job is kept at most every ten minutes, and judged when the job is seen to have
started. What was withheld because its class was bad is kept too: otherwise no class got better.
Bounded: the newest judged ones stay, and open ones end with their job or after a week.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from muster.base.database_file import IN_MEMORY, DatabaseFile
from muster.foresight.calibration import Calibration, Judged, calibration_of, triple
from muster.foresight.runtimes import PastRun
from muster.foresight.when import Estimate
from muster.model.snapshot import ClusterSnapshot

FILE: Final = "estimates.db"
FORMAT: Final = 1
_EVERY_S: Final = 600.0
_OPEN_S: Final = 7 * 86400.0
_JUDGED_MAX: Final = 20_000
_OPEN_MAX: Final = 50_000
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS open (id INTEGER PRIMARY KEY, job TEXT, at_s REAL, body BLOB)",
    "CREATE TABLE IF NOT EXISTS judged (id INTEGER PRIMARY KEY, started_s REAL, body BLOB)",
    "CREATE INDEX IF NOT EXISTS open_job ON open (job, at_s)",
)


class EstimateLog:
    """For the one process that estimates; without a path it is kept in memory. What reads or
    writes raises sqlite3.Error where the file fails, and then has changed nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Raises `BadFile` where the file cannot be used."""
        self._database = DatabaseFile(
            path or IN_MEMORY, _SCHEMA, FORMAT, what="the record of estimates", instead="another"
        )

    def close(self) -> None:
        self._database.close()

    def calibration(self) -> Calibration:
        rows = self._database.execute("SELECT body FROM judged ORDER BY started_s, id")
        return calibration_of(msgspec.json.decode(body, type=Judged) for (body,) in rows)

    def keep(self, drawn: Iterable[Estimate], calibration: Calibration, now_s: float) -> None:
        """Estimates that were made, before anything follows from earlier ones."""
        found = self._database.execute("SELECT job, max(at_s) FROM open GROUP BY job")
        newest: dict[str, float] = dict(found.fetchall())
        rows = []
        for one in drawn:
            if one.latest_s is not None and now_s - newest.get(one.job, 0.0) >= _EVERY_S:
                said = calibration.widened(one, now_s)
                judged = Judged(one.of, now_s, 0.0, triple(said), triple(one))
                rows.append((one.job, now_s, msgspec.json.encode(judged)))
        with self._database.transaction():
            self._database.executemany("INSERT INTO open VALUES (NULL, ?, ?, ?)", rows)
            self._database.execute("DELETE FROM open WHERE at_s < ?", (now_s - _OPEN_S,))
            self._trim("open", _OPEN_MAX)

    def judge(self, snapshot: ClusterSnapshot, runs: Iterable[PastRun] = ()) -> None:
        """Whoever has started by now shows how good was what was said of it; `runs` are those that
        ended since.
        """
        starts = {run.job.key: run.started_s for run in runs}
        starts |= {
            job.key: job.last_start_s for job in snapshot.jobs.records if job and job.last_start_s
        }
        rows = self._database.execute("SELECT id, job, at_s, body FROM open").fetchall()
        with self._database.transaction():
            for number, job, at_s, body in rows:
                started_s = starts.get(job, -1.0)
                if started_s >= at_s:
                    self._settle(number, started_s, body)
            self._trim("judged", _JUDGED_MAX)

    def _settle(self, number: int, started_s: float, body: bytes) -> None:
        plain = {**msgspec.json.decode(body), "started_s": started_s}
        self._database.execute(
            "INSERT INTO judged VALUES (NULL, ?, ?)", (started_s, msgspec.json.encode(plain))
        )
        self._database.execute("DELETE FROM open WHERE id = ?", (number,))

    def _trim(self, table: str, most: int) -> None:
        self._database.execute(
            f"DELETE FROM {table} WHERE id <= (SELECT max(id) FROM {table}) - ?", (most,)
        )
