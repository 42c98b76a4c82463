"""The data source ``reput``: takes options and a schema, and gives a reader or a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from reput_spark.errors import SparkReputError
from reput_spark.reader.options import ReadOptions, without_table_properties
from reput_spark.reader.stream.options import StreamOptions
from reput_spark.source.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class ReputDataSource(DataSource):
    """What ``format("reput")`` names: reads, writes and streams of logs."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "reput"

    def _read_options(self) -> ReadOptions:
        options = ReadOptions.parse(dict(self.options))
        if not options.paths:
            raise SparkReputError(
                "OPTION",
                "no path was given: load(path), or several paths. Spark does not tell the path of "
                "a table to a source in Python: SELECT … FROM name WITH (path '…')",
            )
        return options

    def schema(self) -> StructType:
        """Return the columns of a frame for which no schema was given."""
        # Spark does not say here whether it plans a read or a stream.
        given = without_table_properties(dict(self.options))
        options = ReadOptions.parse(given, StreamOptions.names())
        return spark_schema(options.columns, collects=options.corrupt == "collect")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in ``schema``."""
        from reput_spark.source.reader import LogView

        return LogView(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a stream of the columns in ``schema``."""
        from reput_spark.source.streamreader import LogStreamReader

        return LogStreamReader(StreamOptions.parse(dict(self.options)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return what puts a stream of messages into a store."""
        from reput_spark.source.streamwriter import LogStreamWriter
        from reput_spark.writer.options import SinkOptions

        if overwrite:
            raise SparkReputError(
                "OPTION", "outputMode is complete; a log is never written over: append or update"
            )
        return LogStreamWriter(SinkOptions.parse(dict(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of messages into a store."""
        from reput_arrow.logwriter.writeoptions import WriteOptions
        from reput_spark.source.writer import writer_of

        return writer_of(WriteOptions.parse(dict(self.options)), schema, overwrite=overwrite)
