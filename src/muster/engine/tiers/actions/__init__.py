"""One file per verb; each is execute(session) -> None."""
