"""Queue controller. Watches PodGroups, Queues, nodes. Writes Queue status; keeps past usage."""
