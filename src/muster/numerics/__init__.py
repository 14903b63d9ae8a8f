"""Arrays in, arrays out. numpy and numba and nothing else: no pods, no logging, no clock."""
