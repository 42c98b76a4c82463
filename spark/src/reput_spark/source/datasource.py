"""The data source ``reput``: options and schemas in, a reader or a writer out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from reput_spark.errors import SparkReputError
from reput_spark.reading.options import ReadOptions
from reput_spark.reading.stream.options import StreamOptions
from reput_spark.source.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["ReputDataSource"]


class ReputDataSource(DataSource):
    """``spark.read.format("reput").load(path)``."""

    @classmethod
    def name(cls) -> str:
        """Its name for ``format``."""
        return "reput"

    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(dict(self.options))

    def schema(self) -> StructType:
        """All columns; ``.schema("topic string, …")`` is how to ask for fewer."""
        # Spark does not say whether it asks for a read or for a stream; that comes behind it.
        options = ReadOptions.parse(dict(self.options), StreamOptions.names())
        return spark_schema(collects=options.corrupt == "collect")

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in ``schema``."""
        from reput_spark.source.reader import LogView, PushingLogReader

        options = self._read_options()
        kind = PushingLogReader if options.pushdown else LogView
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A stream of the columns in ``schema``."""
        from reput_spark.source.streamreader import LogStreamReader

        return LogStreamReader(StreamOptions.parse(dict(self.options)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A stream of messages into a store."""
        from reput_spark.source.streamwriter import LogStreamWriter
        from reput_spark.writing.stream.options import SinkOptions

        if overwrite:
            raise SparkReputError(
                "OPTION", "outputMode is complete; a log is never written over: append or update"
            )
        return LogStreamWriter(SinkOptions.parse(dict(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of messages into a store."""
        from reput_spark.source.writer import writer_of
        from reput_spark.writing.options import WriteOptions

        return writer_of(WriteOptions.parse(dict(self.options)), schema, overwrite=overwrite)
