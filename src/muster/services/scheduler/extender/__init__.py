"""Asks a server of the cluster's own, beside the cycles (Volcano's `extender`)."""
