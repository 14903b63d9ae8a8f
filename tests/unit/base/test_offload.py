"""What a process does at its end with work that it gave to threads."""

import subprocess
import sys
import textwrap

_PROGRAM = """
import asyncio, threading
from muster.base.offload import in_thread

def work():
    begun.set()
    {work}

async def main():
    asyncio.ensure_future(in_thread(work))
    while not begun.is_set():
        await asyncio.sleep(0.001)

begun = threading.Event()
asyncio.run(main())
"""


def _said(work: str) -> str:
    program = _PROGRAM.format(work=textwrap.indent(work, "    ").strip())
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_work_that_is_almost_done_ends_before_its_process_does() -> None:
    """Compiled code must not outlive the interpreter."""
    assert _said("threading.Event().wait(0.3)\nprint('done', flush=True)") == "done\n"


def test_work_that_hangs_does_not_hold_the_process() -> None:
    assert _said("print('begun', flush=True)\nthreading.Event().wait()") == "begun\n"
