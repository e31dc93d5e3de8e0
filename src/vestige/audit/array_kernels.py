"""Trials of the audit game as numbers in arrays, in the very kernels that streams run on.

A trial is a function of its number: from it come the records, if each trial draws its own, and the coins. What is
observed is the answer right after an update, which says as much as the retained rounds and their number do.
Guarantee: each answer is that of a `vestige.Stream` with the same records and seed, bit for bit; held by
tests/audit/test_array_game.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige._numba import inner_kernel, kernel
from vestige.channels.averages import Scratch, advance_with, make_scratch
from vestige.channels.kernels import BITS
from vestige.channels.residues import decode_place, encode_place, find_dither
from vestige.channels.word import find_key
from vestige.noise.sums import average_with_noise
from vestige.random.kernels import draw, draw_uniform
from vestige.random.keys import SECRET_WORDS
from vestige.statistics.kernels import find_share
from vestige.types import Bools, Floats, Ints, Words

COINS, RECORDS = 1, 2
"""What is derived from the key of a trial."""
RATE = 17
"""Words that SHAKE-256 gives or takes at a time."""
STATE = 25
"""Words of its state."""
_ONE, _WORD = np.uint64(1), np.uint64(64)
_ROUNDS = 24
_TURNS = np.array([1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44])
_PLACES = np.array([10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1])
_END, _LAST = np.uint64(0x1F), np.uint64(1 << 63)


def _list_constants() -> NDArray[np.uint64]:
    """The constants of the rounds of Keccak, from its shift register."""
    constants, register = [], 1
    for _ in range(_ROUNDS):
        word = 0
        for j in range(7):
            word |= (register & 1) << ((1 << j) - 1)
            register = (register << 1) ^ ((register >> 7) * 0x171)
        constants.append(word)
    return np.array(constants, np.uint64)


_CONSTANTS = _list_constants()


class Known(NamedTuple):
    """What all trials of a private average share: sums of the batches, whose records the adversary knows.

    Attributes:
        sums: exact sums of the batches, in steps of the grid; shape (batches,).
        batch: records in a batch.
        step: the step of the grid.
        deviation: the standard deviation of the noise, in steps.
        limit: the largest number that can be written.
        bits: bits of a number.
    """

    sums: Ints
    batch: int
    step: float
    deviation: int
    limit: float
    bits: int


class Room(NamedTuple):
    """What one trial computes with; it carries nothing from one to the next.

    Attributes:
        records: all records of the stream; shape (t, 1).
        everyone: True for each of them; shape (t,).
        nothing: a zero; shape (1,).
        keys: the coins of each batch, which words do not need; shape (batches,).
        keep: which of the last records to keep; shape (batch,).
        scratch: what batches are written with.
    """

    records: Floats
    everyone: Bools
    nothing: Floats
    keys: Words
    keep: Bools
    scratch: Scratch


class Sponge(NamedTuple):
    """What one trial of a private average computes with.

    Attributes:
        state: of SHAKE-256; shape (25 + 5,).
        words: the coins of a batch; shape (words,).
        at: how many of them are used; shape (1,).
        sums: the sum of a batch; shape (1,).
        numbers: the average; shape (1,).
        target: the average to write; shape (1,).
    """

    state: Words
    words: Words
    at: Ints
    sums: Ints
    numbers: Floats
    target: Floats


@kernel
def _turn(word: np.uint64, bits: int) -> np.uint64:
    """Rotate a word to the left by 1 to 63 bits."""
    left = np.uint64(bits)
    return (word << left) | (word >> (_WORD - left))


@inner_kernel
def permute(state: Words) -> None:
    """Apply Keccak-f[1600], as in the reference of its authors; behind the state are five words to compute with."""
    for turn in range(_ROUNDS):
        for x in range(5):
            state[STATE + x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
        for x in range(5):
            mixed = state[STATE + (x + 4) % 5] ^ _turn(state[STATE + (x + 1) % 5], 1)
            for y in range(0, STATE, 5):
                state[x + y] ^= mixed
        moved = state[1]
        for i in range(_ROUNDS):
            place = _PLACES[i]
            following = state[place]
            state[place] = _turn(moved, _TURNS[i])
            moved = following
        for y in range(0, STATE, 5):
            for x in range(5):
                state[STATE + x] = state[x + y]
            for x in range(5):
                state[x + y] = state[STATE + x] ^ (~state[STATE + (x + 1) % 5] & state[STATE + (x + 2) % 5])
        state[0] ^= _CONSTANTS[turn]


@inner_kernel
def absorb(key: np.uint64, state: Words) -> None:
    """Begin SHAKE-256 (FIPS 202) with a secret key: the four words that are drawn from `key`."""
    for i in range(STATE):
        state[i] = np.uint64(0)
    for i in range(SECRET_WORDS):
        state[i] = draw(key, i)
    state[SECRET_WORDS] = _END
    state[RATE - 1] ^= _LAST


@inner_kernel
def squeeze(state: Words, words: Words, first: int, last: int) -> None:
    """Write the words from `first` to before `last`, whole multiples of the rate, of what SHAKE-256 gives."""
    for start in range(first, last, RATE):
        permute(state)
        for i in range(RATE):
            words[start + i] = state[i]


@inner_kernel
def play_private(coins: np.uint64, known: Known, sponge: Sponge) -> float:
    """Play one trial of a private average, and return its answer; nan if the coins of a batch ran out."""
    root, batch, encoded = draw(coins, 0), known.batch, 0
    sponge.numbers[0] = 0.0
    for k in range(len(known.sums)):
        encoded += batch
        share, ready, enough = find_share(batch, encoded, 1.0), 0, False
        sponge.sums[0] = known.sums[k]
        absorb(draw(root, encoded), sponge.state)
        while not enough:
            more = min(len(sponge.words), max(2 * ready, 2 * RATE))
            if more == ready:
                return np.nan
            squeeze(sponge.state, sponge.words, ready, more)
            ready = more
            enough = average_with_noise(
                sponge.sums,
                batch,
                sponge.numbers,
                share,
                known.step,
                known.deviation,
                sponge.words[:ready],
                sponge.at,
                sponge.target,
            )
        dither = find_dither(find_key(encoded - batch + 1, batch), 0, 0)
        place = encode_place(sponge.target[0], known.limit, dither, known.bits)
        sponge.numbers[0] = decode_place(place, known.limit, dither, known.bits)
    answer: float = sponge.numbers[0]
    return answer


@inner_kernel
def play_mean(records: np.uint64, target: int, value: float, tolerance: float, room: Room) -> float:
    """Play one trial of a mean in bits, whose other records are uniform between 0 and 1, and return its answer."""
    for i in range(len(room.records)):
        room.records[i, 0] = draw_uniform(records, i)
    room.records[target - 1, 0] = value
    scratch = room.scratch
    scratch.off[0] = False
    advance_with(
        scratch,
        room.records,
        room.everyone,
        room.everyone,
        True,
        room.nothing,
        scratch.off,
        room.nothing,
        room.nothing,
        0,
        1.0,
        tolerance,
        1,
        room.keys,
        BITS,
        room.keep,
    )
    answer: float = scratch.estimate[0]
    return answer


@kernel
def derive_trial(root: np.uint64, number: int, purpose: int) -> np.uint64:
    """Derive what a trial draws from, for its coins or its records."""
    return draw(draw(root, number), purpose)


@kernel
def make_sponge(words: int) -> Sponge:
    """Make what trials of a private average compute with."""
    return Sponge(
        np.zeros(STATE + 5, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1),
        np.zeros(1),
    )


@kernel
def make_room(t: int, batch: int) -> Room:
    """Make what trials of a mean compute with."""
    return Room(
        np.zeros((t, 1)),
        np.ones(t, np.bool_),
        np.zeros(1),
        np.zeros(t // batch, np.uint64),
        np.zeros(batch, np.bool_),
        make_scratch(batch, 1),
    )


@kernel
def play_private_trials(root: np.uint64, first: int, words: int, known: Known, answers: Floats) -> None:
    """Play the trials from `first` on, as many as there are answers to write."""
    sponge = make_sponge(words)
    for i in range(len(answers)):
        answers[i] = play_private(derive_trial(root, first + i, COINS), known, sponge)


@kernel
def play_mean_trials(
    root: np.uint64, first: int, t: int, batch: int, target: int, value: float, tolerance: float, answers: Floats
) -> None:
    """Play the trials from `first` on, as many as there are answers to write."""
    room = make_room(t, batch)
    for i in range(len(answers)):
        answers[i] = play_mean(derive_trial(root, first + i, RECORDS), target, value, tolerance, room)
