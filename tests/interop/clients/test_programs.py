"""Small programs with the defaults of their clients: what they send comes back to them.

The page docs/stock-clients.md lists `PROGRAMS`; tests/docs compares.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import mavenparts
import pytest
import toolcodes

from reput_server import LocalBroker

HERE = Path(__file__).resolve().parent / "programs"
COUNT = 20
PROGRAMS = {
    # As the page names it: the folder, and the version that Maven fetches.
    "Java 4.3.2": ("java", "4.3.2"),
    "Java 4.5.2": ("java", "4.5.2"),
    "Java 4.7.1": ("java", "4.7.1"),
    "Java 5.1.4": ("java", "5.1.4"),
    "Java 5.5.0": ("java", "5.5.0"),
    "PyPI `rocketmq` 0.4.4 (C++)": ("cpp", ""),
    "Spring starter 2.3.5": ("spring", "2.3.5"),
    "Camel 4.8.0": ("camel", "4.8.0"),
}
TOOL = [
    # Releases, what is asked, and what is in the answer.
    ("4.3.2 4.5.2 4.7.1 5.1.4 5.5.0", "clusterList", r"DefaultCluster\s+broker-a\s+0\s+{address}"),
    ("4.3.2 4.5.2 4.7.1 5.1.4 5.5.0", "brokerStatus -b {address}", r"brokerVersionDesc"),
    ("4.3.2 4.5.2 4.7.1 5.1.4 5.5.0", "getBrokerConfig -b {address}", r"brokerName\s+=\s+broker-a"),
    ("4.7.1", "clusterAclConfigVersion -c DefaultCluster", r"broker-a\s+{address}\s+0\s"),
    ("4.7.1", "clusterAclConfigVersion -b {address}", r"broker-a\s+{address}\s+0\s"),
    ("4.9.8", "clusterAclConfigVersion -c DefaultCluster", r"config version success"),
]
ASKED = [(release, *rest) for releases, *rest in TOOL for release in releases.split()]


def java(folder: str, version: str, home: Path, main: str, *arguments: str) -> list[str]:
    try:
        class_path = mavenparts.build(HERE / folder, version)
    except mavenparts.JavaUnavailableError as error:
        pytest.skip(str(error))
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "logback_tools.xml").write_text("<configuration/>", encoding="ascii")
    return [
        mavenparts.executable("java"),
        *mavenparts.SMALL_JVM,
        *mavenparts.OPENED,
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        "-cp",
        class_path,
        f"reput.programs.{main}",
        *arguments,
    ]


def ran(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env=environment
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_defaults_gets_what_it_has_sent(name: str, tmp_path: Path):
    folder, version = PROGRAMS[name]
    with LocalBroker() as broker:
        if folder == "cpp":
            # Elsewhere no wheel exists. Here it is a declared dependency: its absence is a failure.
            if (sys.platform, platform.machine()) != ("linux", "x86_64"):
                pytest.skip("the wheel rocketmq exists for Linux on x86-64 alone")
            command = [sys.executable, str(HERE / folder / "shop.py")]
        else:
            command = java(folder, version, tmp_path, "Shop")
        done = ran([*command, broker.name_server, str(COUNT)], tmp_path)

        bodies = {bytes(each.body) for each in broker.messages("orders")}

    assert f"sent {COUNT}\n" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert f"taken {COUNT}\n" in done.stdout, done.stdout[-2000:]
    assert bodies == {f"body-{number}".encode() for number in range(COUNT)}


def test_without_the_fast_port_an_old_client_cannot_send(tmp_path: Path):
    with LocalBroker(fast_port=False) as broker:
        command = java("java", "4.3.2", tmp_path, "Shop", broker.name_server, "1")
        done = ran(command, tmp_path)

        assert broker.messages("orders") == []

    assert done.returncode == 1
    assert "sent" not in done.stdout


@pytest.mark.parametrize(("release", "asked", "said"), ASKED)
def test_a_command_of_another_release_prints_what_there_is(
    release: str, asked: str, said: str, tmp_path: Path
):
    with LocalBroker() as broker:
        words = [*asked.format(address=broker.address).split(), "-n", broker.name_server]
        done = ran(java("java", release, tmp_path, "Tool", *words), tmp_path)
        expected = said.replace("{address}", re.escape(broker.address))

    assert re.search(expected, done.stdout), done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("release", toolcodes.RELEASES)
def test_the_codes_of_a_release_are_those_that_are_recorded(release: str, tmp_path: Path):
    java("java", release, tmp_path, "Tool")  # builds it, or skips
    class_path = mavenparts.build(HERE / "java", release)

    assert toolcodes.codes_of(class_path) == toolcodes.recorded_codes()[release]
