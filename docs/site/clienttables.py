"""What works with which stock client, as tables: ``python docs/site/clienttables.py`` prints them.

The site has them where a page says ``<!-- clients -->`` and ``<!-- clients for release 5 -->``. A
row is a test in `tests/interop/clients`: its marker `scenario` or `scenario5` has the title of the
row and the clients with which the test runs. With ``no``, a marker names clients that have this
function, but fail.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from markdowntext import table

TESTS = Path(__file__).resolve().parents[2] / "tests"
FOLDER = TESTS / "interop" / "clients"


class Scenario(NamedTuple):
    """A test with stock clients, as its marker describes it."""

    title: str
    works: tuple[str, ...]
    """Names of clients: of one release as ``java-5.3.3``, or of all releases as ``java``."""
    fails: tuple[str, ...]
    theirs: tuple[str, ...]
    """Clients with which the test also runs against RocketMQ."""

    def cell(self, client: str) -> str:
        """Return the cell of a client by its full name."""
        names = {client, client.partition("-")[0]}
        return "yes" if names & {*self.works} else "no" if names & {*self.fails} else "–"


def scenarios(marker_name: str, folder: Path = FOLDER) -> Iterator[Scenario]:
    """Yield the scenarios of a marker, in the order of the modules and of their tests.

    Raises:
        ValueError: two tests have the same title.
    """
    titles = set()
    for path in sorted(folder.glob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            ast.unparse(each.targets[0]): each.value
            for each in module.body
            if isinstance(each, ast.Assign)
        }
        for call in _calls_of(module, f"pytest.mark.{marker_name}"):
            values = [_value(each, constants) for each in call.args]
            named = {each.arg: _value(each.value, constants) for each in call.keywords}
            works, fails, theirs = values[1], named.get("no", ""), named.get("theirs", "")
            if values[0] in titles:
                raise ValueError(f"{path.name}: another test has the title {values[0]!r}")
            titles.add(values[0])
            yield Scenario(
                values[0], tuple(works.split()), tuple(fails.split()), tuple(theirs.split())
            )


def _calls_of(module: ast.Module, marker: str) -> Iterator[ast.Call]:
    for function in module.body:
        if isinstance(function, ast.FunctionDef):
            for each in function.decorator_list:
                if isinstance(each, ast.Call) and ast.unparse(each.func) == marker:
                    yield each


def _value(node: ast.expr, constants: dict[str, ast.expr]) -> Any:
    """The value of an argument, which may be the name of a constant of the module."""
    return ast.literal_eval(constants[node.id] if isinstance(node, ast.Name) else node)


def rows_of(found: Iterable[Scenario], names: Iterable[str]) -> list[list[str]]:
    """Return a row for each scenario: its title, and a cell for each client of ``names``."""
    columns = list(names)
    return [[each.title, *map(each.cell, columns)] for each in found]


def clients() -> str:
    """Return the table of clients that speak RocketMQ's own protocol."""
    kinds = _kinds()[0]
    rows = rows_of(scenarios("scenario"), [kind.name for kind in kinds])
    return table(["", *(kind.title for kind in kinds)], rows).rstrip()


def clients_for_release_5() -> str:
    """Return the table of clients that speak gRPC, and of their tests against RocketMQ."""
    kinds = _kinds()[1]
    found = list(scenarios("scenario5"))
    rows = rows_of(found, [kind.name for kind in kinds])
    for row, each in zip(rows, found, strict=True):
        row.append(", ".join(name.rstrip("5").capitalize() for name in each.theirs) or "–")
    return table(["", *(kind.title for kind in kinds), "with RocketMQ"], rows).rstrip()


def _kinds() -> tuple[Any, Any]:
    """The tested releases of both protocols, from the tests."""
    for folder in (str(TESTS / "support"), str(FOLDER)):
        if folder not in sys.path:
            sys.path.append(folder)
    from stock import CLIENTS, FIVES

    return CLIENTS, FIVES


MARKS = {"<!-- clients -->": clients, "<!-- clients for release 5 -->": clients_for_release_5}

if __name__ == "__main__":
    sys.stdout.write(f"{clients()}\n\n{clients_for_release_5()}\n")
