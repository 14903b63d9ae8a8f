"""Session: snapshot, ledger, policy and now, for one cycle."""
