"""The commands: a module each, imported when the command is called."""
