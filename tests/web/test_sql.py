"""Queries in SQL: rows in each form, and limits."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest
from webpages import Elements, pages, story_store

pytest.importorskip("duckdb")
COUNTS = "SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY topic"


@pytest.mark.costly
def test_rows_are_shown_drawn_and_downloaded(story):
    expected = [["%DLQ%billing", 1], ["%RETRY%billing", 2]]
    expected += [["SCHEDULE_TOPIC_XXXX", 2], ["orders", 151], ["payments", 50]]

    document = story.get("/sql.json", params={"q": COUNTS}).json()
    page = story.get("/sql", params={"q": COUNTS}).text
    text = story.get("/sql.csv", params={"q": COUNTS})
    file = story.get("/sql.parquet", params={"q": "SELECT * FROM messages"})

    assert (document["columns"], document["rows"]) == (["topic", "n"], expected)
    assert "%DLQ%billing" in Elements(page).text
    assert 'class="chart"' in page
    assert text.text.splitlines()[:2] == ["topic,n", "%DLQ%billing,1"]
    table = pq.read_table(io.BytesIO(file.content))
    assert table.num_rows == 206
    for answer in (text, file):
        assert answer.headers["content-disposition"].startswith("attachment")


def test_each_example_of_the_page_has_rows(story):
    links = [each for each in Elements(story.get("/sql").text).links() if "/sql?q=" in each]

    found = [story.get(each.replace("/sql?", "/sql.json?")) for each in links]

    assert [answer.status_code for answer in found] == [200] * len(links)
    assert all(answer.json()["rows"] for answer in found)
    assert len(links) > 2


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("DROP TABLE messages", "not a query"),
        ("SELECT 1; SELECT 2", "One query"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT nothing FROM messages", "nothing"),
        ("SELECT * FROM orders", "only table is messages"),
        ("COPY messages TO '/tmp/x'", "not a query"),
        ("S" * 7_000, "characters"),
        ("SELECT", "SQL"),
    ],
)
def test_what_is_no_query_is_refused_with_its_reason(story, query, text):
    answer = story.get("/sql.json", params={"q": query})

    assert answer.status_code == 400
    assert text in answer.json()["error"]
    assert story.get("/sql", params={"q": query}).status_code == 400


@pytest.mark.parametrize("seconds", [0.3, 1e-9])  # the latter is over before the query begins
def test_a_query_ends_when_its_time_is_over(tmp_path, seconds):
    query = (
        "SELECT count(*) FROM range(100000000000) a, range(1000000) b WHERE a.range % 7 = b.range"
    )

    with pages(story_store(tmp_path / "store"), query_seconds=seconds) as client:
        answer = client.get("/sql.json", params={"q": query})

    assert answer.status_code == 400
    assert f"{seconds:g} s" in answer.json()["error"]


@pytest.mark.costly
def test_a_large_answer_is_cut_and_says_so(story):
    query = "SELECT repeat('x', 1000000) FROM range(1000)"

    document = story.get("/sql.json", params={"q": query}).json()

    assert document["has_more"]
    assert 30 < len(document["rows"]) < 40
