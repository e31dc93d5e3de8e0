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
from vestige.operations.removal import check_references

_AS_TEXT = "write one subject per line, as UTF-8 text"
_NOTHING = "Nothing was changed for any subject, including those of other lists and options"


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of a request.

    Attributes:
        texts: the subjects.
        labels: the position of each of them, for messages.
        empty: number of empty lines.
        references: the reference of each request; None where there is none.
    """

    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    empty: int = 0
    references: tuple[str | None, ...] = ()

    def __add__(self, other: Subjects) -> Subjects:
        references = self.references + other.references
        return Subjects(self.texts + other.texts, self.labels + other.labels, self.empty + other.empty, references)


def read_subjects(
    given: Sequence[str], files: Sequence[str], references: Sequence[str] = (), *, with_references: bool = False
) -> Subjects:
    """Read the subjects from options and files; - among either is standard input.

    Args:
        given: the subjects of options.
        files: the lists.
        references: of the subjects of options, in the same order.
        with_references: whether each line of a list has a subject, a tab and a reference.

    Raises:
        ParameterError: a line cannot be read, or there is none, or a reference is missing; then nothing is to be done
            at all.
    """
    if references and len(references) != len(given):
        raise ParameterError(
            f"the number of --reference is {len(references)} and that of --subject {len(given)}; give one for each "
            "subject, in the same order; in a list the reference follows its subject after a tab, with "
            "--with-references"
        )
    if with_references and not (files or "-" in given):
        raise ParameterError("--with-references needs a list: --subjects-from FILE, or --subject -")
    if references and "-" in given:
        raise ParameterError("--reference does not go with --subject -; use --with-references")
    lists = [name for name in (*given, *files) if name == "-"]
    if len(lists) > 1:
        raise ParameterError("standard input (-) is given twice; give it once")
    made = Subjects()
    for place, text in enumerate(given, 1):
        if not text:
            raise ParameterError(f"--subject number {place} is empty; name a subject")
        if text == "-":
            made += parse_lines(sys.stdin.buffer.read(), "standard input", with_references=with_references)
        else:
            reference = references[place - 1] if references else None
            made += Subjects((text,), (f"--subject number {place}",), references=(reference,))
    for name in files:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        made += parse_lines(content, "standard input" if name == "-" else name, with_references=with_references)
    return made


def parse_lines(
    content: bytes, name: str, *, with_references: bool = False, wrong: list[str] | None = None
) -> Subjects:
    r"""One subject per line, nothing stripped but the line break; empty lines are skipped and counted.

    With references, a tab and the reference of the request follow each subject. A line that cannot be read is an error;
    with a list of those that are wrong, it is noted there instead, and there may be no subject.

    >>> parse_lines(b"ada\r\n\r\n lead\nbob", "x").texts
    ('ada', ' lead', 'bob')
    >>> parse_lines(b"ada\tT-1\nbob\tT-2\n", "x", with_references=True).references
    ('T-1', 'T-2')
    """
    texts, labels, references, empty = [], [], list[str | None](), 0
    lines = content.removeprefix(BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            text, reference = _parse_line(line.removesuffix(b"\r"), with_references=with_references)
        except ParameterError as problem:
            if wrong is None:
                raise ParameterError(f"{name}: line {number} {problem}. {_NOTHING}") from None
            wrong.append(f"{name}: line {number} {problem}")
            continue
        if text:
            texts.append(text)
            references.append(reference)
            labels.append(f"line {number} of {name}")
        else:
            empty += 1
    if not texts and wrong is None:
        raise ParameterError(f"{name}: has no subject; write one per line. {_NOTHING}")
    return Subjects(tuple(texts), tuple(labels), empty, tuple(references))


def _parse_line(raw: bytes, *, with_references: bool) -> tuple[str, str | None]:
    """The subject and the reference of a line; an error goes on after the number of the line."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise ParameterError(f"is not UTF-8; {_AS_TEXT}") from None
    if "\r" in text or "\0" in text:
        raise ParameterError(f"holds a carriage return or a zero byte; {_AS_TEXT}")
    if not text or not with_references:
        return text, None
    subject, tab, reference = text.partition("\t")
    if not subject or not tab or "\t" in reference:
        raise ParameterError("does not have a subject, a tab and a reference; write all three")
    try:
        check_references([reference], [subject])
    except ParameterError as problem:
        raise ParameterError(f"cannot be used: {problem}") from None
    return subject, reference
