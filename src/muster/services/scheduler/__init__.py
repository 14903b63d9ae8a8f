"""Watches pods, nodes, queues, pod groups. Writes BindRequests, evictions, conditions."""
