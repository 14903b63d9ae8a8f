"""What built-in kinds may hold, as object -> causes, in Kubernetes' words. Pure."""
