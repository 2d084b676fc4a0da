"""Scalers that are created in one branch only, and used where the program may have taken another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.calls.external_calls import ancestors, bases_in_sight, method
from amplint.model.inference.formulas import Formula, bearing_on, both, either, negated, possible
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import last_name
from amplint.model.objects.terms import Op, Term
from amplint.model.regions.training_regions import runs_in, trained
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, parts_that_hold
from amplint.model.syntax.ir import Assigned, Scope
from amplint.model.syntax.nesting import ifs_round, upwards
from amplint.model.syntax.operators import ORDERS
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import SCALER_METHODS, SCALERS
from amplint.rules.shared.enabled_flags import can_be_float16, said, turning
from amplint.rules.shared.finite_checks import is_handled, stands_in
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

# What a function or a variable is called that is for AMP alone.
_FOR_AMP = re.compile(
    r"(?i:(?<![tlr])amp(?![a-z])|half|16|mixed|scale[rd]|scaling|scale_?loss|(?:loss|grad)_?scale|precision)"
    r"|A(mp|MP)(?=[A-Z])"
)

# What the settings are called that say which process this is, and what the program does.
_OF_RUN = re.compile(r"(?i)rank|eval|test|valid|resume|save|debug|log|export|verbose")
_RAISED = (UnboundLocalError, AttributeError)


class Missing(Enum):
    """How a scaler is not there."""

    UNBOUND = "unbound"  # a variable without a value
    NO_ATTRIBUTE = "attribute"  # an attribute that was never set
    NONE = "none"


class UnboundUse(NamedTuple):
    """A read of a variable, or an attribute of `self`, that holds a scaler only if `test` came out as `holds`.

    `when`: where it holds none, in words.
    """

    use: ir.Name | ir.Attribute
    missing: Missing
    test: ir.Value | None
    when: str
    holds: bool = True

    @property
    def is_by_amp(self) -> bool:
        """Whether the test is called like one of AMP: the scaler is to be disabled where it comes out otherwise."""
        names = [ir.last_name(each) for each in ir.walk_values(self.test)] if self.test is not None else []
        return any(_FOR_AMP.search(each) or "32" in each for each in names)


def unbound_uses(module: Module) -> Iterator[UnboundUse]:
    """The first read, of each variable and attribute, that doesn't find the scaler if AMP is off."""
    done = list[tuple[Scope | ir.Class, str]]()
    for call in _made(module):
        target = _target(call)
        home = _home(target)
        if target is None or home is None or (home, ir.last_name(target)) in done:
            continue
        done.append((home, ir.last_name(target)))
        if isinstance(target, ir.Name):
            yield from islice(_without(module, target, call), 1)
        else:
            yield from islice(_without_attribute(module, target), 1)
    yield from _on_none(module)


def _made(module: Module) -> Iterator[ir.Call]:
    """The calls that make a scaler, or an object called like one whose constructor makes it."""
    for call in module.calls_of(*SCALERS):
        if module.is_own(call):
            yield call
        init = ir.function_of(call)
        if init is not None and init.cls is not None and init.name == "__init__" and "scal" in init.cls.name.lower():
            yield from (each for each in callers(module, init) if module.is_own(each))


def _target(call: ir.Call) -> ir.Name | ir.Attribute | None:
    """What a call is assigned to, outside of loops, whose first iteration may create it, and of tries."""
    statement = ir.statement_of(call)
    if not isinstance(statement, ir.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ir.Sequence) and isinstance(value, ir.Sequence) and call in value.items:
        pairs = zip(target.items, value.items, strict=False)
        target, value = next(pair for pair in pairs if pair[1] is call)  # `one, other = GradScaler(), GradScaler()`
    if value is not call or not ifs_round(call) or _is_inside(call, ir.Try, ir.For, ir.While):
        return None
    return target if isinstance(target, (ir.Name, ir.Attribute)) else None


def _home(target: ir.Name | ir.Attribute | None) -> Scope | ir.Class | None:
    """Whose variable or attribute it is."""
    if isinstance(target, ir.Name):
        return target.scope.home(target.name)
    return owner_class(target) if target is not None else None


def _is_inside(node: ir.Node, *kinds: type[ir.Statement]) -> bool:
    return any(isinstance(each, kinds) for each in upwards(ir.statement_of(node)))


# --- variables -------------------------------------------------------------------------------------------------------


def _without(module: Module, target: ir.Name, call: ir.Call) -> Iterator[UnboundUse]:
    """The reads of a variable that are reached without its assignments, by the tests around both, and by others only
    if these can't stand for the flag of the scaler.
    """
    known, function = decided(module), ir.function_of(target)
    home = target.scope.home(target.name)
    bindings = home.bindings.get(target.name, []) if home is not None else []
    named = (each for each in module.whole.near(target.name).values if isinstance(each, ir.Name))
    reads = [each for each in named if each.name == target.name and not each.bound and ir.function_of(each) is function]
    made = [each.value for each in bindings if isinstance(each, Assigned) and isinstance(each.value, ir.Call)]
    others = [_place(each) for each in bindings if not isinstance(each, Assigned) or each.value not in made]
    bound, first = either(*(known.inside(each) for each in made)), min(each.id for each in made)
    for each in reads if _is_told(bound) else ():
        # What binds it after the read does not give it to the first iteration.
        if each.id > first and all(place > each.id for place in others):
            if _is_reached(module, each, known.inside(each), bound, negated(bound)):
                yield _after(ifs_round(call)[0], call, each, Missing.UNBOUND)


def _after(statement: ir.If, made: ir.Value, use: ir.Name | ir.Attribute, missing: Missing) -> UnboundUse:
    """A read of what one arm of an `if` makes."""
    return UnboundUse(use, missing, statement.test, "", holds=stands_in(made, statement.then))


def _place(binding: ir.Binding) -> int:
    """The id of what binds; 0 for what binds before the function's first statement, or where that is unknown."""
    if isinstance(binding, Assigned):
        return binding.value.id
    node = binding.node if isinstance(binding, ir.Other) else None
    return node.id if node is not None and not isinstance(node, ir.Function) else 0


def _is_told(bound: Formula) -> bool:
    """Whether what decides can come out otherwise, and can be told, at least in part: a setting of AMP."""
    return bool(bound.facts()) and (not is_vague(bound) or _speaks_of_amp(bound))


def _is_reached(
    module: Module,
    read: ir.Value,
    inside: Formula,
    bound: Formula,
    missing: Formula,
    *,
    settings: bool = False,
    device: Formula = ON_CUDA,
) -> bool:
    """Whether a read happens where something is missing, on a device: mostly nobody trains where there is no CUDA.

    Args:
        settings: settings that aren't called like one of AMP say nothing of it.
    """
    asked = inside.facts() - bound.facts()
    if is_vague(bound) and len(asked) < len(inside.facts()):
        return False
    left = [each for each in asked if not (_is_other(each, read) or _is_set_here(module, each, bound))]
    if not all(settings and _is_setting(each) for each in left):
        return False
    if is_handled(module, read, *_RAISED):
        return False
    asserted = bearing_on(_asserted(module, ir.function_of(read)), missing)
    return possible(inside, both(missing, asserted, device)) is not None


def _is_other(fact: Term, read: ir.Value) -> bool:
    """Whether a fact says nothing of AMP: how far the training is, how well it goes, which process this is, what the
    program does, as in `step % every == 0`, `loss < best`, `rank == 0`, `args.evaluate`, or which type another object
    has. Where a state is saved or loaded, also any other setting.
    """
    if fact.op in ORDERS or fact.op == Op.ON or fact.subject.name == "__name__":
        return True
    if isinstance(read.parent, ir.Attribute) and read.parent.attr in ("state_dict", "load_state_dict"):
        return _is_of_checkpoint(fact)
    if fact.op == Op.CALL and fact.name == "isinstance":
        return not _FOR_AMP.search(str(fact))
    subject = fact.subject
    if fact.compared is not None and subject.op == "Modulo":
        return True
    return subject.is_path and bool(_OF_RUN.search(last_name(subject.name))) and not _FOR_AMP.search(subject.name)


def _is_setting(fact: Term) -> bool:
    """Whether a fact is about a setting, `args.return_x`, that isn't called like one of AMP."""
    return fact.subject.is_path and "." in fact.subject.name and not _FOR_AMP.search(str(fact))


def _is_set_here(module: Module, fact: Term, bound: Formula) -> bool:
    """Whether a fact is about a variable that only gets literals, none of them where the scaler's flag decides."""
    known = decided(module)
    test = known.tests.get(fact)
    bindings = module.names.bindings(test) if isinstance(test, ir.Name) else []
    values = [each.value for each in bindings if isinstance(each, Assigned)]
    return 0 < len(values) == len(bindings) and all(
        isinstance(each, ir.Constant) and not known.inside(each).facts() & bound.facts() for each in values
    )


def _is_of_checkpoint(fact: Term) -> bool:
    """Whether a fact is a setting that is not called like one of AMP, or says that there is a checkpoint, or that the
    checkpoint has a state, which an earlier run with AMP may have saved.
    """
    if fact.op == "In" and fact.parts[0].is_literal:
        return fact.parts[1].is_path or last_name(fact.parts[1].name) == "keys"
    return not any(each.op == Op.VAGUE for each in fact.walk()) and not _FOR_AMP.search(str(fact))


def _asserted(module: Module, function: ir.Function | None) -> Formula:
    """What a function's own asserts say."""
    block = (function or module.program).body
    asserts = (each.test for each in ir.walk_statements(block, into=False) if isinstance(each, ir.Assert))
    return both(*(decided(module).of(each) for each in asserts))


# --- attributes ------------------------------------------------------------------------------------------------------


def _without_attribute(module: Module, target: ir.Attribute) -> Iterator[UnboundUse]:
    """The same for an attribute of the object that a class's methods are called on."""
    cls, known = owner_class(target), decided(module)
    assert cls is not None
    family = [cls, *ancestors(module, cls)]
    stored = [value for each in family for value in each.stored(target.attr)]
    made = [each for each in stored if isinstance(each, ir.Call)]
    in_class = any(target.attr in each.scope.bindings for each in family) or method(module, cls, "__getattr__")
    if len(made) < len(stored) or in_class or not bases_in_sight(module, cls):
        return
    bound, test = either(*(known.inside(each) for each in made)), ifs_round(made[0])
    # Nothing is called there without what the rest of the test asks for: `if training and amp:`.
    for each in _reads(module, cls, target.attr) if _is_told(bound) and _speaks_of_amp(bound) and test else ():
        inside = known.around(each)
        if inside.facts() & bound.facts() or _is_for_amp(each):
            continue
        if _is_reached(module, each, inside, bound, negated(bound)):
            yield _after(test[0], made[0], each, Missing.NO_ATTRIBUTE)


def _reads(module: Module, cls: ir.Class, attr: str) -> Iterator[ir.Attribute]:
    """The calls of a scaler's methods on an attribute of a class's objects, in its own methods of this file."""
    for each in module.whole.near(attr).values:
        if isinstance(each, ir.Attribute) and each.attr == attr and owner_class(each) is cls and module.is_own(each):
            if _is_called_on(each):
                yield each


def _speaks_of_amp(formula: Formula) -> bool:
    """Whether one of the facts that decide is called like one of AMP."""
    return any(_FOR_AMP.search(str(each)) for each in formula.facts())


def _is_called_on(value: ir.Value) -> bool:
    """Whether a scaler's method is called on a value."""
    up = value.parent
    called = isinstance(up, ir.Attribute) and up.attr in SCALER_METHODS
    return called and isinstance(up.parent, ir.Call) and up.parent.func is up  # type: ignore[union-attr]


def _is_for_amp(read: ir.Value) -> bool:
    """Whether the function of a read, or its class, is called like one that only AMP uses."""
    function = ir.function_of(read)
    names = [function.name, *([function.cls.name] if function.cls is not None else [])] if function is not None else []
    return any(map(_FOR_AMP.search, names))


# --- None ------------------------------------------------------------------------------------------------------------


def _on_none(module: Module) -> Iterator[UnboundUse]:
    """The first call of a method, on each variable or attribute, of a scaler that is None where AMP is off.

    A load of its state comes last: only a run that is resumed gets there.
    """
    done, loads = set[str](), dict[str, tuple[ir.Name | ir.Attribute, str]]()
    for call in module.whole.near(*SCALER_METHODS).calls if objects(module).every_scaler() else ():
        read = call.func.base if isinstance(call.func, ir.Attribute) else None
        if not isinstance(read, (ir.Name, ir.Attribute)) or not _is_called_on(read) or not module.is_own(read):
            continue
        text = ir.dotted(read) or module.text(read)
        if text in done or _is_for_amp(read):
            continue
        when = _when_none(module, read)
        if when and ir.called_on(call, "load_state_dict") is not None:
            loads.setdefault(text, (read, when))
        elif when:
            done.add(text)
            if not _is_in_region(module, read):  # else AMP210 says so
                yield UnboundUse(read, Missing.NONE, None, when)
    yield from (UnboundUse(read, Missing.NONE, None, when) for text, (read, when) in loads.items() if text not in done)


def _when_none(module: Module, read: ir.Name | ir.Attribute) -> str:
    """Where a method of None would be called, in words; nothing if it is a scaler there, as far as can be told."""
    known = decided(module)
    found = known.alternatives(read)
    # A class of the project, whose objects are used as scalers, counts as well.
    is_one = objects(module).is_scaler(read) is not None
    calls = [(each, each.value) for each in found if isinstance(each.value, ir.Call)]
    made = [each for each, value in calls if is_one or module.names.of(value.func) & SCALERS]
    none = either(*(each.when for each in found if ir.is_none(each.value)))
    if not made or len(made) + sum(ir.is_none(each.value) for each in found) < len(found) or not _is_told(none):
        return ""
    elsewhere = any(ir.function_of(each.value) is not ir.function_of(read) for each in found)
    if elsewhere and not _speaks_of_amp(none):
        return ""
    if _is_asked_for(module, read):
        return ""
    inside = known.around(read)
    bound, guarded = either(none, *(each.when for each in made)), _is_guarded_next_to(module, read, none)
    # Code that asks for CUDA before it creates the scaler is meant to run without it.
    devices = (ON_CUDA, negated(ON_CUDA)) if none.facts() & ON_CUDA.facts() else (ON_CUDA,)
    for device in devices:
        if _is_reached(module, read, inside, bound, none, settings=guarded, device=device):
            world = possible(inside, none, device)
            return said(module, world, none, turning(world, none)) if world is not None else ""
    return ""


def _is_asked_for(module: Module, read: ir.Name | ir.Attribute) -> bool:
    """Whether a test around a read asks whether that very variable is None, whatever else decides where it is set."""
    text = module.text(read)
    parts = [part for test, holds in conditions_round(read) for part in parts_that_hold(test, holds)]
    return any(
        # As if by `is`: `scaler is not None` that holds is a `scaler is None` that doesn't.
        (isinstance(part, ir.Compare) and ir.is_none(part.rights[0]) and not holds and module.text(part.left) == text)
        or (holds and module.text(part) == text)
        for part, holds in parts
    )


def _is_guarded_next_to(module: Module, read: ir.Name | ir.Attribute, none: Formula) -> bool:
    """Whether another call of the function, of a method of the same scaler, stands where that isn't None."""
    home, text = ir.function_of(read), ir.dotted(read)
    others = [
        each
        for each in module.whole.near(ir.last_name(read)).values
        if isinstance(each, (ir.Name, ir.Attribute)) and each is not read and ir.function_of(each) is home
        if _is_called_on(each) and ir.dotted(each) == text
    ]
    return any(possible(decided(module).around(each), none) is None for each in others)


def _is_in_region(module: Module, read: ir.Value) -> bool:
    """Whether a loss that a scaler would scale comes out of a float16 region where the scaler is None."""
    known = decided(module)
    none = negated(known.present(read))
    return any(
        possible(runs_in(module, entered, "float16"), known.around(each.event.call), none) is not None
        for each in trained(module)
        if each.event.kind == "scale" and receiver(each.event) is read and not each.unseen
        for entered in each.entered
        if can_be_float16(module, entered.region)
    )
