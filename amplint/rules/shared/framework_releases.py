"""Frameworks: what of a file is theirs, and for which release it was written where the project doesn't say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.base.target import nothing_declared
from amplint.model.names.version_guards import asks_version, may_be_missing, tests_of
from amplint.model.syntax.scopes import NOTHING

if TYPE_CHECKING:
    from collections.abc import Collection

    from amplint.model import Module
    from amplint.model.syntax import ir

# LIGHTNING_2_0, _transformers_ge_5, IS_LIGHTNING_GREATER_EQUAL ...
_NAMES_RELEASE = re.compile(r"(?i)_[gl][et]\b|_[gl][et]_|greater|at_least|[a-z]_?\d+_\d|_v\d")


def is_class_of(module: Module, value: ir.Value, packages: Collection[str], *classes: str) -> bool:
    """Whether a value is one of some classes of a framework's, by whichever of its modules it is imported from."""
    names = module.names.of(value) - {NOTHING}
    return bool(names) and all(
        name.partition(".")[0] in packages and name.rpartition(".")[2] in classes for name in names
    )


def declares_release(module: Module, package: str) -> bool:
    """Whether the project says which releases of a package it is for."""
    return module.target_of(package) != nothing_declared(package)


def is_for_older(module: Module, package: str, call: ir.Call, removed: Collection[str]) -> bool:
    """Whether a call has arguments that newer releases removed, and the project declares none: it is for an older."""
    return not declares_release(module, package) and any(arg.keyword in removed for arg in call.args)


def depends_on_release(module: Module, node: ir.Node) -> bool:
    """Whether code runs on some releases only: under a test of a version, or in a try for what may be missing."""
    return may_be_missing(node) or any(
        asks_version(module.names, test) or _NAMES_RELEASE.search(module.text(test)) for test in tests_of(node)
    )
