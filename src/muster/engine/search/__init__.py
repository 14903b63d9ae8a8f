"""What-if search shared by consolidate, reclaim and preempt."""
