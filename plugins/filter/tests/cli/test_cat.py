"""``reput cat --where``: by queues, by the log alone, and while messages arrive."""

from __future__ import annotations

import pytest

import reput
from reput_tools.cli.command import cat
from reput_tools.cli.kit.exitcodes import ExitCode

CONFIG = {"commitlog": {"file_size": 1 << 16}}


@pytest.fixture(params=[("consumequeue",), ("consumequeue", "filter"), ()])
def made(request, tmp_path):
    """A store with queues or without, and how to read it."""
    if request.param:
        pytest.importorskip("reput_consumequeue")
    with reput.open(tmp_path / "store", plugins=request.param, config=CONFIG) as store:
        for number in range(20):
            store.put(
                reput.Message(
                    "orders",
                    b"%d" % number,
                    number % 2,
                    tags="paid" if number % 3 else None,
                    properties={"amount": str(number)},
                )
            )
    return tmp_path / "store", () if request.param else ("--scan",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--where", "amount > 16"), [17, 18, 19]),
        (("--where", "amount > 16", "--tag", "paid"), [17, 19]),
        (("--where", "amount > 10", "--count", "2"), [11, 12]),
        (("--where", "amount > 10", "--queue", "1"), [11, 13, 15, 17, 19]),
        (("--where", "amount > 100"), []),
    ],
)
def test_messages_that_meet_the_condition_are_printed(run, made, options, expected):
    path, scan = made

    outcome = run("cat", path, "orders", "--format", "%s", *scan, *options)

    assert outcome.code == ExitCode.OK
    assert [int(line) for line in outcome.out.split()] == expected


def test_a_condition_that_is_none_is_shown_with_its_place(run, made):
    path, scan = made

    outcome = run("cat", path, "orders", "--where", "amount LIKE '1%'", *scan)

    assert outcome.code == ExitCode.USAGE
    first, text, arrow = outcome.err.splitlines()
    assert "column 8: there is no LIKE" in first
    assert text[arrow.index("^") :] == "LIKE '1%'"


def test_what_arrives_is_left_out_too(run, tmp_path, monkeypatch):
    pytest.importorskip("reput_consumequeue")
    with reput.open(tmp_path, plugins=["consumequeue"], config=CONFIG) as store:
        store.put(reput.Message("orders", b"first", properties={"amount": "1"}))
        store.flush()
        later = iter([("no", "2"), ("second", "1")])

        def put_one_more(self):
            body, amount = next(later, (None, None))
            if body is None:
                return False
            store.put(reput.Message("orders", body.encode(), properties={"amount": amount}))
            assert store.wait_dispatched(10)
            store.flush()
            return True

        monkeypatch.setattr(cat._Waiting, "wait", put_one_more)
        outcome = run(
            *("cat", tmp_path, "orders", "--follow", "--where", "amount = 1", "--format", "%s")
        )

    assert outcome.out.split() == ["first", "second"]
