"""Sources of records: a protocol, and its implementation for files and standard input.

A `Source` yields blocks of rows with positions (`protocol`, `block`). A `FileSource` reads bytes by time or by size
(`chunks`), splits them where records end (`boundaries`), lets each format parse them (`formats`, `delimited`, `ndjson`,
`parquet`) and makes blocks of the columns (`columns`, `timestamps`). It recognises a file that it has read
before (`identity`, `comparison`, `resumption`).
Guarantee: the rows are those of Python's own csv and json modules at every block size, or the file is refused; no error
shows what a record holds; held by tests/sources/.
"""

from vestige.sources.block import Block
from vestige.sources.dialect import Dialect
from vestige.sources.file import FileSource
from vestige.sources.protocol import History, IfReplaced, Resumption, Source

__all__ = ["Block", "Dialect", "FileSource", "History", "IfReplaced", "Resumption", "Source"]
