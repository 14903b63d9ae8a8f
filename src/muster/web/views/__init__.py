"""Pure functions from a Moment to what the API answers with. The command line uses the same."""
