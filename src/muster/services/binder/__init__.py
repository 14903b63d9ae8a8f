"""Watches BindRequests. Writes bindings, reservations, claims."""
