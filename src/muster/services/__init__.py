"""One package per process. They meet only in the API server and never import each other."""
