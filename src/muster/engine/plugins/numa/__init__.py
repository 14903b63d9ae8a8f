"""Which nodes can align a pod to their NUMA zones: KAI's `numa`."""
