"""A real Prometheus (marker `prometheus`): with a history that a test wrote, or scraping pages.

The programs are Debian's `prometheus` and its `promtool`; `make test` installs them where it may.
"""

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from muster.lab.programs import Guard, ManagedProgram, free_ports

_READY_WITHIN_S = 120.0


def why_no_prometheus() -> str | None:
    """Why there is none on this machine; None: there is one."""
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"no {' and no '.join(missing)} (apt-get install prometheus)" if missing else None


@dataclass(frozen=True, slots=True)
class Series:
    """A series of a history: labels, and (seconds, value) in the order of time."""

    name: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]]


@contextmanager
def prometheus_with(history: Sequence[Series], folder: Path) -> Iterator[str]:
    """The address of a server that has recorded this."""
    data = folder / "data"
    text = folder / "history.txt"
    text.write_text(_open_metrics(history))
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)],
        check=True,
        capture_output=True,
    )
    with _running(folder, data, "scrape_configs: []\n") as address:
        yield address


@contextmanager
def prometheus_scraping(folder: Path, targets: Path) -> Iterator[str]:
    """The address of a server that reads pages every second; `targets` is a file of file_sd."""
    config = (
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        "- job_name: queue-controller\n"
        f"  file_sd_configs: [{{files: ['{targets}'], refresh_interval: 1s}}]\n"
    )
    with _running(folder, folder / "data", config) as address:
        yield address


@contextmanager
def _running(folder: Path, data: Path, config: str) -> Iterator[str]:
    (folder / "prometheus.yml").write_text(config)
    (port,) = free_ports(1)
    guard = Guard()
    program = ManagedProgram(
        "prometheus",
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        folder / "prometheus.log",
        guard,
    )
    program.start()
    address = f"http://127.0.0.1:{port}"
    try:
        _until_ready(program, address)
        yield address
    finally:
        program.kill()
        guard.close()


def _until_ready(program: ManagedProgram, address: str) -> None:
    until_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < until_s:
        program.require_running()
        with suppress(OSError), urllib.request.urlopen(f"{address}/-/ready", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise AssertionError(f"Prometheus is not ready: {program.log_tail()}")


def _open_metrics(history: Sequence[Series]) -> str:
    lines = []
    for name in sorted({one.name for one in history}):
        lines.append(f"# TYPE {name} gauge")
        for one in history:
            if one.name == name:
                labels = ",".join(f'{key}="{text}"' for key, text in one.labels.items())
                lines += [f"{name}{{{labels}}} {value!r} {at_s:.3f}" for at_s, value in one.samples]
    return "\n".join([*lines, "# EOF", ""])
