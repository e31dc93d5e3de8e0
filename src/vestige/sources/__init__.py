"""Files of records, read as a stream: CSV, NDJSON and Parquet, also packed with gzip, or standard input.

A source yields blocks of whole records with their positions. Bytes come in by time or by size (`inlet`), are cut where
records end (`borders`), and each format (`delimited`, `ndjson`, `parquet`) makes columns of them (`block`).
Guarantee: the rows are those of Python's own csv and json modules at every block size, or the file is refused; no error
shows what a record holds; held by tests/sources/.
"""

from vestige.sources.block import Block
from vestige.sources.source import Source

__all__ = ["Block", "Source"]
