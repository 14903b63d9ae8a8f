"""Enough of the Kubernetes API to run controllers unmodified."""
