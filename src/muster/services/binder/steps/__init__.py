"""One kind of preparation each: what is still to do for a pod, and how to undo it."""
