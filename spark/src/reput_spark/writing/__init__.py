"""DataFrames as log files of a store: staged by tasks, numbered, published."""
