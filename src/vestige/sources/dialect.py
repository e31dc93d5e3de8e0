"""Dialect of a CSV file: what separates its fields, how its numbers are written, and how its text is encoded.

Guarantee: a file in any dialect has the rows of Python's csv module; held by tests/sources/test_dialect.py.
"""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass

from vestige.errors import ParameterError, SourceError
from vestige.validation import show_value

NOT_UTF8 = "give --encoding if it is another one, such as cp1252, or convert the file to UTF-8"
SEPARATORS = {"tab": "\t", "\\t": "\t"}
"""How the command writes a separator that is not printed."""
_NOT_SEPARATORS = '"\r\n\0'
_WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
_ESCAPES = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "charmap")
"""What Python has for its own use; no file is written in it."""
_PROBE = '\r\n ,;\t{}"0'
# fmt: off
_CODED = (
    "utf-8", "cp1252", "iso8859-1", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be", "utf-32-le", "utf-7",
    "ascii", "big5", "big5hkscs", "cp1125", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257",
    "cp1258", "cp437", "cp775", "cp850", "cp852", "cp855", "cp857", "cp858", "cp860", "cp861", "cp862", "cp863",
    "cp864", "cp865", "cp866", "cp869", "cp932", "cp949", "cp950", "euc_jis_2004", "euc_jisx0213", "euc_jp", "euc_kr",
    "gb18030", "gb2312", "gbk", "hp-roman8", "hz", "iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004",
    "iso2022_jp_3", "iso2022_jp_ext", "iso2022_kr", "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14",
    "iso8859-15", "iso8859-16", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7",
    "iso8859-8", "iso8859-9", "johab", "koi8-r", "kz1048", "mac-cyrillic", "mac-greek", "mac-iceland", "mac-latin2",
    "mac-roman", "mac-turkish", "ptcp154", "shift_jis", "shift_jis_2004", "shift_jisx0213", "tis-620",
)
# fmt: on
"""Encodings by the numbers that stand for them in stores, so that new ones come last."""


@dataclass(frozen=True, slots=True)
class Dialect:
    r"""Dialect of a CSV file; its encoding is that of NDJSON too. It has no meaning for Parquet.

    Attributes:
        separator: what separates fields: one character of ASCII that is not a letter, a digit or a quote.
        decimal: what separates the fraction of a number: `.` or `,`. Thousands must not be separated.
        encoding: encoding of the text, by its name in Python; one that has line breaks and commas as ASCII has them, or
            UTF-16 or UTF-32.

    Raises:
        ParameterError: a value is not one of those above.

    Example:
        >>> Dialect(separator=";", decimal=",", encoding="latin1").encoding
        'iso8859-1'
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        sign = self.separator
        if (
            not isinstance(sign, str)
            or len(sign) != 1
            or not sign.isascii()
            or sign.isalnum()
            or sign in _NOT_SEPARATORS
        ):
            raise ParameterError(
                f"separator={show_value(sign)} cannot separate fields; use one character such as ; or | or a tab"
            )
        if self.decimal not in (".", ","):
            raise ParameterError(f"decimal={show_value(self.decimal)} is not a decimal point; use . or ,")
        object.__setattr__(self, "encoding", _find_encoding(self.encoding))

    @classmethod
    def decode(cls, code: int) -> Dialect | None:
        """Decode a dialect.

        Args:
            code: what `encode` returned.

        Returns:
            The dialect; None if the number stands for none.

        Example:
            >>> Dialect.decode(0) is None
            True
        """
        sign, decimal, encoding = code >> 9, code >> 8 & 1, code & 255
        return cls(chr(sign), ".,"[decimal], _CODED[encoding]) if sign and encoding < len(_CODED) else None

    def encode(self) -> int:
        """Encode the dialect.

        Returns:
            A number below 2^16; 0 if its encoding has none.

        Example:
            >>> Dialect.decode(Dialect(separator=";", decimal=",", encoding="cp1252").encode())
            Dialect(separator=';', decimal=',', encoding='cp1252')
        """
        if self.encoding not in _CODED:
            return 0
        return ord(self.separator) << 9 | ".,".index(self.decimal) << 8 | _CODED.index(self.encoding)

    def describe(self) -> str:
        r"""Describe the dialect as options of `vestige run`.

        Returns:
            The options.

        Example:
            >>> Dialect(separator="\t").describe()
            '--separator tab --decimal . --encoding utf-8'
        """
        sign = "tab" if self.separator == "\t" else f"'{self.separator}'"
        return f"--separator {sign} --decimal {self.decimal} --encoding {self.encoding}"

    def decode_error(self) -> SourceError:
        """Make the error for text that is not in the encoding.

        Returns:
            The error, without the text.
        """
        return SourceError(f"contains text that is not {self.encoding}; give another --encoding")


def suggest_separator(header: list[str]) -> str:
    r"""Suggest a separator for a file whose header has only one column.

    Args:
        header: cells of the first line.

    Returns:
        A clause; empty if there is nothing to suggest.

    Example:
        >>> suggest_separator(["spent;shop"])
        "its first line has no comma, but ';' in it: if that separates the columns, give --separator ';'"
    """
    for sign, option in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
        if len(header) == 1 and sign in header[0]:
            what = "a tab" if sign == "\t" else option
            problem = f"its first line has no comma, but {what} in it"
            return f"{problem}: if that separates the columns, give --separator {option}"
    return ""


def _find_encoding(name: object) -> str:
    """The usual name of an encoding, once it is known that it can be read."""
    with suppress(LookupError, TypeError, ValueError):
        found = codecs.lookup(name)  # type: ignore[arg-type]  # another type is an error below
        if found.name in _WIDE:
            return found.name
        is_text = _PROBE.encode().decode(found.name) == _PROBE  # an error for what is not text, such as zlib
        if is_text and found.incrementaldecoder is not None and found.name not in _ESCAPES:
            return "utf-8" if found.name == "utf-8-sig" else found.name
    raise ParameterError(
        f"encoding={show_value(name)} is not an encoding that can be read; use one such as utf-8, cp1252, latin-1 or "
        "utf-16, or convert the file"
    )


USUAL = Dialect()
"""The dialect of a file of which nothing else is said."""
