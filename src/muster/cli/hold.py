"""muster hold: what a pod runs that is there only to ask for resources."""

import signal


def hold() -> None:
    """Do nothing until told to end: what scaling pods run."""
    # The first process of a container is not ended by signals that it does not handle.
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
