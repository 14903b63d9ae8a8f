"""What `kubectl get` shows of built-in kinds: an object and the time in, cells out. Pure."""
