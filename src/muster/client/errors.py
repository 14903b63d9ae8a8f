"""What an API server can say no with, as types."""


class ApiError(Exception):
    """The server answered, and the answer was no."""


class Unreachable(Exception):
    """No answer came back: refused, reset, timed out, or a certificate that does not verify."""
