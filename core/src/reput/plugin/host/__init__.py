"""The host's side of the contract: which plugins are installed, used by a store, and what they do.

`discovery` finds what is installed, `hooktable` checks one plugin's hooks and makes them
attributes, `pluginset` holds the plugins of one store in their order.
"""
