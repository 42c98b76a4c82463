"""The stores of the cases: each names its plugins and does not depend on what is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import reput

QUEUES = ("consumequeue",)
"""The plugins needed to read by topic and queue, and no more."""
_OTHERS = ("counter", "index")
"""Plugins that cases add to the large log, which they share."""
_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def open_store(path: Path | str, **options: Any) -> reput.Store:
    """Open a store of one case, with queues alone unless other plugins are given."""
    import reput

    plugins = options.pop("plugins", None)
    return reput.open(path, plugins=QUEUES if plugins is None else plugins, **options)


def open_large(
    path: Path, plugins: Sequence[Any] = QUEUES, mode: Literal["w", "r"] = "w"
) -> reput.Store:
    """Open the large log with these plugins, whatever plugins an earlier case used."""
    import reput

    names = [getattr(each, "name", each) for each in plugins]
    forgotten = [name for name in _OTHERS if name not in names] if mode == "w" else []
    return reput.open(path, mode=mode, plugins=plugins, forget=forgotten)


def example_plugin(path: str, name: str) -> Any:
    """Return a new plugin of an example that need not be installed.

    Args:
        path: of a module below ``examples/``.
        name: of the plugin's class in it.
    """
    spec = importlib.util.spec_from_file_location("example", _EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)()
