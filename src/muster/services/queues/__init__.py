"""Queue controller. Watches PodGroups, Queues. Writes Queue status."""
