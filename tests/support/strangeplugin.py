"""An installed plugin that cannot be made, in a directory that is put on the path."""

from __future__ import annotations

from pathlib import Path

_SOURCE = """\
import attrs, reput

@attrs.define(eq=False)
class StrangePlugin(reput.Plugin):
    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass
"""


def install_strange_plugin(directory: Path) -> Path:
    """Install the plugin ``strange``, whose class has no ``config``.

    Returns:
        The directory, to be put on the path.
    """
    about = directory / "strange_plugin-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-plugin\nVersion: 1.0\n")
    entry = "[reput.plugins]\nstrange = strange_plugin:StrangePlugin\n"
    (about / "entry_points.txt").write_text(entry)
    (directory / "strange_plugin.py").write_text(_SOURCE)
    return directory
