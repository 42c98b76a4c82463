"""Join the wheels of this repository into one, `reput-all`: for a machine that gets one file.

    python packaging/onewheel.py dist

It takes every wheel `reput*.whl` of the directory, but for Spark's and an earlier `reput_all`. The
packages of others that the wheels need are requirements of the one wheel. With compiled kernels
among them it has their platform, otherwise it is for every one.
"""

from __future__ import annotations

import base64
import configparser
import csv
import hashlib
import io
import re
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

NAME = "reput_all"
SUMMARY = "The message store reput with all of its plugins and tools, in one wheel"
LEFT_OUT = ("reput_spark-", f"{NAME}-")  # Spark takes half a gigabyte
# Few use them, and they need packages of others: those are asked for by extras.
EXTRAS = {"reput-testing": "testing"}
ANY = "py3-none-any"
# So that wheels of equal content are equal: the first moment that a zip can name.
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
MOMENT = (1980, 1, 1, 0, 0, 0)


class Joined:
    """What the wheels hold, put together."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.licences: dict[str, bytes] = {}
        self.needed: set[str] = set()
        self.python: set[str] = set()
        self.versions: set[str] = set()
        self.tags: set[str] = set()
        self.entry_points = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        # Names of entry points have capital letters and spaces.
        self.entry_points.optionxform = str  # type: ignore[assignment,method-assign]

    def add(self, path: Path) -> None:
        """Add a wheel.

        Raises:
            SystemExit: it is not a wheel of a version that fits, or has a file of another one.
        """
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                top, _, below = name.partition("/")
                if top.endswith(".dist-info"):
                    self._add_about(below, wheel.read(name).decode())
                elif top.endswith(".data"):
                    raise SystemExit(f"{path}: {name} cannot be in one wheel with others")
                elif name in self.files:
                    raise SystemExit(f"{path}: {name} is in another wheel, too")
                else:
                    self.files[name] = wheel.read(name)

    def _add_about(self, name: str, text: str) -> None:
        if name == "METADATA":
            about = HeaderParser().parsestr(text)
            self.versions.add(about["Version"])
            self.python.add(about["Requires-Python"])
            needed = about.get_all("Requires-Dist") or ()
            extra = EXTRAS.get(about["Name"])
            condition = f"; extra == '{extra}'" if extra else ""
            self.needed |= {each + condition for each in needed if not each.startswith("reput")}
        elif name == "WHEEL":
            self.tags |= set(HeaderParser().parsestr(text).get_all("Tag") or ())
        elif name == "entry_points.txt":
            self.entry_points.read_string(text)
        elif name.startswith("licenses/"):
            self.licences[name] = text.encode()

    def tag(self) -> str:
        """The tag of the wheel: that of the compiled kernels, if they are in it."""
        special = sorted(self.tags - {ANY})
        return special[0] if special else ANY

    def write(self, directory: Path) -> Path:
        """Write the wheel; return its path."""
        if len(self.versions) != 1:
            raise SystemExit(
                f"one version expected, found {sorted(self.versions)}; empty the folder"
            )
        [version] = self.versions
        about = f"{NAME}-{version}.dist-info"
        points = io.StringIO()
        self.entry_points.write(points)
        head = f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {version}\n"
        head += f"Summary: {SUMMARY}\nLicense: Apache-2.0\nRequires-Python: {max(self.python)}\n"
        extras = {found[1] for each in self.needed if (found := _EXTRA.search(each))}
        head += "".join(f"Provides-Extra: {each}\n" for each in sorted(extras))
        # What is needed in any case no extra has to ask for.
        needed = {
            each for each in self.needed if each.partition(";")[0] not in self.needed - {each}
        }
        head += "".join(f"Requires-Dist: {each}\n" for each in sorted(needed))
        pure = str(self.tag() == ANY).lower()
        kind = (
            f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: {pure}\nTag: {self.tag()}\n"
        )
        files = {
            **self.files,
            **{f"{about}/{name}": text for name, text in self.licences.items()},
            f"{about}/METADATA": head.encode(),
            f"{about}/WHEEL": kind.encode(),
            f"{about}/entry_points.txt": points.getvalue().encode(),
        }
        record = io.StringIO()
        rows = csv.writer(record, lineterminator="\n")
        rows.writerows((name, _hash(data), len(data)) for name, data in sorted(files.items()))
        rows.writerow((f"{about}/RECORD", "", ""))
        target = directory / f"{NAME}-{version}-{self.tag()}.whl"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
            for name, data in [*sorted(files.items()), (f"{about}/RECORD", record.getvalue())]:
                wheel.writestr(zipfile.ZipInfo(name, MOMENT), data, zipfile.ZIP_DEFLATED)
        return target


def _hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def main(directory: Path) -> Path:
    """Join the wheels in ``directory``; return the path of the one wheel."""
    paths = [
        path for path in sorted(directory.glob("reput*.whl")) if not path.name.startswith(LEFT_OUT)
    ]
    if not paths:
        raise SystemExit(f"{directory}: no wheel of reput; `make wheels` builds them")
    joined = Joined()
    for path in paths:
        joined.add(path)
    return joined.write(directory)


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1]))}\n")
