"""Scalers that are created in one branch only, and used where the program may have taken another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.formulas import Formula, both, either, negated, possible
from amplint.model.inference.value_sets import ON_CUDA, decided, is_vague
from amplint.model.objects.terms import Term
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Scope
from amplint.model.syntax.nesting import ifs_round, upwards
from amplint.model.syntax.operators import ORDERS
from amplint.model.torch_facts.names import SCALERS

if TYPE_CHECKING:
    from amplint.model import Module


class UnboundUse(NamedTuple):
    """A read of a variable that holds a scaler only if `test` was true."""

    use: ir.Name
    test: ir.Value


def unbound_uses(module: Module) -> Iterator[UnboundUse]:
    """The first read, of the variables of one function, that doesn't find the scaler if AMP is off."""
    done = list[tuple[Scope, str]]()
    for call in module.calls_of(*SCALERS):
        target = _variable(call)
        home = target.scope.home(target.name) if target is not None else None
        if target is None or home is None or (home, target.name) in done:
            continue
        done.append((home, target.name))
        tests = ifs_round(call)
        bindings = home.bindings.get(target.name, [])
        if not tests or not all(isinstance(each, Assigned) and isinstance(each.value, ir.Call) for each in bindings):
            continue
        made = [each.value for each in bindings if isinstance(each, Assigned)]
        use = next(_without(module, target, made), None)
        if use is not None:
            yield UnboundUse(use, tests[0].test)


def _variable(call: ir.Call) -> ir.Name | None:
    """The variable that a call is assigned to, outside of loops, whose first iteration may create it, and of tries."""
    statement = call.parent
    targets = statement.targets if isinstance(statement, ir.Assign) and statement.value is call else ()
    if len(targets) != 1 or not isinstance(targets[0], ir.Name) or _is_inside(call, ir.Try, ir.For, ir.While):
        return None
    return targets[0]


def _is_inside(node: ir.Node, *kinds: type[ir.Statement]) -> bool:
    return any(isinstance(each, kinds) for each in upwards(ir.statement_of(node)))


def _without(module: Module, target: ir.Name, made: list[ir.Value]) -> Iterator[ir.Name]:
    """The reads of a variable that are reached without its assignments, by the tests around both, and by others only
    if these can't stand for the flag of the scaler.
    """
    known, function = decided(module), ir.function_of(target)
    bound = either(*(known.inside(each) for each in made))
    if is_vague(bound) or bound.facts() & ON_CUDA.facts() or not bound.facts():
        return
    first, unbound = min(each.id for each in made), both(negated(bound), _asserted(module, function))
    named = (each for each in module.whole.near(target.name).values if isinstance(each, ir.Name))
    for each in (each for each in named if each.name == target.name and not each.bound and each.id > first):
        if ir.function_of(each) is not function or _is_inside(each, ir.Try):
            continue
        read = known.inside(each)
        if all(map(_is_about_progress, read.facts() - bound.facts())) and possible(read, unbound) is not None:
            yield each


def _is_about_progress(fact: Term) -> bool:
    """Whether a fact says how far the training is, how well it goes, or which process this is: `step % every == 0`,
    `loss < best`, `rank == 0`.
    """
    if fact.op in ORDERS:
        return True
    subject = fact.compared
    return subject is not None and (subject.op == "Modulo" or (subject.is_path and "rank" in subject.name.lower()))


def _asserted(module: Module, function: ir.Function | None) -> Formula:
    """What a function's own asserts say."""
    block = (function or module.program).body
    asserts = (each.test for each in ir.walk_statements(block, into=False) if isinstance(each, ir.Assert))
    return both(*(decided(module).of(each) for each in asserts))
