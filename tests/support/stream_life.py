"""A query from one store into another that runs until it is killed; a script of its own.

python stream_life.py SOURCE TARGET CHECKPOINT
"""

from __future__ import annotations

import sys

ROWS = 40
"""Of a batch."""


def main(source, target, checkpoint):
    from reput_spark import local_session

    spark = local_session("local[1]", quick=True, config={"spark.driver.memory": "1g"})
    log = (
        spark.readStream.format("reput")
        .options(columns="*", max_records_per_batch=ROWS)
        .load(source)
    )
    writer = log.writeStream.format("reput").option("checkpointLocation", checkpoint)
    writer.option("file_size", 16_384).trigger(processingTime="0 seconds").start(
        target
    ).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
