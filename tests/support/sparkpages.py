"""Runs every snippet of pages about Spark in their order, in the current directory: a program.

    python sparkpages.py TIMES PAGE...

It prints ``page number`` before each snippet, so that the last line names the one that failed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import reput
from reput_spark import local_session

CONFIG = {"commitlog": {"file_size": 1 << 20}}
# Those that a snippet opens or begins by itself: as it does, but without a GiB for each.
STORES = {
    "orders-store": {},
    "orders-copy": {},
    "store": {"plugins": ["consumequeue", "index"]},
    "prices": {"plugins": []},
}


def main(times: int, pages: list[str]) -> None:
    """Run the snippets of all pages ``times`` times."""
    for name, options in STORES.items():
        reput.open(name, config=CONFIG, **options).close()
    # Pages begin with `local_session()`, which is this one then.
    spark = local_session(
        "local[2]",
        quick=True,
        config={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-Xshare:auto",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    for time in range(times):
        for page in pages:
            names: dict[str, object] = {}
            text = Path(page).read_text(encoding="utf-8")
            blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
            for number, block in enumerate(blocks):
                sys.stdout.write(f"--- {time} {Path(page).name} {number}\n")
                sys.stdout.flush()
                code = block.replace("64 << 20", "1 << 20")
                exec(compile(code, f"{page}, snippet {number}", "exec"), names)
            assert not spark.streams.active, f"{page} left a query that runs"
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
