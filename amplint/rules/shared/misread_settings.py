"""Settings of mixed precision that a program reads, and doesn't follow: it only says that they are on, or looks for
them where its own configuration doesn't have them (AMP218).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.flow.value_uses import TALKS
from amplint.model.project.importers import surely_lack
from amplint.model.syntax import ir
from amplint.model.syntax.text_scan import code_of
from amplint.rules.shared.precision_tests import names_switch

if TYPE_CHECKING:
    from amplint.model import Module

_SETTINGS = re.compile(r"(?i)amp|fp_?16|bf_?16|float16|half|mixed_?precision")
# What may follow such a setting: where none of it is there, nothing does.
_WORKS = re.compile(
    r"autocast|GradScaler|\.half\(|float16|ccelerat|ightning|\bFabric\b|deepspeed|\bapex\b|[Pp]recision=(?!=)"
    r"|TrainingArguments|fp16=(?!=)|\*\*\s*self\.__dict__|vars\(self\)"
)
_ASKS = (ir.Bool, ir.Unary, ir.Compare)
_WRITES = (ir.FString, ir.Binary, ir.Sequence, ir.Mapping, ir.Conditional)


class Announced(NamedTuple):
    """A setting that is only talked about: its name, and the assignment's value that reads it."""

    name: str
    read: ir.Value


class Beside(NamedTuple):
    """A read of a setting past the section that the written out configuration has it in."""

    read: ir.Call
    key: str
    section: str
    written: ir.Value


def announced(module: Module) -> Iterator[Announced]:
    """The settings, kept under a name, that a program which trains asks for to say that they are on, and for nothing
    else.
    """
    code = code_of(module.source.text)
    if "backward" not in code or _WORKS.search(code):
        return
    for statement in module.own.near(_SETTINGS).statements:
        if not isinstance(statement, ir.Assign) or len(statement.targets) != 1 or statement.value is None:
            continue
        key, name = _key(statement.value) or "", ir.last_name(statement.targets[0])
        if not names_switch(key) or not names_switch(name):
            continue
        if _is_only_said(module, name, key) and _is_read_nowhere_else(module, statement, name, key):
            yield Announced(name, statement.value)


def _key(value: ir.Value) -> str | None:
    """The key under which a value is taken out of a configuration: `config["amp"]`, `config.get("amp", False)`."""
    index = value.index if isinstance(value, ir.Subscript) else None
    if ir.called_on(value, "get") is not None and isinstance(value, ir.Call):
        index = next(iter(value.positional), None)
    return index.value if isinstance(index, ir.Constant) and isinstance(index.value, str) else None


def _is_only_said(module: Module, name: str, key: str) -> bool:
    """Whether a name is read to say something alone, and its key in the configuration once."""
    keys = [each for each in module.whole.near(key).values if isinstance(each, ir.Constant) and each.value == key]
    if sum(isinstance(each.parent, (ir.Subscript, ir.Call)) for each in keys) != 1:
        return False
    named = [each for each in module.whole.near(name).values if isinstance(each, (ir.Name, ir.Attribute))]
    reads = [each for each in named if ir.last_name(each) == name and not ir.is_target(each)]
    return bool(reads) and all(_only_says(each, name) for each in reads)


def _only_says(read: ir.Value, name: str) -> bool:
    """Whether a read is printed or logged, or decides only on what is."""
    at: ir.Value = read
    while isinstance(at.parent, _WRITES) or (
        isinstance(at.parent, ir.Call) and ir.last_name(at.parent.func) == "format"
    ):
        at = at.parent
    if isinstance(at.parent, ir.Call) and at.parent.func is not at:
        return ir.last_name(at.parent.func) in TALKS
    at = read
    while isinstance(at.parent, _ASKS):
        at = at.parent
    up = at.parent
    arms = [up.then, up.orelse] if isinstance(up, ir.If) and up.test is at else []
    return bool(arms) and all(_is_talk(each, name) for arm in arms if arm is not None for each in arm.statements)


def _is_talk(statement: ir.Statement, name: str) -> bool:
    """Whether a statement only says something, or sets the setting itself to a constant."""
    if isinstance(statement, ir.If):
        arms = [statement.then, statement.orelse]
        return all(_is_talk(each, name) for arm in arms if arm is not None for each in arm.statements)
    if isinstance(statement, ir.Assign):
        is_own = all(ir.last_name(each) == name for each in statement.targets)
        return is_own and isinstance(statement.value, ir.Constant)
    if isinstance(statement, ir.Expr) and isinstance(statement.value, ir.Call):
        return ir.last_name(statement.value.func) in TALKS
    return isinstance(statement, ir.Jump) and statement.kind == "pass"


def _is_read_nowhere_else(module: Module, statement: ir.Statement, name: str, key: str) -> bool:
    """Whether no other file of the program reads an attribute of that name, or the key in the configuration, or extends
    the class that sets the attribute.
    """
    function = ir.function_of(statement)
    cls = function.cls if function is not None else None
    extends = rb"|class\s+\w+\s*\([^)]*\b%s\b" % cls.name.encode() if cls is not None else b""
    read = rb"(?<!self)\.\s*%s\b|[\"']%s[\"']" % (name.encode(), re.escape(key.encode()))
    return surely_lack(module.source.filename, re.compile(read + extends))


def read_beside(module: Module) -> Iterator[Beside]:
    """The settings that are looked for in a configuration as a whole, by `get`, where the one that the file writes out
    has them in a section.
    """
    for call in module.own.near(_SETTINGS).called("get"):
        base, key = ir.called_on(call, "get"), _key(call)
        if key is None or not names_switch(key) or not isinstance(base, (ir.Name, ir.Attribute)):
            continue
        found = _section(module, call, key)
        if found is None:
            continue
        section, written, whole = found
        others = {each for each, _ in whole.items if each is not None}
        siblings = {each.value for each in others if isinstance(each, ir.Constant)}
        if _is_whole(module, ir.last_name(base), siblings) and not _is_handed_on(module, section):
            yield Beside(call, key, section, written)


def _section(module: Module, call: ir.Call, key: str) -> tuple[str, ir.Value, ir.Mapping] | None:
    """The one section in which the file writes a key out, where that is written, and the whole; None if it may be
    elsewhere too, or is read there.
    """
    found: list[tuple[str, ir.Value, ir.Mapping]] = []
    for each in module.own.near(key).values:
        if not isinstance(each, ir.Constant) or each.value != key or each.parent is call:
            continue
        up = each.parent
        given = next((value for name, value in up.items if name is each), None) if isinstance(up, ir.Mapping) else None
        place = _place(up) if isinstance(up, ir.Mapping) and isinstance(given, ir.Constant) else None
        if place is not None:
            found.append((place[0], each, place[1]))
        elif not _is_no_read(up, given):
            return None
    return found[0] if found and len({each[0] for each in found}) == 1 else None


def _is_no_read(up: ir.Node | None, given: ir.Value | None) -> bool:
    """Whether a key that is in no section is neither read nor set as a whole: the program says what it has found, in a
    checkpoint or a log, or sets it in a section.
    """
    if given is not None:
        return not isinstance(given, ir.Constant)
    return isinstance(up, ir.Subscript) and ir.is_target(up) and _key(up.base) is not None


def _place(mapping: ir.Mapping) -> tuple[str, ir.Mapping] | None:
    """The key that a dict has in the outermost dict, and that outermost dict."""
    outer = mapping.parent
    if not isinstance(outer, ir.Mapping) or isinstance(outer.parent, ir.Mapping):
        return None
    names = [name.value for name, value in outer.items if value is mapping and isinstance(name, ir.Constant)]
    return (names[0], outer) if names and isinstance(names[0], str) else None


def _is_handed_on(module: Module, section: str) -> bool:
    """Whether a section is given to a function, or gets a name of its own: what is called as the whole may be it."""
    return any(
        _key(each) == section and (isinstance(each.parent, ir.Assign) or _is_argument(each))
        for each in module.whole.near(section).values
        if isinstance(each, (ir.Subscript, ir.Call))
    )


def _is_argument(value: ir.Value) -> bool:
    return isinstance(value.parent, ir.Call) and any(each.value is value for each in value.parent.args)


def _is_whole(module: Module, name: str, siblings: set[object]) -> bool:
    """Whether what goes by a name is read by the keys of a whole configuration: `config["model"]`."""
    reads = (each for each in module.whole.near(name).values if isinstance(each, (ir.Subscript, ir.Call)))
    taken = {
        key
        for each in reads
        if (key := _key(each)) is not None
        for base in [each.base if isinstance(each, ir.Subscript) else ir.called_on(each, "get")]
        if isinstance(base, (ir.Name, ir.Attribute)) and ir.last_name(base) == name
    }
    return len(taken & siblings) > 1
