"""The site is made of these pages and of the code's own docstrings: `make docs`, without a network.

Guarantee: a warning fails the build; every public name and every command is in it; held by tests/test_site.py.
"""

from __future__ import annotations

import inspect
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx import addnodes
from sphinx.application import Sphinx

import vestige
from vestige import types
from vestige.cli.group import load_commands

load_commands()
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for notebook.py
project = "Vestige"
author = "The Vestige authors"
version = release = vestige.__version__
project_copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns: list[str] = []
source_suffix = {".md": "markdown", ".ipynb": "notebook"}
myst_heading_anchors = 3
default_role = "code"
smartquotes = False  # two hyphens begin an option

autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseException",
}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in vars(types) if name[0].isupper()}
autosummary_generate = False
copybutton_prompt_text = r">>> |\.\.\. |\$ |> "
copybutton_prompt_is_regexp = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!vestige\b).*"),  # numpy, the standard library and other packages: their sites are not reachable
    (
        r"py:class",
        r"vestige\..*\.(Basis|CodedTexts|Inbox|KeyNames|KeyedPositions|LazyColumns|MemoryRows|Noise|OpenFamily|OpenStream"
        r"|Page|PostgresReader|Request|Rollback|Series|SqliteReader|State|_FunctionModel|_Logistic|[A-Z](_co)?)",
    ),  # not public, but in a signature that is
]

html_theme = "furo"
html_title = "Vestige"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None


def _is_elsewhere(app: Sphinx, name: str, value: object) -> bool:
    """Whether the page of `vestige` describes this; a name that two modules export is described once."""
    return app.env.docname != "reference/vestige" and getattr(vestige, name, None) is value


def _skip(app: Sphinx, what: str, name: str, value: Any, skip: bool, _: object) -> bool | None:
    """Leave out what is described elsewhere, and what a class inherits from another library."""
    home = getattr(inspect.unwrap(getattr(value, "fget", value)), "__module__", None) or "vestige"
    if not home.startswith("vestige") or (what == "module" and _is_elsewhere(app, name, value)):
        return True
    return skip or None


def _summarize_module(app: Sphinx, what: str, _: str, value: object, __: object, lines: list[str]) -> None:
    """Begin the page of a module with a table of its names; those that `vestige` exports too are described there."""
    exported = {each: getattr(value, each) for each in getattr(value, "__all__", ())}
    names = [each for each, kind in exported.items() if inspect.isclass(kind) or inspect.isfunction(kind)]
    if what == "module" and names:
        rows = [f"   ~vestige.{each}" if _is_elsewhere(app, each, exported[each]) else f"   {each}" for each in names]
        lines.extend(["", ".. autosummary::", "   :nosignatures:", "", *rows])


def _show_commands(_: Sphinx, __: object, lines: list[str]) -> None:
    """Make a code block of the commands in a help page, which are otherwise lines of text."""
    shown: list[str] = []
    is_command = False
    for line in lines:
        if line in ("| Example:", "| Examples:"):
            shown.extend([line.removeprefix("| "), "", ".. code-block:: console", ""])
        elif is_command and line.startswith("| "):
            shown.append(f"   $ {line.removeprefix('| ').strip()}")
        else:
            shown.append(line)
        is_command = line.startswith("| ") and (is_command or "Example" in line)
    lines[:] = shown


def _open_pages_in_place(_: Sphinx, doctree: nodes.document) -> None:
    """A link to a page that is not ours to make, such as the lab's report, opens it; by default it is a download."""
    for node in list(doctree.findall(addnodes.download_reference)):
        if node["reftarget"].endswith(".html"):
            node.replace_self(nodes.reference("", "", *node.children, refuri=node["reftarget"], internal=True))


def _trim_examples(_: Sphinx, doctree: nodes.document) -> None:
    """The blank line that ends an example for doctest is not shown."""
    for node in doctree.findall(nodes.literal_block):
        node.rawsource = node.astext().rstrip()
        node.children = [nodes.Text(node.rawsource)]


def _draw_dashes(_: Sphinx, doctree: nodes.document, __: str) -> None:
    """Sphinx puts two hyphens between a parameter and what it is, to be joined later; options must keep theirs."""
    for node in list(doctree.findall(nodes.Text)):
        if node == " -- ":
            node.parent.replace(node, nodes.Text(" \N{EN DASH} "))


class _NotebookParser(MystParser):
    """Reads a notebook as a page in Markdown."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the text of a notebook."""
        super().parse(import_module("notebook").to_markdown(inputstring), document)


def _copy_report(app: Sphinx, problem: Exception | None) -> None:
    if problem is None:
        shutil.copytree(HERE / "lab", Path(app.outdir) / "lab", dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Connect what Sphinx has no setting for."""
    app.add_source_parser(_NotebookParser)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _summarize_module)
    app.connect("sphinx-click-process-description", _show_commands)
    app.connect("sphinx-click-process-epilog", _show_commands)
    app.connect("doctree-read", _open_pages_in_place, priority=100)
    app.connect("doctree-read", _trim_examples)
    app.connect("doctree-resolved", _draw_dashes)
    app.connect("build-finished", _copy_report)
