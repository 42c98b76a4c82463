"""Files about a store's plugins that outlast an opening, in the store's directory ``reput``.

This package knows these files and their formats. It must not know the running plugins.
"""

from __future__ import annotations
