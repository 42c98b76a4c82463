"""Makes the folder of a new plugin, out of the templates in ``reput_tools.cli/data/plugin``.

``examples/reput-counter`` is what they give for the name ``counter``. A plugin with files of its
own has those of ``data/plugin-files`` in place of templates with the same path, and besides them.
"""

from __future__ import annotations

import keyword
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_TEMPLATES: Final = Path(__file__).parents[1] / "data" / "plugin"
_FOR_FILES: Final = _TEMPLATES.with_name("plugin-files")
_SUFFIX: Final = ".template"


def check_name(name: str) -> str | None:
    """Return why a plugin cannot have this name; None if it can."""
    if not (name.isascii() and name.isidentifier() and name == name.lower()):
        return "a word of small letters, digits and _ is expected, as in my_words"
    if name.startswith("_") or keyword.iskeyword(name) or len(name) > 40:
        return "it names a package and a directory: no word of Python, no _ in front, 40 letters"
    if find_spec(f"reput_{name}") is not None or name in sys.stdlib_module_names:
        return f"the name is in use: a package reput_{name} exists, or a Python module {name}"
    return None


def render(name: str, *, files: bool = False) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file of the plugin ``name``, of a table or with own files."""
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Plugin"
    templates: dict[str, Path] = {}
    for folder in (_TEMPLATES, _FOR_FILES) if files else (_TEMPLATES,):
        for template in folder.rglob(f"*{_SUFFIX}"):
            templates[template.relative_to(folder).as_posix().removesuffix(_SUFFIX)] = template
    for path, template in sorted(templates.items()):
        text = template.read_text(encoding="utf-8")
        text = text.replace("{{name}}", name).replace("{{Class}}", class_name)
        yield path.replace("NAME", name), text


def create(name: str, directory: str, *, files: bool = False) -> list[str]:
    """Write the files of the plugin ``name`` into ``directory``, which must not exist.

    Returns:
        The paths of the files, relative to ``directory``.

    Raises:
        FileExistsError: there is something at ``directory``.
    """
    os.makedirs(directory)
    made = []
    for path, text in render(name, files=files):
        target = Path(directory, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        made.append(path)
    return made
