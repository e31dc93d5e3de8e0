"""Sources into streams: which row goes where, what is due meanwhile, and whether a source is still the same.

Guarantee: ingest knows sources by `vestige.sources.Source` only; held by tests/sources/test_protocol.py.
"""

from vestige.ingest.ingest import Ingest
from vestige.ingest.names import StreamNames
from vestige.ingest.trouble import Trouble
from vestige.ingest.verification import verify_sources

__all__ = ["Ingest", "StreamNames", "Trouble", "verify_sources"]
