"""Removal on request: by the next update, or at once.

Footnote 2 of Section 2 of Immorlica et al. (2024); requests that are met at once, and by subject, are ours.
Guarantee: what was asked to go is gone in time, and the answer lives on where it can; held by
tests/stream/test_removal.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vestige.errors import DataError, ParameterError, StoreError
from vestige.records import Clock
from vestige.store import Receipt
from vestige.stream.masks import check_rewrite
from vestige.stream.runtime import check_rounds
from vestige.stream.updating import Updating
from vestige.types import Bools
from vestige.validation import check_bool


class Requests(Updating):
    """A stream that can be asked to forget."""

    def forget(
        self,
        *,
        rounds: int | Sequence[int] | NDArray[np.int64] | None = None,
        subject: str | None = None,
        now: bool = False,
        receipt_id: str | None = None,
    ) -> Receipt:
        """Ask for records to be removed: the next update may learn from them, not keep them.

        Args:
            rounds: those of the records; the records of other rounds stay.
            subject: whose records are to go, in place of `rounds`.
            now: erase them at once. What they helped to say is written into the newest records if there are enough, or
                into all that are left if that can be done; if not, the statistic starts again from the newest records,
                and says since when. Which of these happens depends on which records are still held; so from then on
                the clock depends on values too, through them. Records that go before an update has learned from them
                never count.
            receipt_id: sixteen hexadecimal digits for the receipt; default: random ones. A request whose receipt is
                there already is not carried out again, so that it can be repeated after a crash.

        Returns:
            a receipt, which says nothing of the records, not even whether there were any.
        """
        if (rounds is None) == (subject is None):
            raise ParameterError("forget takes rounds=... or subject=..., just one of them")
        check_bool("now", now)
        for receipt in self._receipts:
            if receipt.id == receipt_id:
                return receipt
        with self._lock:
            if self._place is not None:
                self._place.check_open()
            return self._forget(rounds, subject, receipt_id, now=now)

    def _forget(
        self,
        rounds: int | Sequence[int] | NDArray[np.int64] | None,
        subject: str | None,
        receipt_id: str | None,
        *,
        now: bool,
    ) -> Receipt:
        fresh, held = self._fresh, self._held
        waiting = np.arange(self._clock.last + 1, self._t + 1)
        if rounds is not None:
            asked = check_rounds(rounds, self._t)
            leaving, fresh_leaving = np.isin(held.rounds, asked), np.isin(waiting, asked)
        else:
            name = self._named(subject)
            leaving, fresh_leaving = held.subjects == name, fresh.subjects[: fresh.size] == name
        before, problem = self._kept(whole=True), None
        try:
            fresh.mark(fresh_leaving)
            self._held = held.with_leaving(held.leaving | leaving)
            due = self._t if now else self._clock.last + self._full
            self._receipts = (*self._receipts, Receipt.made(self._t, due, self.max_age, receipt_id))
            made = self._receipts[-1].id
            if now:
                problem = self._forget_now()
            else:
                self._save()
        except BaseException:
            self._return_to(before)
            raise
        if problem is not None:
            problem.add_note("The records that were to go are erased all the same.")
            raise problem
        return next(receipt for receipt in self._receipts if receipt.id == made)

    def _forget_now(self) -> Exception | None:
        """Erase what is leaving at once, whatever the policy does; what it raised, if it did.

        The batch is closed early if that can carry on what is known, and also if the answer would be written into kept
        records that could not wait for another batch.
        """
        made, problem, clock, t = None, None, self._clock, self._t
        try:
            early = self._can_close(self._enough)
            made = None if early else self._written_again()
            late = made is not None and made[0] > clock.last
            if early or (late and self._room(replace(clock, t=t, last=t)) < self._enough and self._can_close(1)):
                self._update()
                return None
        except StoreError:
            raise
        except Exception as trouble:  # the policy's, which comes after what has to be erased
            made, problem = None, trouble
        self._drop_leaving(made)
        return problem

    def _written_again(self) -> tuple[int, Bools] | None:
        """How the policy says the same without the records that are leaving; None if it cannot, or need not."""
        retained, clock = self.retained, self.clock
        if not self._all_or_nothing or not self._held.leaving.any():
            return None
        answer = self._policy.rewrite(clock.copy(), retained.shown(), self._coins(clock.t))
        return None if answer is None else check_rewrite(self._policy, answer, clock, retained)

    def _drop_leaving(self, made: tuple[int, Bools] | None) -> None:
        """Erase what is leaving; hold what was written again, or start over where what is known goes with it."""
        clock, t, retained = self._clock, self._t, self.retained
        if made is not None:
            last, keep = made
            self._clock = self._rewritten(last)
            retained = retained.where(keep)
        elif self._all_or_nothing and self._held.leaving.any():
            if clock.encoded:
                self._clock = Clock(clock.last, first=clock.last + 1, last=clock.last, since=clock.last + 1)
            retained = retained.where(~retained.leaving & (retained.rounds > clock.last))
        else:
            retained = retained.where(~retained.leaving)
        self._receipts = tuple(receipt.settled(t) for receipt in self._receipts)
        self._take_over(replace(self._clock, t=t), retained)
        self._unsaved = True
        self._save()

    def _rewritten(self, last: int) -> Clock:
        """The clock once the answer was written again into a batch up to `last`; what waited up to there is in it."""
        clock, waiting = self._clock, self._fresh.times[: self._fresh.size]
        if last == clock.last:
            return clock
        dues = [due for due in (clock.due, self._limits.due(waiting) if self._timed else None) if due is not None]
        gaps = clock.gaps + self._fresh.size - len(self._fresh.records(clock.last))
        return replace(clock, t=last, last=last, due=min(dues, default=None), updates=clock.updates + 1, gaps=gaps)

    def _named(self, subject: str | None) -> str | None:
        """What stands for a subject: a pseudonym in a store, itself elsewhere."""
        if subject is not None and not isinstance(subject, str):
            raise DataError(f"a subject is a {type(subject).__name__}; pass texts")
        if subject is None:
            return None
        try:
            subject.encode()
        except UnicodeEncodeError:
            raise DataError("a subject is not a valid text, since it has half of a character; correct it") from None
        return subject if self._place is None else self._place.store.pseudonym(subject)

    def _all_named(self, subjects: Iterable[str | None] | NDArray[np.object_]) -> NDArray[np.object_]:
        """What stands for subjects."""
        if isinstance(subjects, str | bytes) or not isinstance(subjects, Iterable):
            raise DataError(f"subjects is a {type(subjects).__name__}; pass one text or None per row")
        named = [self._named(subject) for subject in subjects]
        made = np.empty(len(named), np.object_)
        made[:] = named
        return made
