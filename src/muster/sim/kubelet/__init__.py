"""Fake nodes: pod and node life cycles as data."""
