"""Lazy queue, job and task order, by key columns."""
