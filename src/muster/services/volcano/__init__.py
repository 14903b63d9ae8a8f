"""Volcano's controllers. Watches its Jobs, CronJobs, Commands, Queues; writes pods, PodGroups."""
