"""muster: a Kubernetes scheduler for batch and AI work."""

__version__ = "0.1.0"
