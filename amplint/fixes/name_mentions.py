"""Where a file speaks of a name without reading it: in an import, in a string, by `getattr`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Imported
from amplint.model.syntax.scopes import canonical

if TYPE_CHECKING:
    from amplint.model import Module

_NAME = r"(autocast|GradScaler|custom_fwd|custom_bwd|(?:[gs]et|is)_autocast_\w+)"
_PATCHED = re.compile(rf"[\w.]+\.{_NAME}")
_BARE = re.compile(_NAME)
# Calls that take an object and the name of one of its attributes: setattr, monkeypatch.setattr, mock.patch.object ...
_PATCHERS = ("setattr", "delattr", "object")


def imports_of(module: Module, name: str) -> Iterator[Imported]:
    """The bindings by which imports, in any scope, bind the qualified name."""
    for statement in module.own.near(name.rpartition(".")[2]).statements:
        if isinstance(statement, ir.Import) and statement.module is not None:
            for alias in statement.aliases:
                if canonical(f"{statement.module}.{alias.name}") == name:
                    yield Imported(name, statement, alias)


def patched(module: Module) -> Iterator[str]:
    """The names that strings speak of in order to replace them."""
    for value in module.own.near("autocast", "GradScaler", "custom_fwd", "custom_bwd").values:
        if isinstance(value, ir.Constant) and isinstance(value.value, str):
            found = _PATCHED.fullmatch(value.value)
            if found is None and isinstance(value.parent, ir.Call):
                func = value.parent.func
                word = ir.last_name(func)
                found = _BARE.fullmatch(value.value) if word in _PATCHERS else None
            if found is not None:
                yield found.group(1)


def asked_for(module: Module, new: str) -> Iterator[ir.Node]:
    """The calls `getattr(torch, "new_name", ...)` and `hasattr(...)`."""
    home, _, name = new.rpartition(".")
    for call in module.own.near(name).called("getattr", "hasattr"):
        if module.names.of(call.func) & {"builtins.getattr", "builtins.hasattr"} and len(call.positional) > 1:
            asked = call.positional[1]
            if isinstance(asked, ir.Constant) and asked.value == name and home in module.names.of(call.positional[0]):
                yield call
