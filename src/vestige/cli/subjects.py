"""Lists of subjects for `vestige forget`: one per line, exact, each identified by its position.

A subject is never shown: messages name its line, or its position among the options.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vestige.errors import ParameterError

_NOTHING = "Nothing was changed, also not for the subjects of other lists and options"


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of a request.

    Attributes:
        texts: the subjects.
        labels: the position of each of them, for messages.
        empty: number of empty lines.
    """

    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    empty: int = 0

    def __add__(self, other: Subjects) -> Subjects:
        return Subjects(self.texts + other.texts, self.labels + other.labels, self.empty + other.empty)


def read_subjects(given: Sequence[str], files: Sequence[str]) -> Subjects:
    """Read the subjects from options and files; - among either is standard input.

    Raises:
        ParameterError: a line cannot be read, or there is none; then nothing is to be done at all.
    """
    lists = [name for name in (*given, *files) if name == "-"]
    if len(lists) > 1:
        raise ParameterError("standard input (-) is given twice; give it once")
    made = Subjects()
    for place, text in enumerate(given, 1):
        if not text:
            raise ParameterError(f"--subject number {place} is empty; name a subject")
        made += parse_lines(sys.stdin.buffer.read(), "standard input") if text == "-" else _make_single(text, place)
    for name in files:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        made += parse_lines(content, "standard input" if name == "-" else name)
    return made


def _make_single(text: str, place: int) -> Subjects:
    return Subjects((text,), (f"--subject number {place}",))


def parse_lines(content: bytes, name: str) -> Subjects:
    r"""One subject per line, nothing stripped but the line break; empty lines are skipped and counted.

    >>> parse_lines(b"ada\r\n\r\n lead\nbob", "x").texts
    ('ada', ' lead', 'bob')
    """
    texts, labels, empty = [], [], 0
    lines = content.removeprefix(BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        raw = line.removesuffix(b"\r")
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise _make_line_error(name, number, "is not UTF-8") from None
        if "\r" in text or "\0" in text:
            raise _make_line_error(name, number, "holds a carriage return or a zero byte")
        if text:
            texts.append(text)
            labels.append(f"line {number} of {name}")
        else:
            empty += 1
    if not texts:
        raise ParameterError(f"{name}: has no subject; write one per line. {_NOTHING}")
    return Subjects(tuple(texts), tuple(labels), empty)


def _make_line_error(name: str, number: int, what: str) -> ParameterError:
    return ParameterError(f"{name}: line {number} {what}; write one subject per line, as UTF-8 text. {_NOTHING}")
