"""The contract for rebuilding a plugin's files, and for comparing them with rebuilt ones.

This room describes parts and answers. It must not build anything.
"""
