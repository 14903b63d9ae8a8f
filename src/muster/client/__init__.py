"""A small asynchronous Kubernetes client and informers."""
