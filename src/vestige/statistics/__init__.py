"""What is tracked: how records become atoms, how one batch moves the estimate, how the answer is read off it."""

from vestige.statistics.averages import Mean, RunningAverage

__all__ = ["Mean", "RunningAverage"]
