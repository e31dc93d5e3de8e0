"""Every error that Vestige raises on purpose, in one tree.

    VestigeError
    ├── ParameterError     a parameter is out of range                   (also a ValueError)
    ├── DataError          a record cannot be accepted                   (also a ValueError)
    ├── NoRecordsError     there are no records to answer from
    ├── NoAnswerError      the records held do not determine the answer
    ├── RuleError          a policy broke a rule of the model
    ├── CheckError         a conformance check failed                    (also an AssertionError)
    ├── StreamsError       some of many streams failed                   (the others did not)
    ├── SourceError        a source of records cannot be read
    ├── StoreError         a store cannot be used in its present state
    │   ├── StoreBusyError another process holds the store               (nothing was changed: try again)
    │   └── NoStoreError   there is no store at the address
    ├── ServiceError       a service refused a call, or did not answer
    ├── SignatureError     a signed file is not what was signed
    └── MissingExtraError  an optional dependency is not installed       (also an ImportError)

A message names the parameter, its value, the limit and the remedy. It never contains the value of a record: an error
log is retained data.
Guarantee: the tree is complete and exported from `vestige`; held by tests/test_public.py.
"""

from __future__ import annotations

from collections.abc import Mapping


class VestigeError(Exception):
    """Base class of all errors that Vestige raises on purpose."""


class ParameterError(VestigeError, ValueError):
    """A parameter is out of range."""


class DataError(VestigeError, ValueError):
    """A record cannot be accepted; none of the call's records was."""


class NoRecordsError(VestigeError):
    """There are no records to answer from: none has arrived, or all had to be erased."""


class NoAnswerError(VestigeError):
    """The records so far do not determine the answer, for instance because two predictors are collinear."""


class RuleError(VestigeError):
    """A policy broke a rule of the model; the update in which it did was not made."""


class CheckError(VestigeError, AssertionError):
    """A conformance check failed."""


class StreamsError(VestigeError):
    """Some of many streams failed, and the others did not.

    Args:
        message: what failed first, and what became of the others.
        troubles: what was raised in each stream that failed, by key.
    """

    def __init__(self, message: str, troubles: Mapping[str, Exception]) -> None:
        super().__init__(message)
        self.troubles = troubles


class SourceError(VestigeError):
    """A source of records cannot be read."""


class StoreError(VestigeError):
    """A store cannot be used in its present state; the call did not change it."""


class StoreBusyError(StoreError):
    """Another process holds the store, or a stream of it; the call did not change it and can be repeated.

    Args:
        message: who holds what.
        stream: the name of the stream that is held; None if it is the store.
    """

    def __init__(self, message: str, stream: str | None = None) -> None:
        super().__init__(message)
        self.stream = stream


class NoStoreError(StoreError):
    """There is no store at the address; nothing was created."""


class ServiceError(VestigeError):
    """A service refused a call, or did not answer.

    Args:
        message: what happened, what became of the call, and what to do.
        status: the status of HTTP; None if there was no answer.
        detail: what the service said, or why there was no answer.
        key: for rows, the key to send them with again; None otherwise.
        is_uncertain: whether the call may have been carried out nevertheless.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        detail: str = "",
        key: str | None = None,
        is_uncertain: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.detail, self.key, self.is_uncertain = status, detail, key, is_uncertain


class SignatureError(VestigeError):
    """A signed file is not what was signed, or cannot be checked."""


class MissingExtraError(VestigeError, ImportError):
    """An optional dependency is not installed.

    Args:
        what: the feature that needs it.
        extra: name of the extra that installs it.

    Example:
        >>> print(MissingExtraError("vestige.river", "river"))
        vestige.river needs the 'river' extra; install it with: pip install 'vestige[river]'
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra!r} extra; install it with: pip install 'vestige[{extra}]'")
