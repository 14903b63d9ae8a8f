"""Validation of built-in kinds, as object -> causes, with Kubernetes' messages. Pure."""
