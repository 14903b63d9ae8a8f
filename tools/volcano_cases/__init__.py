"""Volcano's own table tests, run through the engine."""
