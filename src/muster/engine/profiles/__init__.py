"""Ready policies as data: actions, plugins, arguments."""
