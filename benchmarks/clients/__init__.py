"""The same work by our client and by others, each in a process of its own."""
