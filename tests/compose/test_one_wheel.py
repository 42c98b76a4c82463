"""`packaging/onewheel.py` joins wheels into one that an installer takes."""

from __future__ import annotations

import base64
import csv
import hashlib
import runpy
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "onewheel.py"


def make_wheel(directory, name, *, files, needs=(), points="", version="1.0", tag="py3-none-any"):
    """A wheel with what the script reads of it."""
    about = f"{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.4\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    head += "Requires-Python: >=3.11\n" + "".join(f"Requires-Dist: {each}\n" for each in needs)
    with zipfile.ZipFile(directory / f"{name}-{version}-{tag}.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{about}/METADATA", head)
        wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        wheel.writestr(f"{about}/licenses/LICENSE", "a licence")
        if points:
            wheel.writestr(f"{about}/entry_points.txt", points)


@pytest.fixture
def wheels(tmp_path):
    commands = "[reput.commands]\nsay A word to say = reput_say:say\n"
    make_wheel(
        tmp_path,
        "reput",
        files={"reput/__init__.py": "", "reput/store.py": "x = 1\n"},
        needs=["numpy>=1.26", "reput-say>=1; extra == 'say'", "lz4>=4; extra == 'compression'"],
        points=f"[console_scripts]\nreput = reput:main\n\n{commands.replace('say A', 'Other A')}",
    )
    make_wheel(
        tmp_path,
        "reput_say",
        files={"reput_say/__init__.py": "say = print\n"},
        needs=["reput>=1", "numpy>=1.26"],
        points=commands,
    )
    make_wheel(tmp_path, "reput_testing", files={"reput_testing/__init__.py": ""}, needs=["pytest"])
    make_wheel(
        tmp_path,
        "reput_server",
        files={"reput_server/__init__.py": ""},
        needs=["h2>=4; extra == 'grpc'", "numpy>=1.26", "reput>=1"],
    )
    make_wheel(tmp_path, "reput_spark", files={"reput_spark/__init__.py": ""}, needs=["pyspark"])
    return tmp_path


def join(directory):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(directory)], capture_output=True, text=True
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_the_one_wheel_has_all_files_and_what_they_need(wheels):
    code, path, _ = join(wheels)

    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        about = HeaderParser().parsestr(wheel.read("reput_all-1.0.dist-info/METADATA").decode())
        points = wheel.read("reput_all-1.0.dist-info/entry_points.txt").decode()
    assert code == 0
    assert Path(path).name == "reput_all-1.0-py3-none-any.whl"
    assert [name for name in names if "dist-info" not in name] == [
        "reput/__init__.py",
        "reput/store.py",
        "reput_say/__init__.py",
        "reput_server/__init__.py",
        "reput_testing/__init__.py",
    ]
    assert "reput_all-1.0.dist-info/licenses/LICENSE" in names
    assert about.get_all("Requires-Dist") == [
        "h2>=4; extra == 'grpc'",
        "lz4>=4; extra == 'compression'",
        "numpy>=1.26",
        "pytest; extra == 'testing'",
    ]
    assert about.get_all("Provides-Extra") == ["compression", "grpc", "testing"]
    assert "Other A word to say = reput_say:say" in points
    assert "say A word to say = reput_say:say" in points
    assert "reput = reput:main" in points


def test_every_file_is_in_the_record_with_its_checksum(wheels):
    _, path, _ = join(wheels)

    with zipfile.ZipFile(path) as wheel:
        rows = list(csv.reader(wheel.read("reput_all-1.0.dist-info/RECORD").decode().splitlines()))
        assert [row[0] for row in rows] == wheel.namelist()
        for name, checksum, size in rows[:-1]:
            data = wheel.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (checksum, size) == (f"sha256={digest}", str(len(data)))


def test_joining_again_gives_the_same_wheel(wheels):
    _, path, _ = join(wheels)
    before = Path(path).read_bytes()

    join(wheels)

    assert Path(path).read_bytes() == before


def test_with_compiled_kernels_it_has_their_platform(wheels):
    tag = "cp311-abi3-linux_x86_64"
    make_wheel(wheels, "reput_native", files={"reput_native/k.so": "elf"}, tag=tag)

    _, path, _ = join(wheels)

    assert Path(path).name == f"reput_all-1.0-{tag}.whl"
    with zipfile.ZipFile(path) as wheel:
        assert "Root-Is-Purelib: false" in wheel.read("reput_all-1.0.dist-info/WHEEL").decode()


@pytest.mark.parametrize(
    ("another", "reason"),
    [
        ({"name": "reput_say2", "files": {"reput_say/__init__.py": ""}}, "in another wheel, too"),
        ({"name": "reput_say2", "files": {}, "version": "2.0"}, "one version expected"),
        ({"name": "reput_d", "files": {"reput_d-1.0.data/scripts/x": ""}}, "cannot be in one"),
    ],
)
def test_wheels_that_do_not_fit_together_are_refused(wheels, another, reason):
    make_wheel(wheels, **another)

    code, path, error = join(wheels)

    assert (code, path) == (1, "")
    assert reason in error
    assert not list(wheels.glob("reput_all*"))


def test_without_wheels_the_next_step_is_named(tmp_path):
    assert "make wheels" in join(tmp_path)[2]


def test_the_entry_points_of_this_repository_can_be_written_and_read():
    joined = runpy.run_path(str(SCRIPT))["Joined"]()
    joined._add_about("entry_points.txt", "[reput.commands]\nsql Ask it: in SQL. = a.b:c\n")

    [(name, value)] = joined.entry_points.items("reput.commands")

    assert EntryPoint(name, value, "reput.commands").attr == "c"
    assert name == "sql Ask it: in SQL."
