"""Filters that consumer groups have registered: their file, their bits, reads that use them.

This package keeps what each group wants of a topic, and matches bit maps with it. It must know
neither the grammar of conditions nor the plugin's hooks.
"""
