"""muster scaling-pod: what a pod runs that is there only to ask for resources."""

import signal


def scaling_pod() -> None:
    """Inside a scaling pod: do nothing until told to end."""
    # The first process of a container is not ended by signals that it does not handle.
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
