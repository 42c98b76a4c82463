"""Findings: how severe they are, how many are kept, and how they read as JSON."""

from __future__ import annotations

import json

import pytest

from reput_tools.doctor.findings import (
    Checked,
    Finding,
    Findings,
    NotChecked,
    Report,
    Severity,
    TouchedMessage,
)


def finding(severity=Severity.DAMAGE, kind="index.bytes", position=40, **fields):
    return Finding(
        severity=severity,
        kind=kind,
        part=kind.partition(".")[0],
        file="index/20260101000000000",
        position=position,
        found="00",
        expected="01",
        advice="reput rebuild PATH index",
        **fields,
    )


def report_of(findings):
    return Report(
        path="/store",
        findings=findings,
        counts=findings.counts,
        worst=findings.worst,
        checked=Checked(log_bytes=186, messages=1, plugins=["index"]),
        not_checked=[NotChecked("words", "it is not installed")],
        seconds=0.5,
    )


def test_severities_are_ordered_and_each_has_an_exit_code_of_its_own():
    assert sorted(Severity) == [
        Severity.NOTICE,
        Severity.WARNING,
        Severity.DAMAGE,
        Severity.LOSS,
    ]
    assert [each.exit_code for each in Severity] == [0, 7, 1, 8]


def test_the_first_findings_of_each_kind_are_kept_and_all_are_counted():
    findings = Findings(per_kind=2)

    findings.extend(finding(position=at) for at in range(5))
    findings.add(finding(Severity.LOSS, "log.body-crc"))
    findings.add_count("index.bytes", Severity.DAMAGE, 10)

    assert [(each.kind, each.position) for each in findings] == [
        ("log.body-crc", 40),
        ("index.bytes", 0),
        ("index.bytes", 1),
    ]
    assert findings.counts == {"index.bytes": 15, "log.body-crc": 1}


@pytest.mark.parametrize(
    ("severities", "worst", "code"),
    [
        ([], None, 0),
        ([Severity.NOTICE], Severity.NOTICE, 0),
        ([Severity.WARNING, Severity.NOTICE], Severity.WARNING, 7),
        ([Severity.DAMAGE, Severity.WARNING], Severity.DAMAGE, 1),
        ([Severity.DAMAGE, Severity.LOSS, Severity.NOTICE], Severity.LOSS, 8),
    ],
)
def test_the_worst_finding_decides_the_exit_code(severities, worst, code):
    findings = Findings(per_kind=0)  # also of those that are only counted
    findings.extend(finding(each) for each in severities)

    report = report_of(findings)

    assert (report.worst, report.exit_code) == (worst, code)
    assert report.is_healthy == (code == 0)


def test_a_report_is_plain_json():
    findings = Findings()
    findings.add(finding(messages=[TouchedMessage("news", 3, 7, "k\u202e")], message_count=1))

    document = json.loads(json.dumps(report_of(findings).as_json()))

    assert document["worst"] == "damage"
    assert document["findings"][0]["severity"] == "damage"
    assert document["findings"][0]["messages"] == [
        {
            "topic": "news",
            "queue_id": 3,
            "queue_offset": 7,
            "key": "k\u202e",
            "physical_offset": None,
        }
    ]
    assert document["not_checked"] == [{"part": "words", "reason": "it is not installed"}]


def test_a_message_of_which_little_is_known_says_so():
    assert str(TouchedMessage("news", 3, 7, "a")) == "news/3@7 key a"
    assert str(TouchedMessage(physical_offset=5)) == "?/?@?"
