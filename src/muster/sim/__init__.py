"""A Kubernetes API server and kubelets in this process. Knows nothing of our scheduler."""
