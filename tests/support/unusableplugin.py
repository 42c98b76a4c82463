"""An installed plugin whose class cannot be called, in a directory for the import path."""

from __future__ import annotations

from pathlib import Path

_SOURCE = """\
import attrs, reput

@attrs.define(eq=False)
class UnusablePlugin(reput.Plugin):
    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass
"""


def install_unusable_plugin(directory: Path) -> Path:
    """Install the plugin ``unusable``, whose class has no ``config``.

    Returns:
        The directory, to be put on the path.
    """
    about = directory / "unusable_plugin-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: unusable-plugin\nVersion: 1.0\n")
    entry = "[reput.plugins]\nunusable = unusable_plugin:UnusablePlugin\n"
    (about / "entry_points.txt").write_text(entry)
    (directory / "unusable_plugin.py").write_text(_SOURCE)
    return directory
