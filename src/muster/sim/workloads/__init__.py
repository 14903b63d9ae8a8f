"""Kubernetes' own controllers, the useful ones; off beside a real kube-controller-manager."""
