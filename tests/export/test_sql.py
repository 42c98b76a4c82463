"""`reput sql`: queries over the messages of a store, and how each of them ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import click
import pytest
from commands import commands
from exportedstores import make_store

import reput
from reput_arrow.export.command import sqlprompt
from reput_arrow.export.sqlquery.database import Database
from reput_arrow.export.sqlquery.errors import QueryError
from reput_arrow.export.sqlquery.logtable import Selected

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("sql") / "store")


@pytest.fixture
def run():
    with commands() as run:
        yield lambda path, *arguments, stdin=None: run("sql", path, *arguments, stdin=stdin)


@pytest.fixture
def database(made, tmp_path):
    opened = Database(Selected(path=str(made)), 256 << 20, str(tmp_path))
    yield opened
    opened.close()


def test_messages_are_counted_by_topic(made, run):
    outcome = run(made, "SELECT topic, count(*) AS n FROM messages GROUP BY topic ORDER BY topic")

    assert outcome.code == 0, outcome
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["topic", "n"],
        ["%RETRY%group", "400"],
        ["orders", "400"],
        ["plain|name", "400"],
    ]


def test_without_duckdb_the_extra_is_named(made, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)

    outcome = run(made, "SELECT 1")

    assert outcome.code == 5
    assert "reput sql needs duckdb" in outcome.err
    assert "reput-arrow[sql]: pip install './extras/arrow[sql]'" in outcome.err


def test_values_of_every_kind_are_json(made, run):
    query = (
        "SELECT keys, properties['number'] AS number, body, store_timestamp, NULL AS nothing, "
        "sum(queue_offset) OVER () AS total, properties FROM messages "
        "WHERE topic = 'orders' ORDER BY physical_offset LIMIT 1 OFFSET 2"
    )
    outcome = run(made, query, "--json")

    [row] = outcome.lines
    assert row == {
        "keys": ["k6"],
        "number": "6",
        "body": "6 " * 6,
        "store_timestamp": "2023-12-31 22:35:00",
        "nothing": None,
        "total": 2 * sum(range(200)),
        "properties": {"KEYS": "k6", "number": "6"},
    }


def test_csv_has_a_header_and_one_line_a_row(made, run):
    query = "SELECT topic, NULL AS a, 1.50 AS b, 1 AS b FROM messages WHERE topic = 'plain|name'"
    outcome = run(made, query, "--format", "csv")

    assert outcome.out.splitlines() == ["topic,a,b,b_1", *["plain|name,,1.50,1"] * 400]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT topic, count(*) FROM messages GROUP BY ALL", ("topic",)),
        ("SELECT max(topic) FROM messages WHERE queue_id = 0", ("topic", "queue_id")),
        ("SELECT count(*) FROM messages", ("physical_offset",)),
        ("WITH m AS (FROM messages) SELECT tags FROM m ORDER BY keys", ("tags", "keys")),
        (
            "SELECT (SELECT max(size) FROM messages b WHERE b.topic = a.topic) FROM messages a",
            ("topic", "size"),
        ),
    ],
)
def test_only_the_columns_that_a_query_needs_are_read(database, query, columns):
    answer = database.ask(query)

    assert list(answer.rows)
    assert answer.source.columns == columns


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT * EXCLUDE (body, properties) FROM messages LIMIT 1", "queue_id"),
        ("SELECT b FROM messages AS t(a, b) LIMIT 1", "b"),
        ("DESCRIBE messages", "column_name"),
    ],
)
def test_a_query_that_names_more_than_it_reads_gets_all_columns(database, query, names):
    answer = database.ask(query)

    assert names in answer.names
    assert len(list(answer.rows)) >= 1
    assert set(answer.source.columns) >= {"topic", "body", "properties", "store", "broker"}


def test_the_log_is_read_once_for_each_use_of_the_table(database):
    query = "SELECT count(*) FROM messages a JOIN messages b USING (physical_offset)"

    assert [list(database.ask(query).rows) for _ in range(2)] == [[(1_200,)], [(1_200,)]]


def test_rows_are_read_while_they_are_taken(database):
    answer = database.ask("SELECT body FROM messages")

    assert next(answer.rows) == ("",)
    assert answer.source.error is None


def test_options_select_messages(made, run):
    counted = "SELECT count(*) AS n FROM messages"

    assert run(made, counted, "-t", "orders", "--json").lines == [{"n": 400}]
    assert run(made, counted, "--since", "2024-01-01", "--json").lines == [{"n": 1_177}]
    assert run(made, counted, "--until", "2024-01-01", "--json").lines == [{"n": 23}]


def test_a_topic_without_messages_is_refused(made, run):
    counted = "SELECT count(*) AS n FROM messages"
    outcome = run(made, counted, "-t", "order")

    assert (outcome.code, outcome.out) == (3, "")
    assert "no message of topic 'order' in the log" in outcome.err
    assert run(made, counted, "-t", "order", "-t", "orders", "--json").lines == [{"n": 400}]


def test_a_mistyped_topic_is_suggested_and_a_deleted_one_is_read(tmp_path, run):
    pytest.importorskip("reput_consumequeue")
    with reput.open(tmp_path / "s", plugins=["consumequeue"]) as store:
        store.put(reput.Message("orders", b"1"))
        store.put(reput.Message("bills", b"2"))
    shutil.rmtree(tmp_path / "s" / "consumequeue" / "bills")

    outcome = run(tmp_path / "s", "SELECT body FROM messages", "-t", "order")
    deleted = run(tmp_path / "s", "SELECT body FROM messages", "-t", "bills", "--json")

    assert (outcome.code, outcome.out) == (3, "")
    assert "no topic 'order'; did you mean 'orders'?" in outcome.err
    assert deleted.lines == [{"body": "2"}]


def test_a_topic_that_is_taken_for_a_table_is_named_as_an_option(made, run):
    outcome = run(made, 'SELECT * FROM "plain|name"')

    assert outcome.code == 2
    assert "no table 'plain|name': the only table is messages; " in outcome.err
    assert "-t 'plain|name' reads only its messages" in outcome.err


def test_times_are_utc_beside_now(made, run):
    query = "SELECT count(*) AS n FROM messages WHERE store_timestamp < now() - INTERVAL 1 day"

    assert run(made, query, "--json").lines == [{"n": 1_200}]


def test_queries_come_from_standard_input(made, run):
    outcome = run(made, "--json", stdin="SELECT 1 AS a; SELECT ';' AS b;\n")

    assert outcome.lines == [{"a": 1}, {"b": ";"}]


def test_endless_input_is_refused(made, run):
    outcome = run(made, stdin="SELECT 1; " * (1 << 17))

    assert outcome.code == 2
    assert "1048576 characters" in outcome.err


@pytest.mark.parametrize(
    ("query", "code", "part"),
    [
        ("SELECT topics FROM messages", 2, '"topic"'),
        ("SELECT 1 FROM nothing", 2, "nothing"),
        ("SELEC 1", 2, "SELEC"),
        ("DROP TABLE messages", 2, "DROP is not a query"),
        ("COPY messages TO 'x.csv'", 2, "COPY is not a query"),
        ("SET memory_limit = '1GB'", 2, "SET is not a query"),
        ("SELECT * FROM read_csv('/etc/passwd')", 2, "disabled by configuration"),
        ("FROM 'x.csv'", 2, "x.csv"),
        (" ; ", 2, "no query"),
        ("SELECT CAST(topic AS INT) FROM messages", 5, "orders"),
    ],
)
def test_an_error_is_one_line_with_a_code(made, run, query, code, part):
    outcome = run(made, query)

    assert outcome.code == code, outcome
    assert outcome.err.startswith("reput: ")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err


def test_no_file_and_no_variable_of_the_program_is_a_table(database):
    secret = {"value": [1]}

    for name in ("secret", "database", "'README.md'"):
        with pytest.raises(QueryError):
            database.ask(f"FROM {name}")
    assert secret


def _damaged(path):
    make_store(path)
    [file, *_] = sorted((path / "commitlog").iterdir())
    with file.open("r+b") as opened:
        opened.seek(500)
        opened.write(b"\xff" * 64)
    return path


def test_damage_ends_a_query_or_is_left_out_and_reported(tmp_path, run):
    path = _damaged(tmp_path / "store")
    counted = "SELECT count(*) AS n FROM messages"

    failed = run(path, counted, "--json")
    skipped = run(path, counted, "--json", "--corrupt", "skip")

    assert failed.code == 1
    assert failed.err.startswith("reput: damaged: ")
    assert failed.out == ""
    assert skipped.code == 1
    assert 1_190 < skipped.lines[0]["n"] < 1_200
    assert "left out" in skipped.err


def test_a_store_that_grows_is_read_to_its_end_for_each_query(tmp_path):
    path = tmp_path / "store"
    (tmp_path / "spill").mkdir()
    with reput.open(path, plugins=()) as store:
        store.put(reput.Message("orders", b"1"))
        opened = Database(Selected(path=str(path)), 256 << 20, str(tmp_path / "spill"))
        before = list(opened.ask("SELECT count(*) FROM messages").rows)
        store.put(reput.Message("orders", b"2"))
        after = list(opened.ask("SELECT count(*) FROM messages").rows)
        opened.close()

    assert (before, after) == ([(1,)], [(2,)])


def test_an_interrupt_before_the_query_begins_ends_it_in_words(database):
    class Interrupted:
        """Refuses the call before the query, as DuckDB does after `Database.interrupt`."""

        def register(self, *_):
            raise duckdb.InterruptException("Interrupted!")

        def __getattr__(self, name):
            return getattr(runner, name)

    runner, database._runner = database._runner, Interrupted()

    with pytest.raises(QueryError, match="Interrupted"):
        database.ask("SELECT count(*) FROM messages")


def test_bodies_that_are_json_are_asked_by_their_fields(tmp_path, run):
    path = tmp_path / "store"
    with reput.open(path, plugins=()) as store:
        for amount in (5, 7):
            store.put(reput.Message("orders", json.dumps({"amount": amount}).encode()))
        store.put(reput.Message("orders", b"\xff{"))

    query = "SELECT sum(CAST(body->>'$.amount' AS INT)) AS s FROM messages WHERE json_valid(body)"
    assert run(path, query, "--json").lines == [{"s": 12}]


def test_the_prompt_joins_lines_and_goes_on_after_errors(made, capsys, database):
    lines = [
        "SELECT",
        " count(*) FROM messages;",
        "",
        "SELEC;",
        ".mode csv",
        "SELECT 2;",
        ".mode x",
    ]
    typed = iter([*lines, "SELECT 3 \\G", ".tables", "exit", "never"])
    asked, forms = [], []

    def answer(text, form):
        asked.append(text)
        forms.append(form)
        for query in database.statements(text):
            click.echo(*database.ask(query).rows)

    with pytest.raises(QueryError):
        sqlprompt.prompt(answer, read=lambda _: next(typed))
    sqlprompt.prompt(answer, read=lambda _: next(typed))

    assert asked == [
        *("SELECT\n count(*) FROM messages;", "SELEC;"),
        *("SELECT 2;", "SELECT 3 ", "SHOW TABLES"),
    ]
    assert forms == [None, None, "csv", "line", "csv"]
    assert next(typed) == "never"
    out, err = capsys.readouterr()
    assert out.splitlines() == ["(1200,)", "(2,)", "(3,)", "('messages',)"]
    assert "expects one of table, line, csv, jsonl" in err


@pytest.mark.parametrize(
    ("text", "code", "out", "err"),
    [
        (".tables", 0, "name\nmessages\n", ""),
        ("SELECT 1 AS a;\n.mode csv\n\nSELECT 2\n AS b", 0, "a\n1\nb\n2\n", ""),
        ("SELECT 1 AS a \\G\nSELECT 2 AS b;\nexit\nnever", 0, "a = 1\nb\n2\n", ""),
        ("SELECT 1 +\n.5 AS a", 0, "  a\n1.5\n", ""),
        ("SELECT 1 AS a;\n.dump", 2, "a\n1\n", "commands are .tables, .schema, .mode"),
        (".mode x", 2, "", "expects one of table, line, csv, jsonl"),
        (".help", 0, "", "DESCRIBE messages;"),
        (".mode csv\nSELECT 'x;\nhelp\n' AS a;", 0, 'a\n"x;\nhelp\n"\n', ""),
        (".mode csv\nSELECT $b$;\n.y\n$b$ AS a;", 0, 'a\n";\n.y\n"\n', ""),
        (".mode csv\nSELECT e'\\';\n.y' AS a;", 0, 'a\n"\';\n.y"\n', ""),
        ('.mode csv\nSELECT 1 AS ";\n.x";\n.mode table', 0, '";\n.x"\n1\n', ""),
        ("SELECT 1 AS a; /* ;\n/* */ .dump\n.dump */", 0, "a\n1\n", ""),
        ("SELECT length('a\r\nb\x0c\x85\u2028') AS a", 0, "a\n7\n", ""),
        ("SELECT 1 AS a; SELECT 2 AS b\\G;\r\n;", 0, "a\n1\nb = 2\n", ""),
        ("SELECT ' \\G\n' AS a \\G -- b", 0, "a =  \\G\\n\n", ""),
        ("SELECT 1 AS a; -- it's\n.tables\n-- done;", 0, "a\n1\nname\nmessages\n", ""),
        (" -- ;\n;", 2, "", "no query: give QUERY"),
        ("/* ;\n.tables", 2, "", "unterminated"),
    ],
)
@pytest.mark.parametrize("is_piped", [True, False])
def test_a_text_may_have_commands_between_queries(made, run, is_piped, text, code, out, err):
    outcome = run(made, stdin=text) if is_piped else run(made, text)

    assert (outcome.code, outcome.out) == (code, out)
    assert err in outcome.err


@pytest.mark.parametrize("before", [[], ["select 8"]])
@pytest.mark.parametrize("word", ["exit", "quit;", "\\q", ".exit"])
def test_the_prompt_ends_at_a_word_even_inside_of_a_query(before, word):
    typed = iter([*before, word, "never"])

    sqlprompt.prompt(lambda *_: None, read=lambda _: next(typed))

    assert next(typed) == "never"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("help", "DESCRIBE messages;"),
        ("\\?", "DESCRIBE messages;"),
        (".dump", "commands are .tables"),
    ],
)
def test_the_prompt_explains_itself(word, shown, capsys):
    asked = []
    typed = iter([word, "SELECT 1;", ";", "-- a", word, "SELECT ';", word, "'; -- a", "exit"])

    sqlprompt.prompt(lambda text, _: asked.append(text), read=lambda _: next(typed))

    assert asked == ["SELECT 1;", f"SELECT ';\n{word}\n'; -- a"]
    assert capsys.readouterr().err.partition("exit or Ctrl-D to end.")[2].count(shown) == 2


@pytest.mark.costly
def test_the_end_of_the_process_prints_nothing_more(made):
    command = [sys.executable, "-m", "reput", "sql", str(made), "SELECT 1 AS one", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ('{"one":1}\n', "")
