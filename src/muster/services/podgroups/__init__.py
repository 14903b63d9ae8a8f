"""PodGroup controller. Watches pods, PodGroups. Writes PodGroup status."""
