"""Every error that Vestige raises on purpose, in one tree.

    VestigeError
    ├── ParameterError     a parameter is outside its limits             (also a ValueError)
    ├── DataError          a record cannot be taken as it is             (also a ValueError)
    ├── NoRecordsError     there is nothing to answer from
    ├── NoAnswerError      the records held do not determine the answer
    ├── RuleError          a policy broke a rule of the model
    ├── CheckError         a conformance check failed                    (also an AssertionError)
    ├── SourceError        a file of records cannot be read
    ├── StoreError         a store cannot be used as it is
    │   └── StoreBusyError another process holds it                      (nothing was changed: try again)
    └── MissingExtraError  an optional part is not installed             (also an ImportError)

A message names the parameter, its value, the limit and the remedy. It never carries a record's value: an error
log is retained data.
"""

from __future__ import annotations


class VestigeError(Exception):
    """The root: catch this to catch everything that Vestige raises on purpose."""


class ParameterError(VestigeError, ValueError):
    """A parameter is outside its limits."""


class DataError(VestigeError, ValueError):
    """A record cannot be taken as it is; nothing was taken."""


class NoRecordsError(VestigeError):
    """There is nothing to answer from: nothing has arrived, or everything had to be erased."""


class NoAnswerError(VestigeError):
    """The records so far do not determine the answer, for instance because two predictors say the same."""


class RuleError(VestigeError):
    """A policy broke a rule of the model; the update that it broke it in was not made."""


class CheckError(VestigeError, AssertionError):
    """A conformance check failed."""


class SourceError(VestigeError):
    """A file of records cannot be read."""


class StoreError(VestigeError):
    """A store cannot be used as it is; it is as it was before the call."""


class StoreBusyError(StoreError):
    """Another process holds the store; it is as it was before the call, which can be made again."""


class MissingExtraError(VestigeError, ImportError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra!r} extra; install it with: pip install 'vestige[{extra}]'")
