"""Devices by claims (DRA): KAI's `dynamicresources`."""
