"""Parts of a proof: together they are all of it, and each is some of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reput_testing.casebudget import is_last_part, is_whole, least_count, part, part_of_count


@pytest.fixture(autouse=True)
def no_soak(monkeypatch):
    monkeypatch.delenv("REPUT_SOAK", raising=False)
    monkeypatch.delenv("REPUT_PROOFS", raising=False)


def test_without_a_part_all_is_tried():
    assert (part(range(5)), part_of_count(5)) == (range(5), 5)


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("length", [7, 8, 50])
def test_parts_together_are_all_and_none_is_tried_twice(monkeypatch, count, length):
    tried = []
    for number in range(1, count + 1):
        monkeypatch.setenv("REPUT_PROOFS", f"{number}/{count}")
        tried += part(list(range(length)))

    assert sorted(tried) == list(range(length))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 50])
def test_several_parts_are_tried_in_one_run(monkeypatch, length):
    cases = list(range(length))
    monkeypatch.setenv("REPUT_PROOFS", "1/4")
    first, kills = part(cases), part_of_count(100)
    monkeypatch.setenv("REPUT_PROOFS", "2-4/4")

    others, more = part(cases), part_of_count(100)

    assert others == sorted(others)
    assert (set(first) | set(others), kills + more) == (set(cases), 100)
    if length >= 4:
        assert not set(first) & set(others)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_part_has_a_case_if_there_is_one(monkeypatch, number):
    monkeypatch.setenv("REPUT_PROOFS", f"{number}/4")

    assert (list(part(["one"])), list(part([])), part_of_count(1)) == (["one"], [], 1)


@pytest.mark.parametrize(
    ("parts", "is_last"), [("1/4", False), ("1-3/4", False), ("2-4/4", True), ("4/4", True)]
)
def test_what_cannot_be_parted_is_tried_with_the_last_part(monkeypatch, parts, is_last):
    assert is_last_part()
    monkeypatch.setenv("REPUT_PROOFS", parts)

    assert is_last_part() == is_last


def test_a_commit_chooses_one_case_and_all_commits_together_all_cases(monkeypatch):
    tried = set()
    for number in range(200):
        monkeypatch.setenv("REPUT_PROOFS", f"one:{number:040x}")
        (case,) = part(list(range(7)))
        assert list(part(list(range(7)))) == [case]
        tried.add(case)

    assert tried == set(range(7))
    assert (list(part([])), part_of_count(9), least_count(9)) == ([], 1, 1)
    assert not is_last_part()
    assert not is_whole()


def test_a_soak_tries_all_parts(monkeypatch):
    monkeypatch.setenv("REPUT_PROOFS", "2/2")
    monkeypatch.setenv("REPUT_SOAK", "1")

    assert (part(range(5)), part_of_count(5)) == (range(5), 5)


@pytest.mark.parametrize(
    "text",
    [
        "half",
        "one",
        "one:",
        "one:xyz",
        "0/2",
        "3/2",
        "1/0",
        "/",
        "1/",
        "-1/2",
        "2-1/2",
        "1-3/2",
        "1-/2",
    ],
)
def test_a_part_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("REPUT_PROOFS", text)

    with pytest.raises(ValueError, match="REPUT_PROOFS: one:SEED, NUMBER/COUNT or"):
        part(range(5))


@pytest.mark.parametrize("is_proof", [False, True])
def test_the_commits_together_try_every_costly_test_and_every_case_of_a_costly_proof(
    monkeypatch, request, is_proof
):
    plugins = request.config.pluginmanager.get_plugins()
    (is_chosen,) = [each._is_chosen for each in plugins if hasattr(each, "_is_chosen")]
    tried = set()
    for number in range(256):
        monkeypatch.setenv("REPUT_PROOFS", f"one:{number:040x}")
        for test in range(20):
            mark = SimpleNamespace(
                nodeid=f"t.py::test_{test}", get_closest_marker=lambda _: is_proof
            )
            if is_chosen(mark):
                tried.add((number, test, part(range(4))[0]))

    assert {(test, case) for _, test, case in tried} == {
        (t, c) for t in range(20) for c in range(4)
    }
    assert 0.2 < len(tried) / (256 * 20) < 0.3
