"""Pages over a store that is served or followed: live figures, and changes through that process."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from multiprocessing.connection import Connection

import attrs
import pytest
import wirescript
from commands import commands
from fakemaster import FakeLog, FakeMaster
from masterlogs import log_of
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import (
    ConsumerData,
    Heartbeat,
    RequestCode,
    Subscription,
    UpdateGroupOffset,
)
from reput_consumer import ConsumerPlugin
from reput_server import ServerConfig, serving
from reput_server.errors import ServerError
from reput_server.webpages import pages as served_pages
from reput_server.webpages.webconfig import WebConfig
from reput_web.live import pagesprocess
from reput_web.live.channel import AnswerError, Asker, ChannelClosedError, answer_all

ANYWHERE = ("127.0.0.1", 0)
PLUGINS = ("consumequeue", "consumer", "index")


@contextmanager
def served(root, mode="w", **web):
    """A served store, its server, and the address of its pages."""
    config = ServerConfig(
        listen=ANYWHERE, name_server=None, web=WebConfig(address=ANYWHERE, **web), fast_port=False
    )
    with reput.open(root, mode, plugins=PLUGINS) as store:
        with serving(store, config, is_writable=mode == "w") as server:
            yield store, server, server.web.rstrip("/")


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def asked(address, path, data=None, headers=()):
    """Status and text of an answer."""
    body = None if data is None else urllib.parse.urlencode(data).encode()
    given = {"Origin": address, **dict(headers)} if data is not None else dict(headers)
    request = urllib.request.Request(f"{address}{path}", body, given)
    try:
        with urllib.request.build_opener(NoRedirects).open(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def json_of(address, path):
    return json.loads(asked(address, path)[1])


def done(address, action, **values):
    """Status and text after an action was asked for and confirmed."""
    path = f"/action/{action}"
    token = re.search('name="token" value="([^"]+)"', asked(address, path)[1])[1]
    question = asked(address, path, {**values, "token": token})[1]
    word = re.search('name="confirmed" value="([^"]+)"', question)[1]
    return asked(address, path, {"token": token, "confirmed": word})


def work(server, store):
    """Send three messages, pull them as the group ``billing``, and commit one."""
    peer = WirePeer(server.address)
    data = ConsumerData(group="billing", subscriptions=(Subscription(topic="orders"),))
    beat = Heartbeat(client_id="me", producer_groups=("makers",), consumers=(data,))
    peer.ask(RequestCode.HEART_BEAT, body=beat.encode())
    for _ in range(3):
        peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders", 0), body=b"x")
    assert store.wait_dispatched(timeout=20)
    peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull())
    update = UpdateGroupOffset(
        consumer_group="billing", topic="orders", queue_id=0, commit_offset=1
    )
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
    return peer


@pytest.mark.costly
def test_pages_of_a_server_show_what_it_does(tmp_path):
    with served(tmp_path / "store") as (store, server, address):
        with work(server, store):
            figures = json_of(address, "/server.json")
            page, overview = (asked(address, path)[1] for path in ("/server", "/overview"))
            group = asked(address, "/group?name=billing")[1]
            topics = [each["topic"] for each in json_of(address, "/topics.json")["topics"]]

    assert figures["health"] == {"status": "ok", "reasons": []}
    assert figures["ports"][0]["connections"] == 1
    assert all(each > 0 for rates in figures["rates"].values() for each in rates)
    assert figures["groups"]["billing"] | {"rate": 0} == {
        "lag": 2,
        "members": 1,
        "rate": 0,
        "is_mixed": False,
        "out_count": 0,
        "out_since": None,
    }
    assert [each["put_count"] for each in figures["topics"]] == [3]
    for each in (page, overview):
        assert "messages in, a second" in each
        assert 'class="verdict good"' in each
    assert "broker-a of DefaultCluster" in page
    assert re.search(r"<dt>members</dt><dd>1</dd>", group)
    assert "orders" in topics


@pytest.mark.costly
def test_a_server_that_is_degraded_is_shown_so(tmp_path):
    with served(tmp_path / "store") as (store, server, address):
        server.keeper.max_age = 0
        store.suspend_plugin("index")
        figures = json_of(address, "/server.json")
        page = asked(address, "/overview")[1]

    assert figures["health"]["status"] == "degraded"
    assert "plugin index is suspended" in page
    assert '<span class="chip">suspended</span>' in page


@pytest.mark.costly
def test_actions_go_to_the_store_that_is_served(tmp_path):
    with served(tmp_path / "store", can_write=True) as (store, _, address):
        status, _ = done(address, "send", topic="orders", queue="0", body="by hand")
        assert done(address, "suspend", plugin="index")[0] == 303
        (state,) = [each.state for each in store.plugins() if each.name == "index"]
        assert done(address, "create-topic", topic="parcels", perm="rw", queues="2")[0] == 303
        assert store.wait_dispatched(timeout=20, plugins=["consumequeue"])
        (view,) = store.read("orders", 0, 0)
        settings = store.plugin(ConsumerPlugin).topics.get("parcels")
        log = json_of(address, "/actions.json")["actions"]

    assert (status, view.body, state, settings.read_queue_nums) == (303, b"by hand", "suspended", 2)
    assert [each["state"] for each in log] == ["done"] * 3


@pytest.mark.costly
def test_a_client_elsewhere_learns_a_new_offset_by_its_next_pull(tmp_path):
    with served(tmp_path / "store", can_write=True) as (store, server, address):
        with work(server, store) as peer:
            status, text = done(address, "reset-offset", group="billing", topic="orders", to="2")
            answer = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(1))
            committed = store.plugin(ConsumerPlugin).offsets()["billing"]["orders", 0]

    assert status == 303, text
    assert committed == 2
    assert answer.fields["nextBeginOffset"] == "2"


@pytest.mark.costly
def test_what_cannot_be_done_is_said_by_the_process_that_serves(tmp_path):
    with served(tmp_path / "store", can_write=True) as (store, _, address):
        store.put(reput.Message("orders", b"x", 0))
        path = "/action/create-topic"
        token = re.search('name="token" value="([^"]+)"', asked(address, path)[1])[1]
        values = {"topic": "parcels", "perm": "rw", "token": token}
        first, second = (asked(address, path, values)[1] for _ in range(2))
        words = [re.search('"confirmed" value="([^"]+)"', each)[1] for each in (first, second)]
        answers = [asked(address, path, {"token": token, "confirmed": each}) for each in words]

    assert [status for status, _ in answers] == [303, 409]
    assert "exists already" in answers[1][1]


@pytest.mark.costly
def test_pages_of_a_store_for_reading_change_nothing(tmp_path):
    reput.open(tmp_path / "store", plugins=PLUGINS).close()
    with served(tmp_path / "store", "r") as (_, _, address):
        assert asked(address, "/action/send")[0] == 404
        assert json_of(address, "/server.json")["is_writable"] is False

    with pytest.raises(ServerError, match="opened for reading"):
        with served(tmp_path / "store", "r", can_write=True):
            pass


@pytest.mark.costly
def test_pages_that_end_are_started_again(tmp_path):
    with served(tmp_path / "store") as (_, server, address):
        process = server.pages._process
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        status, _ = asked(address, "/overview")
        other = server.pages._process

    assert status == 200
    assert other.pid != process.pid
    assert other.poll() is not None


def no_process(*_, **__):
    raise OSError(errno.EAGAIN, "no process")


def test_pages_that_do_not_start_are_an_error(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pagesprocess, "_START_S", 0.0)
        with pytest.raises(ServerError, match="not ready after 0 s"), served(tmp_path / "store"):
            pass
    monkeypatch.setattr(pagesprocess.subprocess, "Popen", no_process)
    with pytest.raises(ServerError, match="no process"), served(tmp_path / "store"):
        pass


@pytest.mark.costly
def test_pages_are_started_again_after_a_start_that_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(pagesprocess, "_AGAIN_S", 0.0)
    starts, start = iter((no_process, no_process)), subprocess.Popen

    with served(tmp_path / "store") as (_, server, address):
        process = server.pages._process
        monkeypatch.setattr(
            pagesprocess.subprocess, "Popen", lambda *a, **k: next(starts, start)(*a, **k)
        )
        process.kill()
        process.wait(30)
        status, _ = asked(address, "/overview")

    assert (status, next(starts, None)) == (200, None)


@pytest.mark.costly
def test_pages_import_nothing_from_the_working_directory(tmp_path, monkeypatch):
    for name in ("json.py", "pickle.py", "reput_web.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n", "utf-8")
    monkeypatch.chdir(tmp_path)

    with served(tmp_path / "store") as (store, _, address):
        store.put(reput.Message("orders", b"xyz", 0)).wait()
        rows = json_of(address, "/messages.json?text=y&regex=1")["rows"]

    assert len(rows) == 1
    assert not (tmp_path / "imported").exists()


@pytest.mark.costly
def test_other_addresses_need_a_password(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n", encoding="utf-8")
    pages = WebConfig(address=("0.0.0.0", 0))
    config = ServerConfig(listen=ANYWHERE, name_server=None, fast_port=False, web=pages)
    with reput.open(tmp_path / "store", plugins=PLUGINS) as store:
        with pytest.raises(ServerError, match="password"), serving(store, config):
            pass
        safe = attrs.evolve(pages, password_file=str(secret))
        with serving(store, attrs.evolve(config, web=safe)) as server:
            assert asked(server.web.rstrip("/"), "/overview")[0] == 401


def test_a_missing_distribution_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(served_pages, "entry_points", lambda **_: [])

    with pytest.raises(ServerError, match=r"pip install \./extras/web"):
        served_pages.pages_class()


# --------------------------------------------------------------------------- the commands


@contextmanager
def process(*arguments):
    """A process of a command, and the first of its lines that has an address of pages."""
    command = [sys.executable, "-m", "reput", *map(str, arguments), "--json", "--web"]
    with subprocess.Popen(
        [*command, "127.0.0.1:0", "--web-write"], stdout=subprocess.PIPE, text=True
    ) as found:
        try:
            facts = next(line for line in map(json.loads, found.stdout) if line["web"])
            yield facts["web"].rstrip("/")
        finally:
            found.send_signal(signal.SIGINT)
            found.stdout.read()
    assert found.returncode == 0


@pytest.mark.costly
def test_serve_has_pages_that_end_with_it(tmp_path):
    ports = ("--listen", "127.0.0.1:0", "--namesrv", "none", "--no-fast-port")
    with process("serve", tmp_path / "store", *ports) as address:
        assert json_of(address, "/server.json")["kind"] == "server"
        assert done(address, "send", topic="orders", body="x")[0] == 303
        assert len(json_of(address, "/messages.json")["rows"]) == 1

    with pytest.raises(urllib.error.URLError, match="refused"):
        asked(address, "/overview")


@pytest.mark.costly
def test_follow_has_pages_of_what_comes_and_changes_only_plugins(tmp_path):
    log = FakeLog(log_of(tmp_path / "master", 200))
    with FakeMaster(log) as master:
        given = ("--from", master.address, "--plugins", "consumequeue,index")
        with process("follow", tmp_path / "store", *given) as address:
            figures = json_of(address, "/server.json")
            pages = [asked(address, path)[1] for path in ("/server", "/overview")]
            refused = asked(address, "/action/send")[0]
            assert done(address, "suspend", plugin="index")[0] == 303
            states = {
                each["plugin"]: each for each in json_of(address, "/overview.json")["plugins"]
            }

    assert (figures["kind"], figures["master"]) == ("follower", "shop/broker-a")
    assert all("bytes behind the master" in each for each in pages)
    assert refused == 404
    assert states["index"]["state"] == "suspended"


@pytest.mark.parametrize("command", [("serve",), ("follow", "--from", "a:1")])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--web", "0.0.0.0:0"), "--web-password-file"),
        (("--web", "8787"), "expected HOST:PORT"),
        (("--web-write",), "name their address with --web"),
        (("--web", "127.0.0.1:0", "--web-tls-key", __file__), "--web-tls-cert"),
    ],
)
def test_options_of_pages_that_are_not_safe_are_refused(tmp_path, command, options, text):
    with commands() as run:
        outcome = run(command[0], tmp_path / "none", *command[1:], *options)

    assert (outcome.code, text in outcome.err) == (2, True), outcome.err
    assert not (tmp_path / "none").exists()


# --------------------------------------------------------------------------- the channel


@pytest.fixture
def ends():
    """An end that asks, and what answers its questions, which a test may replace."""
    sockets = socket.socketpair()
    own, other = (Connection(os.dup(each.fileno())) for each in sockets)
    asker, answers = Asker(own), {"answer": lambda question: {"same": question["what"]}}
    threads = [
        threading.Thread(target=asker.read),
        threading.Thread(target=answer_all, args=(other, lambda found: answers["answer"](found))),
    ]
    for each in threads:
        each.start()
    yield asker, answers
    sockets[0].shutdown(socket.SHUT_RDWR)
    for each in threads:
        each.join()
    for each in (own, other, *sockets):
        each.close()
    with pytest.raises(ChannelClosedError, match="has ended"):
        asker.ask({}, 30)


def test_a_question_that_waits_delays_no_other(ends):
    asker, answers = ends
    goes_on = threading.Event()
    answers["answer"] = lambda found: {"was": goes_on.wait(30) if found["what"] == 1 else True}
    first = threading.Thread(target=asker.ask, args=({"what": 1}, 30))
    first.start()

    assert asker.ask({"what": 2}, 30)["was"] is True
    goes_on.set()
    first.join()


def test_questions_that_get_no_answer_are_errors(ends):
    asker, answers = ends
    assert asker.ask({"what": 7}, 30)["same"] == 7
    with pytest.raises(AnswerError, match="KeyError"):
        asker.ask({}, 30)
    goes_on = threading.Event()
    answers["answer"] = lambda found: {"was": goes_on.wait(30)}
    with pytest.raises(ChannelClosedError, match="within"):
        asker.ask({"what": 1}, 0.01)
    goes_on.set()
