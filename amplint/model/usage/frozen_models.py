"""Models that a file freezes, or freezes for a while: no gradients are made for their weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import dominates
from amplint.model.syntax.queries import is_false

if TYPE_CHECKING:
    from amplint.model import Module


# Functions that set `requires_grad` of all parameters of the models that they are given, as they are called in GANs.
_SETTERS = ("set_requires_grad", "requires_grad", "toggle_grad", "set_grad")


# Functions and methods that have some parameters trained, by their names, in a model that was frozen before.
_UNFREEZES = re.compile(r"(?i)unfreeze|lora|adapter|peft|trainable")
# Functions that only say what is frozen, by their names.
_TELLS = re.compile(r"(?i)^_*(print|log|show|report|count|describe|summari[sz]e)|(status|summary|report)$")


class Setting(NamedTuple):
    """A statement that sets `requires_grad` of all of a model's parameters; `on`: to what, None where that is open."""

    statement: ir.Statement
    model: str
    on: bool | None


def frozen_at(module: Module, node: ir.Node) -> frozenset[str]:
    """The keys of the models that are frozen where a node runs: by the last setting before it in its function."""
    return module.once(_frozen_at, node)  # paths come by the same backward again and again


def _frozen_at(module: Module, node: ir.Node) -> frozenset[str]:
    last: dict[str, Setting] = {}
    with objects(module).within(CallContext()):  # the same for whoever asks
        settings = module.once(_settings)
    for each in settings:
        if each.statement.id < node.id and ir.function_of(each.statement) is ir.function_of(node):
            last[each.model] = each
            if each.on is not False:  # a part of it is trained again
                whole = (key for key in last if each.model.startswith(f"{key}."))
                last |= {key: each._replace(model=key, on=None) for key in whole}
    return frozenset(key for key, each in last.items() if each.on is False and dominates(each.statement, node))


def _settings(module: Module) -> list[Setting]:
    """The settings of a file, in the order of the text."""
    known = objects(module)
    found = []
    for statement in module.whole.near("requires_grad", "requires_grad_", *_SETTERS).statements:
        if isinstance(statement, ir.For):
            on = _set_in(statement.body) or ([None] if _sets_some(statement.body) else [])
            found += [Setting(statement, key, on[0]) for key in known.parameters_roots(statement.iter) if on]
        elif isinstance(statement, ir.Expr) and isinstance(statement.value, ir.Call):
            for value in _set_by(statement.value):
                key, given = known.key(value), statement.value.positional
                if key is not None:
                    found.append(Setting(statement, key, _literal(given[-1] if given else None)))
    for call in module.whole.near(_UNFREEZES).calls:
        for value in (*call.positional, *([call.func.base] if isinstance(call.func, ir.Attribute) else [])):
            if _UNFREEZES.search(ir.last_name(call.func)) and (key := known.key(value)) is not None:
                found.append(Setting(ir.statement_of(call), key, None))
    return sorted(found, key=lambda each: each.statement.id)


def _sets_some(body: ir.Block) -> bool:
    """Whether a suite may set `requires_grad` of some parameters to anything but False."""
    return any(each is not False for each in _all_set_in(body, "requires_grad_"))


def _all_set_in(body: ir.Block, *setters: str) -> Iterator[bool | None]:
    """What a suite sets `requires_grad` of anything to, by assignments and by some calls."""
    for each in ir.walk_statements(body, into=False):
        if isinstance(each, ir.Assign) and any(ir.last_name(target) == "requires_grad" for target in each.targets):
            yield _literal(each.value)
    for call in ir.calls_below(body):
        if ir.last_name(call.func) in setters:
            yield _literal(call.positional[-1]) if call.positional else True


def _set_by(call: ir.Call) -> list[ir.Value]:
    """The models whose parameters a call sets."""
    base = ir.called_on(call, "requires_grad_")
    if base is not None:
        return [base]
    if ir.last_name(call.func) not in _SETTERS or len(call.positional) < 2:
        return []
    given = call.positional[0]
    return list(given.items) if isinstance(given, ir.Sequence) else [given]


def _set_in(body: ir.Block) -> list[bool | None]:
    """What the suite of a loop over parameters sets, if it does nothing else: `p.requires_grad = False`."""
    only = body.statements[0] if len(body.statements) == 1 else None
    if isinstance(only, ir.Assign) and [ir.last_name(each) for each in only.targets] == ["requires_grad"]:
        return [_literal(only.value)]
    call = only.value if isinstance(only, ir.Expr) else None
    if isinstance(call, ir.Call) and ir.called_on(call, "requires_grad_") is not None:
        return [_literal(call.positional[0] if call.positional else None)]
    return []


def _literal(value: ir.Value | None) -> bool | None:
    return value.value if isinstance(value, ir.Constant) and isinstance(value.value, bool) else None


def frozen(module: Module) -> frozenset[str]:
    """The keys of the models that the file freezes, also those of which it freezes only some weights."""
    with objects(module).within(CallContext()):  # the same for whoever asks
        return module.once(_frozen)


def wholly_frozen(module: Module) -> frozenset[str]:
    """The keys of the models that the file freezes as a whole, whatever parts it trains later."""
    with objects(module).within(CallContext()):  # the same for whoever asks
        return module.once(_wholly_frozen)


def _wholly_frozen(module: Module) -> frozenset[str]:
    off = {each.model for each in module.once(_settings) if each.on is False}
    return frozenset({*_frozen_by_calls(module), *off})


def _frozen_by_calls(module: Module) -> Iterator[str]:
    for call in module.whole.near("requires_grad", "freeze").calls:
        yield from (key for each in _frozen_by(call) if (key := objects(module).key(each)) is not None)


def _frozen(module: Module) -> frozenset[str]:
    known = objects(module)
    found = {*_frozen_by_calls(module)}
    for statement in module.whole.near("requires_grad", "setattr").statements:
        if isinstance(statement, ir.For) and _may_freeze(statement.body):
            found |= known.parameters_roots(statement.iter)
    return frozenset(found)


def _frozen_by(call: ir.Call) -> Iterator[ir.Value]:
    """The models that a call freezes."""
    name = ir.last_name(call.func)
    off = any(map(is_false, call.positional))
    base = ir.called_on(call, "requires_grad_")
    if base is not None and off:
        yield base
        if isinstance(call.parent, ir.Assign):  # `teacher = load().requires_grad_(False)`
            yield from call.parent.targets
    if ("freeze" in name and not _TELLS.search(name)) or ("requires_grad" in name and off):
        yield from (arg.value for arg in call.args)


def _may_freeze(body: ir.Block) -> bool:
    """Whether a suite sets `requires_grad` of something, to anything but True."""
    return any(each is not True for each in _all_set_in(body, "requires_grad_", "setattr"))
