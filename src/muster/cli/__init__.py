"""muster <noun> <verb>."""
