"""A Spark session on this machine: its Java, its classes, its Python."""
