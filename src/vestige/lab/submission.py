"""A policy of somebody else runs in an experiment, beside those that are there, over the same random numbers.

Guarantee: its results say which file made them, and one that fails is named without the value of a record; held by
tests/lab/test_submission.py.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

from vestige.errors import CheckError, ParameterError, VestigeError
from vestige.policy import Policy
from vestige.serialization import to_dict
from vestige.validation import show_value

Place = Mapping[str, str | int | float]
"""A point of a grid without the policy: parameters by name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a policy comes from.

    Attributes:
        name: name of the file, or of a package with its version.
        digest: SHA-256 of the file in which the policy is defined, in hexadecimal digits.
        path: the file, so that other machines can be sent it; None for a package, which they must have.
    """

    name: str
    digest: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A policy that enters experiments.

    Attributes:
        name: its name in results, tables and figures.
        policy: the policy; an estimate of the mean of each column is what the experiments measure.
        origin: where it comes from.
    """

    name: str
    policy: Policy
    origin: Origin

    @classmethod
    def from_policy(cls, policy: Policy, name: str | None = None) -> Submission:
        """Make a submission of a policy whose class is defined in a file.

        Args:
            policy: the policy.
            name: its name in results; default: that of its class.

        Returns:
            The submission.

        Raises:
            ParameterError: it is not a policy, or its class is not defined in a file.

        Example:
            >>> from vestige import Mean
            >>> Submission.from_policy(Mean(tolerance=1.0), "coarse").origin.name
            'mean.py'
        """
        if not isinstance(policy, Policy):
            raise ParameterError(
                f"policy={show_value(policy)} is not a vestige.Policy; pass one, such as vestige.Mean()"
            )
        try:
            path = Path(inspect.getfile(type(policy)))
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, TypeError):
            raise ParameterError(
                f"{type(policy).__name__} is not defined in a file; move it to a module, so that results can say which"
            ) from None
        return cls(name or type(policy).__name__, policy, Origin(path.name, digest, str(path)))

    def __call__(self, dim: int = 1) -> Policy:
        """Make the policy for records of several columns.

        Args:
            dim: number of columns.

        Returns:
            The policy.

        Raises:
            ParameterError: it cannot be made for so many.
        """
        policy = self.policy
        if policy.columns != dim and is_dataclass(policy) and any(each.name == "dim" for each in fields(policy)):
            policy = replace(policy, dim=dim)
        if policy.columns != dim:
            columns = f"{policy.columns} column{'s'[: policy.columns > 1]}"
            raise ParameterError(
                f"{self.name} takes records of {columns}, not of {dim}; give its class a field dim, and let its "
                "property columns return that"
            )
        return policy

    @property
    def digest(self) -> str:
        """Digest of the file and of the parameters of the policy: another one has results of its own."""
        told = json.dumps([self.name, self.origin.digest, to_dict(self.policy)])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def describe(self) -> str:
        """Describe where it comes from.

        Returns:
            A phrase with the file and its hash.

        Example:
            >>> from vestige import Mean
            >>> Submission("mine", Mean(), Origin("mine.py", "3fa9c2d1" * 8)).describe()
            'mine, from mine.py (SHA-256 3fa9c2d1...)'
        """
        return f"{self.name}, from {self.origin.name} (SHA-256 {self.origin.digest[:8]}...)"

    def explain_failure(self, problem: Exception, where: str) -> CheckError:
        """Make the error for a trial that failed: what was raised and where, without the values that it may hold.

        Args:
            problem: what was raised.
            where: the experiment, the point and the trial.

        Returns:
            The error to raise.
        """
        said = str(problem) if isinstance(problem, VestigeError) else type(problem).__name__
        frames = traceback.extract_tb(problem.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self.origin.path]
        line = f" in line {lines[-1]} of {self.origin.name}" if lines else ""
        return CheckError(f"{self.name}, from {self.origin.name}, failed in {where}: {said}{line}")


@dataclass(frozen=True, slots=True)
class Contest:
    """How somebody else's policy is tried in an experiment.

    Attributes:
        dim: number of columns of the records.
        places: where it is tried: the points of the grid, without the policy.
        measures: the measurements to show in a table, by their labels there.
        retention: retention of the streams, where it is not a parameter of the grid.
    """

    dim: int
    places: tuple[Place, ...]
    measures: Mapping[str, str]
    retention: int = 0

    def find_places(self, submission: Submission) -> list[Place]:
        """Find where a policy can run.

        Args:
            submission: the policy.

        Returns:
            The places whose batches are neither too small nor too large for it.

        Raises:
            ParameterError: there is none, or the policy does not take records of so many columns.

        Example:
            >>> from vestige import Mean
            >>> contest = Contest(1, ({"retention": 16}, {"retention": 128}), {})
            >>> contest.find_places(Submission.from_policy(Mean()))
            [{'retention': 128}]
        """
        policy = submission(self.dim)
        batches = {self._find_batch(place): place for place in self.places}
        least, most = policy.min_batch, policy.max_batch or max(batches)
        found = [place for place in self.places if least <= self._find_batch(place) <= most]
        if not found:
            raise ParameterError(
                f"{submission.name} works with batches of {least:,} records or more"
                f"{'' if policy.max_batch is None else f', and {policy.max_batch:,} or fewer'}; these have "
                f"{min(batches):,} to {max(batches):,}"
            )
        return found

    def _find_batch(self, place: Place) -> int:
        return int(place.get("retention", self.retention)) // 2
