"""Flags and scalers of AMP that the program reads from its parsed arguments, and that nothing declares or sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.inference.declared_settings import Options
from amplint.model.inference.values import values_of
from amplint.model.syntax import ir
from amplint.rules.shared.finite_checks import is_handled

if TYPE_CHECKING:
    from amplint.model import Module

_FLAG = re.compile(r"(?i)(use_|enable_|no_)?(amp|fp16|bf16|half|mixed_precision|amp_dtype|use_scaler)|\w*scaler(_\w)?")
# What a parser is used for that declares no option, or declares it in sight.
_DECLARES = {"add_argument", "add_argument_group", "add_mutually_exclusive_group", "set_defaults"}
_OTHERS = {"parse_args", "print_help", "error", "exit", "format_help"}


def undeclared_options(module: Module) -> Iterator[ir.Attribute]:
    """The first read of each such attribute of the parsed arguments, `args.use_amp`."""
    parsers = module.calls_of("argparse.ArgumentParser")
    options = module.once(Options)
    if len(parsers) != 1 or not options.declared or not _is_in_sight(module, parsers[0], options):
        return
    done = set[str]()
    reads = (value for value in module.own.values if isinstance(value, ir.Attribute))
    for value in sorted(reads, key=lambda each: each.id):
        if value.attr in done or value.attr in options.declared or not _FLAG.fullmatch(value.attr):
            continue
        if _is_parsed(module, value.base) and not options.is_changed(value.attr) and not _is_guarded(module, value):
            done.add(value.attr)
            yield value


def _is_in_sight(module: Module, parser: ir.Call, options: Options) -> bool:
    """Whether all that declares an option of a parser is in sight, and in this file."""
    if parser.keyword("parents") is not None or parser.unpacks() or not module.is_own(parser):
        return False
    target = parser.parent.targets[0] if isinstance(parser.parent, ir.Assign) else None
    if not isinstance(target, ir.Name):
        return False
    declared = sum(len(each) for each in options.declared.values())
    if declared < len(list(module.whole.called("add_argument"))):
        return False  # one has a name that is computed
    named = (each for each in module.own.near(target.name).values if isinstance(each, ir.Name))
    return all(_is_plain(each) for each in named if each.name == target.name and not each.bound)


def _is_plain(read: ir.Name) -> bool:
    """Whether a parser is only used for what its options show, and not handed on."""
    up = read.parent
    if isinstance(up, ir.Return):
        return False
    called = isinstance(up, ir.Attribute) and isinstance(up.parent, ir.Call) and up.parent.func is up
    return called and up.attr in _DECLARES | _OTHERS  # type: ignore[union-attr]


def _is_parsed(module: Module, value: ir.Value) -> bool:
    """Whether a value is what the parser gives, and nothing else."""
    leaves = values_of(module, value).leaves if isinstance(value, ir.Name) else ()
    return bool(leaves) and all(
        isinstance(each.value, ir.Call) and ir.called_on(each.value, "parse_args") and not each.value.args
        for each in leaves
    )


def _is_guarded(module: Module, read: ir.Attribute) -> bool:
    """Whether something asks whether the flag is there, or catches the error, or assigns it."""
    up = read.parent
    if isinstance(up, ir.Assign) and read in up.targets:
        return True
    if any(isinstance(each, ir.Constant) and each.value == read.attr for each in module.own.near(read.attr).values):
        return True
    return is_handled(module, read, AttributeError)
