"""Errors of reput-spark, those of reput-arrow: each text begins with a code.

Spark keeps only the text of an exception that is raised in one of its Python workers. By the code
a caller who catches Spark's own error recognises ours.
"""

from __future__ import annotations

from reput_arrow.codederrors import CodedError as SparkReputError
from reput_arrow.codederrors import code_of, reading_with_code, with_code

__all__ = ["SparkReputError", "code_of", "reading_with_code", "with_code"]
