"""The manifest, ``<store>/reput/manifest.json``: a store's plugins, configuration and role."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError
from reput.files.filenames import OWN_DIRECTORY
from reput.files.jsonfiles import object_of

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

__all__ = ["Manifest"]

_NAME: Final = "manifest.json"
_FORMAT: Final = 1


@attrs.frozen
class Manifest:
    """Plugins and options of the last writer."""

    plugins: tuple[str, ...]
    """Names, sorted."""
    config: Mapping[str, Mapping[str, Any]]
    """Sections by name, with the options that were given."""
    master: str | None = None
    """Name of the master of a replica; None for a store that takes puts."""

    @staticmethod
    def path(root: str) -> str:
        """Return the path of a store's manifest."""
        return os.path.join(root, OWN_DIRECTORY, _NAME)

    @classmethod
    def load(cls, root: str, disk: Disk) -> Manifest | None:
        """Read the manifest; None if it does not exist (a store that RocketMQ wrote).

        Raises:
            CorruptFileError: the file is not as reput writes it.
        """
        path = cls.path(root)
        text = disk.read_if_exists(path)
        if text is None:
            return None
        try:
            data = object_of(text)
            version, plugins, config = data["format"], data["plugins"], data["config"]
            master = data.get("master")
        except (ValueError, KeyError) as error:
            raise CorruptFileError(
                path, 0, f"no manifest: {error}; remove it to name the plugins again"
            ) from None
        if version != _FORMAT:
            raise CorruptFileError(
                path, 0, f"format {version}; this release reads format {_FORMAT}"
            )
        if not (
            isinstance(plugins, list)
            and {*map(type, plugins)} <= {str}
            and isinstance(config, dict)
            and {*map(type, config.values())} <= {dict}
        ):
            raise CorruptFileError(
                path, 0, "plugins must be a list of names, config a table of tables"
            )
        if master is not None and not isinstance(master, str):
            raise CorruptFileError(path, 0, "master must be a name")
        return cls(tuple(plugins), config, master)

    def save(self, root: str, disk: Disk) -> None:
        """Replace the file atomically and durably."""
        data = {"format": _FORMAT, "plugins": sorted(self.plugins), "config": self.config}
        if self.master is not None:
            data["master"] = self.master
        text = json.dumps(data, indent=2, sort_keys=True) + "\n"
        disk.replace(self.path(root), text.encode())
