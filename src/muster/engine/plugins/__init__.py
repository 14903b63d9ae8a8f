"""One file per plugin: a class that implements hooks. Plugins never import each other."""
