"""Streams by key on Spark: the same policies and the same promises for the keys of a whole cluster."""

from __future__ import annotations

from vestige.spark.finish import finish
from vestige.spark.inspection import FilesReport, inspect_files
from vestige.spark.queries import keyed
from vestige.spark.settings import configure

__all__ = ["FilesReport", "configure", "finish", "inspect_files", "keyed"]
