"""Stdlib only; nothing in here knows what a pod is."""
