"""The host's side of the contract: which plugins are there, which a store uses, what they offer.

`discovery` finds what is installed, `hooktable` checks one plugin's hooks and makes them
attributes, `pluginset` holds the plugins of one store in their order.
"""
