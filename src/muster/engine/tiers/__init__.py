"""The rules of Volcano and kube-batch: plugins in tiers, on the tables of the engine."""
