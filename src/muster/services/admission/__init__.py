"""Webhooks for pods, queues, pod groups and topologies. Writes nothing."""
