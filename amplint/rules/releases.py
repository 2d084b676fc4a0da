"""Which release of a framework a call was written for, where the project doesn't say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.target import nothing_declared

if TYPE_CHECKING:
    from collections.abc import Collection

    from amplint.model import Module, ir


def is_for_older(module: Module, package: str, call: ir.Call, removed: Collection[str]) -> bool:
    """Whether a call has arguments that newer releases removed, and the project declares none: it is for an older."""
    declares = module.target_of(package) != nothing_declared(package)
    return not declares and any(arg.keyword in removed for arg in call.args)
