"""Redis Streams as a source: entries are rows, their fields are columns.

`source` has the rule that makes each entry count once.
Guarantee: each entry is counted once, wherever the reader or the server is killed; held by
tests/sources/test_redis_killed.py.
"""

from vestige.sources.redis.source import RedisSource

__all__ = ["RedisSource"]
