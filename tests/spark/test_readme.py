"""The snippets of the distribution's README run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import reput

README = Path(__file__).resolve().parents[2] / "extras/spark/README.md"


def bodies_in(path):
    with reput.open(path, "r", plugins=()) as store:
        return [bytes(body) for batch in store.scan() for body in batch.body.as_bytes()]


def test_the_snippets_of_the_readme_run_in_their_order(spark, tmp_path, capfd):
    with reput.open(tmp_path / "orders-store", plugins=()) as store:
        for number in range(3):
            store.put(reput.Message("orders", b"order %d" % number))
    rows = spark.createDataFrame([("orders", bytearray(b"a row"))], "topic string, body binary")
    rows.write.parquet(str(tmp_path / "orders"))
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    # Spark works in another directory, and a process has one session.
    paths = re.compile(r'"(orders-store|orders|copy|checkpoint|new-store)"')
    names = {"session": spark}

    for snippet in snippets:
        text = paths.sub(lambda path: f'"{tmp_path / path[1]}"', snippet)
        text = text.replace("local_session()", "session")
        exec(compile(text, "extras/spark/README.md", "exec"), names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()

    assert len(snippets) == 3
    assert "orders|    3|" in capfd.readouterr().out
    assert bodies_in(tmp_path / "copy") == [b"order 0", b"order 1", b"order 2"]
    assert bodies_in(tmp_path / "new-store") == [b"a row"]
