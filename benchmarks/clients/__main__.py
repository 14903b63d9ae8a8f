"""One client does one piece of work; the only line printed says what it cost.

python -m benchmarks.clients {ours,official} {list,watch,bind} KUBECONFIG COUNT
"""

import importlib
import json
import resource
import sys
import time
from pathlib import Path


def main() -> None:
    client, work, kubeconfig, count = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.clients.{client}")
    before_mb, cpu_before_s = _resident_mb(), time.process_time()
    start = time.perf_counter()
    done = getattr(module, f"{work}_pods")(Path(kubeconfig), int(count))
    figures = {
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_s": round(time.process_time() - cpu_before_s, 3),
        "peak_mb": round(_peak_mb() - before_mb),
    }
    if done != int(count):
        sys.exit(f"{client} {work}: {done} of {count}")
    print(json.dumps(figures))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak_mb() -> float:
    # Not getrusage: its peak begins with what the parent process held when it started us.
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak_kb,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak_kb) / 1024


main()
