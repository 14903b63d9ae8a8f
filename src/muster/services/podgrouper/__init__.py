"""Watches pods. Writes PodGroups."""
