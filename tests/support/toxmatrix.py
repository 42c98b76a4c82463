"""What tox.ini says of each environment of the matrix: names with braces and factors worked out."""

from __future__ import annotations

import configparser
import itertools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FACTORS = re.compile(r"([\w{},!-]+): (.+)")
_OUTSIDE_OF_BRACES = r"(?![^{]*\})"


class ToxIni:
    """The file, read once."""

    def __init__(self, path=ROOT / "tox.ini"):
        self._parser = configparser.ConfigParser(interpolation=None)
        self._parser.read(path, encoding="utf-8")

    def environments(self):
        """Names of all environments of the matrix."""
        return spread(self._parser["tox"]["env_list"])

    def lines(self, environment, setting):
        """Lines of a setting that hold for an environment, in order."""
        section = f"testenv:{environment}"
        own = section in self._parser and setting in self._parser[section]
        text = self._parser[section if own else "testenv"].get(setting, "")
        found = []
        for line in filter(None, text.splitlines()):
            conditional = _FACTORS.fullmatch(line)
            if line.startswith("#") or (
                conditional and not _holds(conditional[1], set(environment.split("-")))
            ):
                continue
            found.append(conditional[2] if conditional else line)
        return found

    def variables(self, environment):
        """Environment variables that are set, without what the caller may override them with."""
        lines = self.lines(environment, "set_env")
        pairs = (line.split(" = ", 1) for line in lines if " = " in line)
        return {name: re.sub(r"\{env:\w+:(.*)\}", r"\1", value) for name, value in pairs}


def spread(text):
    """Names of a list of tox's, with braces worked out: ``{a,b}-c`` gives ``a-c`` and ``b-c``."""
    names = []
    for name in re.split(rf"[,\n]+{_OUTSIDE_OF_BRACES}", text):
        if name and not name.startswith("#"):
            parts = re.split(r"\{(.*?)\}", name)
            choices = [part.split(",") if at % 2 else [part] for at, part in enumerate(parts)]
            names += map("".join, itertools.product(*choices))
    return names


def _holds(condition, factors):
    """Whether a line with that condition holds for an environment of these factors."""
    return any(
        all((part[1:] not in factors) if part[0] == "!" else part in factors for part in parts)
        for parts in (name.split("-") for name in spread(condition))
    )
