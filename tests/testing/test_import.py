"""The kit costs nothing to those who do not import it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import reput", "import reput; reput.open", "import reput; reput.Plugin"]
)
def test_reput_does_not_import_its_testing_kit(statement):
    modules = modules_after(statement)

    assert not {"reput_testing", "pytest", "hypothesis"} & modules


def test_the_kit_is_no_pytest_plugin():
    modules = modules_after("import reput_testing")

    assert "pytest" in modules
    from importlib.metadata import entry_points

    # The server is one: it has a broker for everybody's tests.
    found = entry_points(group="pytest11")
    assert [each for each in found if each.value.startswith("reput_testing")] == []


def test_everything_public_is_there():
    import reput_testing

    assert [name for name in reput_testing.__all__ if not hasattr(reput_testing, name)] == []
    assert reput_testing.__all__ == sorted(reput_testing.__all__)
