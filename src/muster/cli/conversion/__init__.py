"""Objects and conf of Volcano and kube-batch as native ones, and what has no counterpart. Pure."""
