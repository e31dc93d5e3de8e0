"""The names of streams and their numbers: a hash table over the bytes of all names, so that nothing is an object.

Names are texts in UTF-8; a whole number is the text of its digits. Streams are numbered from 0 in the order in which
their names came, and a number never changes.
Guarantee: finds what a dictionary finds; held by tests/keyed/test_names.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vestige.errors import DataError
from vestige.keyed.workers import run_tasks
from vestige.store.names import LONGEST_NAME, explain_name, show_name
from vestige.store.text import decode_text, encode_text
from vestige.types import Bools, Ints

Bytes = NDArray[np.uint8]
_LEAST_SLOTS = 1 << 10
_MOST_FULL = 0.75
"""The share of the slots of a table that is used at most."""
_REBUILT = 64
"""Names of more than this part of the slots of a table are taken out of it together."""
_PER_TASK = 1 << 16
"""Number of names that are looked up in one task."""


class Texts(NamedTuple):
    """Texts one after the other.

    Attributes:
        offsets: where each of them begins in `content`, and where the last ends; shape (n + 1,).
        content: their bytes in UTF-8.
        places: which of the texts each row has; None if row i has text i.
    """

    offsets: Ints
    content: Bytes
    places: Ints | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self) if self.places is None else len(self.places)

    def where(self, rows: Ints) -> Texts:
        """Select some of the rows.

        Args:
            rows: which of them.

        Returns:
            These rows.
        """
        return Texts(self.offsets, self.content, rows if self.places is None else self.places[rows])


def read_keys(keys: object) -> Texts:
    """Read the key of each row.

    Args:
        keys: texts or whole numbers: a sequence, an array, or a column of pandas, polars or Arrow.

    Returns:
        Their texts.

    Raises:
        DataError: one of them is missing, is neither a text nor a whole number, or cannot name a stream.

    Example:
        >>> read_keys(["DE", "FR"]).offsets
        array([0, 2, 4])
    """
    column = _open_column(keys)
    if type(column).__module__.partition(".")[0] == "pyarrow":
        texts = _read_arrow(column)
    elif isinstance(column, np.ndarray) and column.dtype.kind in "iu" and column.ndim == 1 and _fits(column):
        from vestige.keyed.text_kernels import format_numbers  # noqa: PLC0415

        texts = Texts(*format_numbers(column.astype(np.int64)))
    else:
        texts = _read_objects(column)
    _check_names(texts)
    return texts


def _fits(numbers: NDArray[Any]) -> bool:
    """Whether whole numbers have 63 bits and a sign at most."""
    return numbers.dtype.kind == "i" or numbers.max(initial=0) <= np.iinfo(np.int64).max


def _check_names(texts: Texts) -> None:
    """Check that the text of each row can name a stream."""
    lengths, starts = np.diff(texts.offsets), texts.offsets[:-1]
    if lengths.min(initial=1) > 0 and lengths.max(initial=1) <= LONGEST_NAME and texts.content[starts].all():
        return
    bad = (lengths == 0) | (lengths > LONGEST_NAME)
    bad[lengths > 0] |= texts.content[starts[lengths > 0]] == 0
    if len(rows := np.flatnonzero(bad if texts.places is None else bad[texts.places])):
        place = rows[0] if texts.places is None else texts.places[rows[0]]
        name = texts.content[texts.offsets[place] : texts.offsets[place + 1]].tobytes().decode()
        raise DataError(f"key {rows[0]} of {texts.rows} (counted from 0), {show_name(name)}, {explain_name(name)}")


def _open_column(keys: object) -> Any:
    """A column of a data frame as what it holds: of Arrow or of numpy."""
    for method in ("to_arrow", "__arrow_array__"):
        convert: Callable[[], Any] | None = getattr(keys, method, None)
        if convert is not None and type(keys).__module__.partition(".")[0] in ("polars", "pandas"):
            try:
                return convert()
            except ModuleNotFoundError:
                break
    return keys.to_numpy() if hasattr(keys, "to_numpy") and not hasattr(keys, "buffers") else keys


def _read_arrow(column: Any) -> Texts:
    """Texts of an Arrow column, without a copy where there is one piece."""
    import pyarrow as pa  # noqa: PLC0415  # it is loaded, or there were no such column
    import pyarrow.compute as pc  # noqa: PLC0415

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1 else column
    if column.null_count:
        raise DataError("a key is missing; pass a text that is not empty, or a whole number, for each row")
    if pa.types.is_dictionary(column.type):
        texts = _read_arrow(column.dictionary)
        return Texts(texts.offsets, texts.content, column.indices.to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_integer(column.type):
        return read_keys(column.to_numpy(zero_copy_only=False))
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = _cast_text(column, pc)
    column = column.cast(pa.large_string())
    _, places, content = column.buffers()
    offsets = np.frombuffer(places, np.int64, len(column) + 1, 8 * column.offset)
    frozen = memoryview(content or b"").toreadonly()  # as that of lists is, so that kernels are compiled once
    return Texts(offsets, np.frombuffer(frozen, np.uint8))


def _cast_text(column: Any, pc: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_floating(column.type):  # two whole numbers may be one of them, and text has several forms
        raise DataError("a key is a float; pass texts or whole numbers")
    try:
        return pc.cast(column, pa.large_string())
    except pa.ArrowException:
        raise DataError(f"keys are of type {column.type}; pass texts or whole numbers") from None


def _read_objects(column: Any) -> Texts:
    is_list = isinstance(column, Iterable) and not (isinstance(column, np.ndarray) and column.ndim != 1)
    if isinstance(column, str | bytes | Mapping | Set) or not is_list:
        raise DataError(f"keys is a {type(column).__name__}; pass one text or whole number per row")
    encoded = [_encode(key) for key in (column.tolist() if isinstance(column, np.ndarray) else column)]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    return Texts(offsets, np.frombuffer(b"".join(encoded), np.uint8))


def _encode(key: object) -> bytes:
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return str(int(key)).encode()
    if not isinstance(key, str):
        raise DataError(f"a key is a {type(key).__name__}; pass texts or whole numbers")
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise DataError(f"the key {show_name(key)} {explain_name(key)}") from None


class KeyNames:
    """The names of streams, numbered from 0.

    Attributes:
        count: how many numbers were given.

    Example:
        >>> names = KeyNames()
        >>> names.number(read_keys(["DE", "FR", "DE"]))
        array([0, 1, 0])
        >>> names[1], names.find("FR"), names.find("IT")
        ('FR', 1, None)
    """

    def __init__(self) -> None:
        self.count = 0
        self._removed = 0
        self._offsets = np.zeros(1, np.int64)
        self._content = np.zeros(0, np.uint8)
        self._slots = np.full(_LEAST_SLOTS, -1, np.int32)

    def __len__(self) -> int:
        return self.count - self._removed

    def __getitem__(self, number: int) -> str:
        """The name of a stream; empty if it was removed."""
        name = bytes(self._content[self._offsets[number] : self._offsets[number + 1]])
        return "" if name[0] == 0 else decode_text(name)

    def __iter__(self) -> Iterator[str]:
        return filter(None, (self[number] for number in range(self.count)))

    @property
    def nbytes(self) -> int:
        """Number of bytes that the table takes, those of the names among them."""
        return self._offsets.nbytes + self._content.nbytes + self._slots.nbytes

    @property
    def texts(self) -> Texts:
        """All names, in the order of their numbers."""
        return Texts(self._offsets[: self.count + 1], self._content[: self._offsets[self.count]])

    @property
    def is_there(self) -> Bools:
        """Which numbers have a name: all but those of streams that were removed."""
        there: Bools = self._content[self._offsets[: self.count]] > 0
        return there

    def find(self, name: str) -> int | None:
        """Find the number of a stream.

        Args:
            name: its name.

        Returns:
            The number; None if there is none of that name.
        """
        encoded = encode_text(name)
        number = int(self._look_up(Texts(np.array([0, len(encoded)]), np.frombuffer(encoded, np.uint8)), None)[0])
        return None if number < 0 else number

    def find_each(self, texts: Texts) -> Ints:
        """Find the number of each row's stream.

        Args:
            texts: the names.

        Returns:
            The numbers, -1 where there is none of that name; shape (rows,).
        """
        numbers = self._look_up(texts, None)
        return numbers if texts.places is None else numbers[texts.places]

    def number(self, texts: Texts, workers: Executor | None = None) -> Ints:
        """Find the number of each row's stream; new names get the next numbers.

        Args:
            texts: the names.
            workers: look names up, if given.

        Returns:
            The numbers; shape (rows,).
        """
        numbers = self._look_up(texts, workers)
        missing = numbers < 0
        if texts.places is not None:  # texts that no row has are not names
            used = np.zeros(len(texts), np.bool_)
            used[texts.places] = True
            missing &= used
        if missing.any():
            self._add(texts, np.flatnonzero(missing), numbers)
        return numbers if texts.places is None else numbers[texts.places]

    def truncate(self, count: int) -> None:
        """Erase the newest names, since their rows were not taken after all.

        Args:
            count: how many numbers stay given.
        """
        from vestige.keyed.text_kernels import fill_table, remove_entry  # noqa: PLC0415

        if count >= self.count:
            return
        there, newest = self.is_there, np.arange(count, self.count)
        self._removed -= int(np.count_nonzero(~there[newest]))
        if is_few := len(newest) < len(self._slots) // _REBUILT:
            for number in newest[there[newest]]:
                remove_entry(self._slots, self._offsets, self._content, number)
        self._content[self._offsets[count] :] = 0
        self.count = count
        if not is_few:
            self._slots = np.full(len(self._slots), -1, np.int32)
            fill_table(self._slots, self._offsets, self._content, self.count)

    def remove(self, number: int) -> None:
        """Erase a name; its number is not given to another, unless it and all after it have no names.

        Args:
            number: the number of the stream.
        """
        from vestige.keyed.text_kernels import remove_entry  # noqa: PLC0415

        remove_entry(self._slots, self._offsets, self._content, number)
        self._content[self._offsets[number] : self._offsets[number + 1]] = 0
        self._removed += 1

    def _look_up(self, texts: Texts, workers: Executor | None) -> Ints:
        from vestige.keyed.text_kernels import look_up  # noqa: PLC0415

        numbers = np.empty(len(texts), np.int64)
        table = self._slots, self._offsets, self._content

        def work(start: int) -> None:
            look_up(*table, texts.offsets, texts.content, start, min(start + _PER_TASK, len(texts)), numbers)

        starts = range(0, len(texts), _PER_TASK)
        if workers is None:
            for start in starts:
                work(start)
        else:
            run_tasks(workers, work, starts)
        return numbers

    def _add(self, texts: Texts, missing: Ints, numbers: Ints) -> None:
        """Add the names of the texts that are missing, and write their numbers."""
        from vestige.keyed.text_kernels import add_names  # noqa: PLC0415

        place = 0
        while place < len(missing):
            self._make_room(int(texts.offsets[missing[place] + 1] - texts.offsets[missing[place]]))
            table = self._slots, self._offsets, self._content
            self.count, place = add_names(
                *table, self.count, texts.offsets, texts.content, missing, place, numbers, _MOST_FULL
            )

    def _make_room(self, length: int) -> None:
        """Make room for one more name of this length, and some others."""
        from vestige.keyed.text_kernels import fill_table  # noqa: PLC0415

        if self.count + 1 > _MOST_FULL * len(self._slots):
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
            fill_table(self._slots, self._offsets, self._content, self.count)
        self._offsets = _enlarge(self._offsets, self.count + 2)
        self._content = _enlarge(self._content, int(self._offsets[self.count]) + length)


def _enlarge(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array with room for so many entries; a little more, so that it need not be copied each time."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, len(array) + len(array) // 16 + 64), array.dtype)
    larger[: len(array)] = array
    return larger
