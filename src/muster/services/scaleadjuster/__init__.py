"""Watches unschedulable pods that share GPUs. Writes scaling pods, which autoscalers understand."""
