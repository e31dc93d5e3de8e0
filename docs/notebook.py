"""Notebooks are run and shown without Jupyter: cells are plain Python, and their outputs are kept in the file.

`python docs/notebook.py FILE.ipynb` runs the cells in a temporary folder and writes their outputs into FILE;
`make notebook` does it for that of the docs.
Guarantee: the outputs in a notebook are those of its cells; held by tests/test_notebook.py.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

WRITE = "%%writefile "
Cell = dict[str, Any]


def read_cells(path: Path) -> list[Cell]:
    """The cells of a notebook."""
    cells: list[Cell] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def run_cells(cells: list[Cell]) -> list[list[Cell]]:
    """Run the cells in the current folder; the outputs of each, as a notebook keeps them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_run_cell("".join(cell["source"]), names) if cell["cell_type"] == "code" else [] for cell in cells]


def _run_cell(source: str, names: dict[str, Any]) -> list[Cell]:
    if source.startswith(WRITE):
        first, _, rest = source.partition("\n")
        Path(first.removeprefix(WRITE)).write_text(rest + "\n", encoding="utf-8")
        return []
    body = ast.parse(source).body
    last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
    body = body if last is None else body[:-1]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
        if last is not None and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
        elif last is not None:
            exec(compile(ast.Module([last], []), "cell", "exec"), names)  # noqa: S102
    outputs: list[Cell] = []
    if printed.getvalue():
        outputs.append(
            {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        outputs.append({"data": _show(value), "metadata": {}, "output_type": "display_data"})
    return outputs


def _show(value: Any) -> dict[str, Any]:
    """The forms in which a notebook shows a value."""
    if hasattr(value, "_repr_png_"):
        return {"image/png": base64.b64encode(value._repr_png_()).decode(), "text/plain": ["a figure"]}
    shown: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        shown = {"text/html": [value._repr_html_()], **shown}
    return shown


def to_markdown(text: str) -> str:
    """A notebook as a page of the site: cells of text as they are, code with its outputs."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        kind = "text" if source.startswith("%%") else "python"
        parts.append(f"```{kind}\n{source}\n```")
        parts.extend(map(_output_to_markdown, cell["outputs"]))
    return "\n\n".join(parts) + "\n"


def _output_to_markdown(output: Cell) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    data = output["data"]
    if "image/png" in data:
        picture = f'<img alt="The figure of the cell above" src="data:image/png;base64,{data["image/png"]}">'
        return f"```{{raw}} html\n{picture}\n```"
    if "text/html" in data:
        return f'```{{raw}} html\n<div class="output">{"".join(data["text/html"])}</div>\n```'
    return f"```text\n{''.join(data['text/plain'])}\n```"


def run_notebook(path: Path) -> None:
    """Run a notebook in a temporary folder, and write the outputs into the file."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.insert(0, folder)
        try:
            outputs = run_cells(notebook["cells"])
        finally:
            os.chdir(before)
            sys.path.remove(folder)
    for cell, shown in zip(notebook["cells"], outputs, strict=True):
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = shown, None
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run_notebook(Path(name).absolute())
