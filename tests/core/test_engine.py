"""Which engine runs the kernels is decided once, in one place, and can be forced."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from reput.engine import INTERFACE, _choose
from reput.errors import ConfigError


def native(**changes):
    """A module that looks like the compiled one."""
    return types.SimpleNamespace(**{"INTERFACE": INTERFACE, "__version__": "0.1.9", **changes})


@pytest.fixture
def installed(monkeypatch):
    def install(module):
        monkeypatch.setitem(sys.modules, "reput_native", module)

    return install


def test_the_native_one_runs_where_it_is_installed(installed):
    module = native()
    installed(module)

    engine, kernels = _choose("")

    assert (engine.name, engine.version) == ("native", "0.1.9")
    assert str(engine) == "native 0.1.9 (reput-native is installed)"
    assert kernels is module


def test_without_it_python_does_everything(installed, caplog):
    installed(None)

    engine, kernels = _choose("")

    assert (engine.name, engine.version, kernels) == ("python", None, None)
    assert str(engine) == "python (reput-native is not installed)"
    assert caplog.messages == []


def test_python_can_be_forced(installed):
    installed(native())

    engine, kernels = _choose("python")

    assert (str(engine), kernels) == ("python (REPUT_ENGINE=python)", None)


def test_the_native_one_can_be_forced(installed):
    installed(native())

    engine, _ = _choose("native")

    assert str(engine) == "native 0.1.9 (REPUT_ENGINE=native)"


def test_forcing_one_that_is_not_there_says_how_to_get_it(installed):
    installed(None)

    with pytest.raises(ConfigError, match=r"not installed; pip install ./native"):
        _choose("native")


@pytest.mark.parametrize("changes", [{"INTERFACE": INTERFACE + 1}, {"INTERFACE": None}])
def test_one_that_does_not_fit_is_refused_where_forced_and_passed_over_otherwise(
    installed, changes, caplog
):
    installed(native(**changes))

    with pytest.raises(ConfigError, match=r"0.1.9 has kernels of interface .* install both"):
        _choose("native")
    engine, kernels = _choose("")

    assert (engine.name, kernels) == ("python", None)
    assert "interface" in engine.reason
    assert "kernels run in Python" in caplog.text


def test_an_engine_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="unknown engine 'rust'; known: native, python"):
        _choose("rust")


def test_the_environment_decides_in_a_process_of_its_own(monkeypatch):
    code = "from reput.engine import ENGINE; print(ENGINE)"
    monkeypatch.setenv("REPUT_ENGINE", "python")

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("python (REPUT_ENGINE=python)\n", "")


def test_importing_reput_asks_for_no_engine(monkeypatch):
    monkeypatch.setenv("REPUT_ENGINE", "none such")
    code = "import reput, sys; print('reput.engine' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "False\n")
