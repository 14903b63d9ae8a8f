"""What the image is: where things are in it, who runs it and how. The Dockerfile says the same."""

from pathlib import PurePosixPath
from typing import Final

HOME: Final = PurePosixPath("/opt/muster")
"""Python, its packages, ours among them, and the compiled kernels."""
USER: Final = 65532
ENTRYPOINT: Final = ("muster",)
ENVIRONMENT: Final = {
    "PATH": f"{HOME}/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
    "PYTHONDONTWRITEBYTECODE": "1",
    # Kernels that were compiled on one machine are used on any other of its architecture.
    "NUMBA_CPU_NAME": "generic",
    # The root is read-only; numba wants to write beside what it reads.
    "NUMBA_CACHE_DIR": "/tmp/numba",
    "MUSTER_KERNELS": f"{HOME}/kernels",
}
EPOCH_S: Final = 1_577_836_800
"""The time of every file, so that the same sources make the same image."""
