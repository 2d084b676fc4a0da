"""What a file means, in AMP's terms; the only code that sees the syntax tree.

`build` makes a `Module` of a `Source`. It and libcst load on first use: rules can be imported for their trigger
words without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplint.model.module import Module, build
    from amplint.model.syntax.lazy_lowering import CannotRead
    from amplint.model.syntax.positions import Span

__all__ = ["CannotRead", "Module", "Span", "build"]
_HOME = {
    "CannotRead": "syntax.lazy_lowering",
    "Module": "module",
    "Span": "syntax.positions",
    "build": "module",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
