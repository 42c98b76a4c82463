"""An archive of classes is written by one, looked at before it is used, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from reput_spark.session.appcds import archive_options
from reput_spark.session.java import find_java

JAVA = """\
#!/bin/sh
# Says whether it would start from an archive: only from one that holds what a whole one holds.
for each do
  case "$each" in -XX:SharedArchiveFile=*) exec grep -q whole "${each#*=}" ;; esac
done
"""


class Machine:
    """A Java, a Spark and a user's home, with nothing in them that takes time."""

    def __init__(self, root):
        self.java = root / "java"
        self.jars = root / "spark" / "jars"
        self.kept = root / "home" / ".cache" / "reput-spark"
        for directory in (self.java / "bin", self.java / "lib" / "server", self.jars):
            directory.mkdir(parents=True)
        for name in ("classes.jsa", "libjvm.so"):
            (self.java / "lib" / "server" / name).write_text(name)
        for name in ("slf4j-api-2.0.jar", "spark.jar"):
            (self.jars / name).write_text(name)
        (self.java / "bin" / "java").write_text(JAVA)
        (self.java / "bin" / "java").chmod(0o755)
        self.environment = {"HOME": str(root / "home"), "SPARK_HOME": str(root / "spark")}

    def install(self, text):
        """Install another release of Spark, and start it once."""
        (self.jars / "spark.jar").write_text(text)
        assert self.start() == {}

    def start(self, given="", text=None):
        """Start a JVM, which writes ``text`` when it ends; what it was told of archives."""
        options = dict(
            each.split("=", 1)
            for each in archive_options(str(self.java), given, self.environment)
            if "=" in each and each.startswith("-XX")
        )
        if text is not None:
            with open(options["-XX:ArchiveClassesAtExit"], "w") as file:
                file.write(text)
            self.end()
        return options

    def end(self):
        """The process that held the lock is gone."""
        (self.kept / "classes.lock").unlink()

    def names(self, suffix):
        return sorted(path.name for path in self.kept.glob(f"*{suffix}"))


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    made.install("a release")
    return made


def test_the_second_jvm_writes_and_those_behind_it_use(machine):
    second = machine.start(text="a whole one")  # the first has started when Spark was installed

    third, fourth = machine.start(), machine.start()

    assert second["-XX:ArchiveClassesAtExit"].endswith(".new")
    (name,) = machine.names(".jsa")
    assert third == fourth == {"-XX:SharedArchiveFile": str(machine.kept / name)}
    assert name.endswith("-11.jsa")  # its size
    assert machine.names(".new") == []
    assert machine.kept.stat().st_mode & 0o077 == 0


def test_while_one_is_to_be_written_nobody_else_writes_one(machine):
    assert "-XX:ArchiveClassesAtExit" in machine.start()

    code = (
        "import os, sys; from reput_spark.session.appcds import archive_options; "
        "print(archive_options(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(machine.java)],
        env=machine.environment,
        capture_output=True,
        text=True,
    )

    assert done.stdout == "[]\n", done.stderr
    assert machine.start() == {}


def test_one_that_is_half_written_is_not_used_and_later_swept(machine):
    first = machine.start(text="hal")["-XX:ArchiveClassesAtExit"]

    assert machine.start() == {}
    os.utime(first, (0, 0))  # whoever wrote it is long gone
    again = machine.start(text="a whole one")["-XX:ArchiveClassesAtExit"]

    assert again != first
    assert not os.path.exists(first)
    assert "-XX:SharedArchiveFile" in machine.start()


def test_one_that_was_cut_is_thrown_away(machine):
    machine.start(text="a whole one")
    archive = machine.start()["-XX:SharedArchiveFile"]
    os.truncate(archive, 5)

    options = machine.start()

    assert "-XX:ArchiveClassesAtExit" in options
    assert machine.names(".jsa") == []


@pytest.mark.parametrize("changed", ["java/lib/server/libjvm.so", "spark/jars/spark.jar"])
def test_another_java_or_another_spark_has_one_of_its_own(changed, machine, tmp_path):
    machine.start(text="a whole one")
    machine.start()

    (tmp_path / changed).write_text("a newer release")

    assert machine.start() == {}
    assert "-XX:ArchiveClassesAtExit" in machine.start()


def test_few_are_kept_those_that_were_used_last(machine):
    for number in range(5):
        machine.install("x" * number)
        machine.start(text="a whole one")
        used = machine.start()["-XX:SharedArchiveFile"]
        os.utime(used, (number, number))

    machine.install("x" * 9)
    machine.start(text="a whole one")
    machine.start()

    assert len(machine.names(".jsa")) == 3
    assert os.path.basename(used) in machine.names(".jsa")


def test_nothing_is_done_where_it_cannot_be_or_the_user_knows_better(machine, tmp_path):
    assert machine.start("-Xshare:off") == {}
    assert machine.start("-XX:SharedArchiveFile=/mine") == {}

    (tmp_path / "spark" / "conf").mkdir()  # which is still no reason
    assert "-XX:ArchiveClassesAtExit" in machine.start()
    machine.end()
    (tmp_path / "spark" / "conf" / "log4j2.properties").write_text("")
    assert machine.start() == {}
    (tmp_path / "spark" / "conf" / "log4j2.properties").unlink()

    machine.kept.chmod(0o777)
    assert machine.start() == {}
    machine.kept.chmod(0o700)

    (machine.java / "lib" / "server" / "classes.jsa").unlink()
    assert machine.start() == {}


PROGRAM = """
import sys
from reput_spark import local_session

spark = local_session("local[1]", quick=True)
assert spark.range(5).count() == 5
options = spark.conf.get("spark.driver.extraJavaOptions")
process = spark.sparkContext._gateway.proc
mapped = open(f"/proc/{process.pid}/maps").read()
print("archive", "SharedArchiveFile" in options, "/classes-" in mapped)
spark.stop()
process.stdin.close()  # as at the end of this process, and wait until the JVM has ended, too
process.wait()
"""


@pytest.mark.proof
@pytest.mark.skipif(not os.environ.get("REPUT_SPARK_CLUSTER"), reason="only in spark-cluster")
def test_a_real_jvm_starts_from_it_and_without_it_when_it_is_damaged(tmp_path):
    def session():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1], done.stdout.count("\n")

    assert archive_options(find_java(), environment={"XDG_CACHE_HOME": str(tmp_path)}) == []
    found = [session(), session()]
    (archive,) = (tmp_path / "reput-spark").glob("*.jsa")
    archive.chmod(0o600)
    with open(archive, "r+b") as file:
        file.seek(archive.stat().st_size // 2)
        file.write(b"damaged")
    found.append(session())

    assert [said for said, _ in found] == [
        "archive False False",
        "archive True True",
        "archive True False",
    ]
    assert [lines for _, lines in found] == [1, 1, 1]  # and says nothing of it
