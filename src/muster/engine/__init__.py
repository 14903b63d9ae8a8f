"""Snapshot in, plan out. No I/O, no clock, no threads."""
