"""Statement: checkpoint, rollback, commit into the plan."""
