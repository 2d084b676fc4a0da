"""What is asked of a file of the program by those who find other files, tables of functions and callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from amplint.model import Module
from amplint.model.objects.event import Event
from amplint.model.syntax import ir

Node = TypeVar("Node", bound=ir.Node)
Said = TypeVar("Said")


class CodeFile(Protocol):
    """One file of the program."""

    @property
    def module(self) -> Module:
        """What it says."""

    def text(self, node: ir.Node) -> str:
        """A node as it is written, on one line."""

    def known(self, say: Callable[[Any, Node], Said], node: Node) -> Said:
        """What a function says of this file and a node of it, by nothing but the text."""

    def event(self, call: ir.Call) -> Event | None:
        """The AMP event that a call is."""

    def naming(self, value: ir.Value) -> list[ir.Value]:
        """An expression that names what makes a region or scaler, and those that its names are assigned; else none."""

    def calls_of(self, function: ir.Function) -> list[ir.Call]:
        """The calls of a function in this file."""

    def leads_on(self, call: ir.Call) -> bool:
        """Whether a call is of a function of the program."""


AnyFile = TypeVar("AnyFile", bound=CodeFile)
