"""One pure function per workload kind: a pod and its owners in, the PodGroup it belongs to out."""
