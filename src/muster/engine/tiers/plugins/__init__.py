"""Plugins by the names that Volcano and kube-batch give them."""
