"""The page about stock clients has a row for each of their tests, and says "yes" where one runs."""

from __future__ import annotations

import ast
import functools
import json
import re
from typing import Any

from pages import ROOT, text_of

CLIENTS = ROOT / "tests" / "interop" / "clients"
PAGE = "docs/stock-clients.md"
COLUMNS = ("java-4.9.8", "java-5.3.3", "go", "node")
FIVES = ("java5", "python5", "node5", "go5", "rust5")


def functions() -> list[ast.FunctionDef]:
    modules = [
        ast.parse(path.read_text(encoding="utf-8")) for path in sorted(CLIENTS.glob("test_*.py"))
    ]
    return [each for module in modules for each in module.body if isinstance(each, ast.FunctionDef)]


def scenarios(marker_name: str, columns: tuple[str, ...]) -> dict[str, set[str]]:
    """The clients of each scenario that works with them, by its title."""
    found: dict[str, set[str]] = {}
    for function in functions():
        for marker in function.decorator_list:
            if not isinstance(marker, ast.Call) or ast.unparse(marker.func) != (
                f"pytest.mark.{marker_name}"
            ):
                continue
            title, clients = (_value(each) for each in marker.args)
            named = {each.arg: _value(each.value) for each in marker.keywords}
            assert title not in found
            words = clients.split() if named.get("works", True) else []
            found[title] = {it for it in columns if it in words or it.split("-")[0] in words}
    return found


def _value(node: ast.expr) -> Any:
    """The value of an argument, which may be the name of a constant of test_fives.py."""
    return ast.literal_eval(_constants()[node.id] if isinstance(node, ast.Name) else node)


@functools.cache
def _constants() -> dict[str, ast.expr]:
    module = ast.parse((CLIENTS / "test_fives.py").read_text(encoding="utf-8"))
    return {
        ast.unparse(it.targets[0]): it.value for it in module.body if isinstance(it, ast.Assign)
    }


def rows(first: str) -> list[list[str]]:
    """The rows of the table whose heading begins with ``first``."""
    _, _, after = text_of(PAGE).partition(f"\n{first}")
    table = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table]


def test_every_scenario_has_its_row_and_every_row_is_tried() -> None:
    expected = scenarios("scenario", COLUMNS)

    assert len(expected) > 30
    assert said("| | Java", COLUMNS) == expected


def test_every_scenario_of_clients_for_release_5_has_its_row() -> None:
    expected = scenarios("scenario5", FIVES)

    assert len(expected) > 20
    assert said("| release 5 |", (*FIVES, "theirs"), FIVES) == expected
    theirs = {title: cells[-1] for title, *cells in rows("| release 5 |")}
    assert theirs == dict.fromkeys(expected, "–") | with_theirs()


def with_theirs() -> dict[str, str]:
    """With which clients scenarios also run with RocketMQ's proxy, as the page names them."""
    return {
        _value(marker.args[0]): ", ".join(
            each.rstrip("5").capitalize() for each in _value(named.value).split()
        )
        for function in functions()
        for marker in function.decorator_list
        if isinstance(marker, ast.Call)
        for named in marker.keywords
        if named.arg == "theirs"
    }


def said(
    first: str, columns: tuple[str, ...], counted: tuple[str, ...] | None = None
) -> dict[str, set[str]]:
    """The clients that the page has a "yes" for, by title; those of ``counted`` only."""
    return {
        title: {
            name
            for name, cell in zip(columns, cells, strict=True)
            if cell == "yes" and name in (counted or columns)
        }
        for title, *cells in rows(first)
    }


def test_cells_say_yes_no_or_that_there_is_no_such_call() -> None:
    cells = [cell for _, *row in rows("| | Java") for cell in row]

    assert set(cells) == {"yes", "no", "–"}


def test_every_command_of_the_admin_tool_is_listed() -> None:
    module = ast.parse((CLIENTS / "test_admin.py").read_text(encoding="utf-8"))
    commands: Any = next(
        ast.literal_eval(each.value)
        for each in module.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "COMMANDS"
    )

    listed = [row[0].strip("`") for row in rows("| command |")]

    assert listed == list(dict.fromkeys(line.split()[0] for line, _ in commands))


def test_the_columns_name_the_releases_that_are_tried() -> None:
    go = re.search(r"client-go/v2 v(\S+)", (CLIENTS / "go/go.mod").read_text(encoding="utf-8"))
    package = json.loads((CLIENTS / "node/package.json").read_text(encoding="utf-8"))
    kinds = (CLIENTS / "stock/kinds.py").read_text(encoding="utf-8")
    java = re.findall(r'_java\("([\d.]+)"\)', kinds)

    assert go is not None
    names = [f"Java {it}" for it in java]
    names += [f"Go {go[1]}", f"Node {package['dependencies']['ali-ons']}"]
    assert f"| | {' | '.join(names)} |\n" in text_of(PAGE)
    fives = (CLIENTS / "stock/fives.py").read_text(encoding="utf-8")
    five = json.loads((CLIENTS / "fives/node/package.json").read_text(encoding="utf-8"))
    module = (CLIENTS / "fives/go/go.mod").read_text(encoding="utf-8")
    go5 = re.search(r"rocketmq-clients/golang/v5 v(\S+)", module)
    crates = (CLIENTS / "fives/rust/Cargo.toml").read_text(encoding="utf-8")
    rust5 = re.search(r'rocketmq = "=(.+)"', crates)
    assert go5 is not None
    assert rust5 is not None
    (release,) = re.findall(r'_JAVA = "([\d.]+)"', fives)
    assert (
        f"| Java {release} | Python 5.1.2 | Node {next(iter(five['dependencies'].values()))} | "
        f"Go {go5[1]} | Rust {rust5[1]} | " in text_of(PAGE)
    )


def test_every_program_is_listed() -> None:
    module = ast.parse((CLIENTS / "test_programs.py").read_text(encoding="utf-8"))
    programs: Any = next(
        ast.literal_eval(each.value)
        for each in module.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "PROGRAMS"
    )

    assert rows("| program |") == [[name, "yes"] for name in programs]
