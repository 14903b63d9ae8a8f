"""The machine that looks for what goes wrong: whole clusters on virtual time, drawn from a seed."""
