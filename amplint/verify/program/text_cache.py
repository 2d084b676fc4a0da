"""What the text says of a node of a file, remembered: the runs of a step come by each of them many times."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from amplint.model import Module
from amplint.model.syntax import ir
from amplint.verify.program.code_file import Node, Said


class Texts:
    """The text and places of a file's nodes. `main` is the file that is verified; None: that is this one."""

    def __init__(self, module: Module, main: Module | None) -> None:
        self.module = module
        self._main = main
        self._texts: dict[int, str] = {}
        self._rows: dict[int, int] = {}
        self._known: dict[tuple[Callable[..., Any], int], Any] = {}

    def row(self, node: ir.Node) -> int:
        """The line on which a node starts."""
        found = self._rows.get(node.id)
        if found is None:
            found = self._rows[node.id] = self.module.row(node)
        return found

    def where(self, node: ir.Node) -> str:
        """The same, as it is said."""
        said = f"line {self.row(node)}"
        if self._main is None:
            return said
        folder = os.path.dirname(os.path.abspath(self._main.source.filename))
        return f"{said} of {os.path.relpath(self.module.source.filename, folder)}"

    def text(self, node: ir.Node) -> str:
        """A node as it is written, on one line."""
        found = self._texts.get(node.id)
        if found is None:
            found = self._texts[node.id] = self.module.on_one_line(node)
        return found

    def known(self, say: Callable[[Any, Node], Said], node: Node) -> Said:
        """What a function says of this file and a node of it, by nothing but the text."""
        key = say, node.id
        if key not in self._known:
            self._known[key] = say(self, node)
        found: Said = self._known[key]
        return found
