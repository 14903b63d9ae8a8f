"""Watches pods, nodes, queues, pod groups. Writes BindRequests, bindings, evictions, conditions."""
