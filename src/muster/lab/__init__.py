"""Puts services and a world together in one process: the laptop cluster."""
