"""The plugin's commands of ``reput``; importing one imports neither the plugin nor numpy."""
