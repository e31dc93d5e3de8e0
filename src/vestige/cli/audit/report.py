"""A report to print and file: question, data, method, verdict, figures, what the audit cannot see, how to repeat it.

Guarantee: the page refers to nothing outside itself and contains no record; held by tests/test_cli_audit_table.py.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from vestige.errors import ParameterError
from vestige.figures import render_figure
from vestige.lab.figures import inline_svg
from vestige.markup import make_table
from vestige.operations import sign_report
from vestige.store.address import hide_passwords
from vestige.times import wall_clock

if TYPE_CHECKING:
    from matplotlib.figure import Figure

report_option = click.option(
    "--report", metavar="FILE", help="File for a report in HTML, made to be printed; an existing file is refused."
)
sign_option = click.option(
    "--sign", "key", metavar="KEY", help="Private key that signs the report, in FILE.sig; made by vestige keygen."
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a report says.

    Attributes:
        title: the title.
        question: what was asked.
        verdict: one or two sentences.
        mark: the verdict in one or two words.
        method: one paragraph.
        inputs: name, SHA-256 and a remark for each input.
        tables: caption, header, rows and notes of each table.
        figures: figures, and what they show.
        blind_spots: what the audit cannot see.
    """

    title: str
    question: str
    verdict: str
    mark: str
    method: str
    inputs: Sequence[tuple[str, str, str]]
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]], Sequence[str]]]
    figures: Sequence[tuple[Figure, str]] = field(default_factory=tuple)
    blind_spots: Sequence[str] = ()


def check_report(report: str | None, key: str | None) -> None:
    """Check where a report goes, before anything is computed.

    Args:
        report: file for the report.
        key: private key that signs it.

    Raises:
        ParameterError: the file exists, its folder does not, or there is a key and no report.
        SignatureError: the key cannot be used.
    """
    if report is None and key is not None:
        raise ParameterError("--sign needs --report, the file for the report; give both")
    for path in [] if report is None else [report, *([f"{report}.sig"] if key else [])]:
        if Path(path).exists():
            raise ParameterError(f"--report {path} exists; reports are not overwritten: give another name")
    if report is not None and not Path(report).parent.is_dir():
        raise ParameterError(f"--report {report}: there is no folder {Path(report).parent}; make it, or give another")
    if key is not None:
        sign_report(b"", key)


def hash_file(path: str) -> str:
    """Compute the SHA-256 of a file.

    Args:
        path: its path.

    Returns:
        The hash in hexadecimal digits.
    """
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def write_report(report: Report, path: str, key: str | None) -> None:
    """Write a report, and its signature if asked.

    Args:
        report: what it says.
        path: file for it.
        key: private key; None for no signature.
    """
    page = render_report(report, _find_command()).encode()
    signature = None if key is None else json.dumps(sign_report(page, key), indent=2) + "\n"
    Path(path).write_bytes(page)
    if signature is not None:
        Path(f"{path}.sig").write_text(signature)


def _find_command() -> str:
    """The command as it was typed, without passwords."""
    return hide_passwords(" ".join(["vestige", *map(shlex.quote, sys.argv[1:])]))


def render_report(report: Report, command: str) -> str:
    """Render a report.

    Args:
        report: what it says.
        command: the command that repeats it.

    Returns:
        The page as HTML.
    """
    made = wall_clock()
    facts = [
        ("date", f"{made:%Y-%m-%d %H:%M} UTC"),
        ("versions", f"Vestige {version('vestige')}, Python {platform.python_version()}, numpy {np.__version__}"),
        ("command", command),
    ]
    data = make_table(
        "Inputs", ("input", "SHA-256", "remark"), [(name, _group(digest), note) for name, digest, note in report.inputs]
    )
    figures = "".join(
        f'<figure role="img" aria-label="{escape(text, quote=True)}">{_inline_figure(figure, i)}'
        f"<figcaption>{escape(text)}</figcaption></figure>"
        for i, (figure, text) in enumerate(report.figures)
    )
    sections = [
        ("Question", f"<p>{escape(report.question)}</p>"),
        ("Verdict", f'<p class="verdict"><strong>{escape(report.mark)}</strong>{escape(report.verdict)}</p>'),
        ("Results", "".join(make_table(*table) for table in report.tables) + figures),
        ("Method", f"<p>{escape(report.method)}</p>"),
        ("What this audit cannot see", "<ul>" + "".join(f"<li>{escape(x)}</li>" for x in report.blind_spots) + "</ul>"),
        ("Data", data),
        ("How to repeat it", make_table("Made by", ("what", "value"), facts) + f"<p>{escape(_REPEAT)}</p>"),
    ]
    body = "\n".join(f"<section><h2>{escape(name)}</h2>{text}</section>" for name, text in sections)
    return _PAGE.replace("{title}", escape(report.title)).replace("{style}", _STYLE).replace("{body}", body)


def _inline_figure(figure: Figure, number: int) -> str:
    """A figure that is never smaller than it was drawn, so that its text stays readable on a phone."""
    width = round(72 * float(figure.get_size_inches()[0]))
    svg = inline_svg(render_figure(figure, "svg"), f"figure-{number}")
    return svg.replace("<svg", f'<svg style="min-width: {width}px; max-width: {width * 3 // 2}px"', 1)


def _group(digest: str) -> str:
    """A hash in groups of sixteen digits, which a line can be broken between."""
    return " ".join(digest[i : i + 16] for i in range(0, len(digest), 16))


_REPEAT = (
    "Run the same command with the same version on files with the same hashes: the seed is fixed, so all figures are "
    "the same. A signature of this page, if there is one, is in a file of the same name that ends in .sig; vestige "
    "verify-report checks it."
)
_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem; max-width: 46rem; background: #fff; color: #222;
  font: 0.95rem/1.5 Georgia, 'Times New Roman', serif; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; } h2 { font-size: 1.1rem; margin: 0 0 0.4rem; break-after: avoid; }
section { margin: 0 0 1.2rem; } p, ul { margin: 0 0 0.5rem; }
.verdict { border-left: 4px solid #222; padding: 0.3rem 0 0.3rem 0.8rem; font-size: 1.05rem; }
.verdict strong { display: block; text-transform: uppercase; letter-spacing: 0.05em; font-size: 0.85rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.85rem; margin: 0 0 0.8rem; }
caption { text-align: left; font-weight: bold; padding: 0.3rem 0; }
th, td { text-align: left; font-weight: normal; vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0;
  border-bottom: 1px solid #ccc; overflow-wrap: break-word; }
thead th { font-weight: bold; } tr { break-inside: avoid; }
figure { margin: 0.5rem 0 1rem; break-inside: avoid; overflow-x: auto; } figure svg { width: 100%; height: auto; }
figcaption { color: #555; font-size: 0.85rem; }
@page { size: A4; margin: 18mm; }
@media print { body { padding: 0; max-width: none; font-size: 9.5pt; } figure { overflow: visible; }
  figure svg { min-width: 0 !important; } }
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
