"""Arms of an if that compute the same with autocast and without, and in what they differ (AMP420)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import callers
from amplint.model.calls.events import events
from amplint.model.inference.formulas import possible
from amplint.model.inference.value_sets import decided
from amplint.model.names.grad_mode import without_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.control import block_leaves
from amplint.model.syntax.ir import node_of
from amplint.model.syntax.nesting import is_within
from amplint.rules.shared.finite_checks import is_handled
from amplint.rules.shared.parallel_branches import Reader, parallel_branches
from amplint.rules.shared.precision_tests import names_switch

if TYPE_CHECKING:
    from amplint.model import Module

_AMP = re.compile(r"(?i)amp|fp_?16|float16|half|precision")  # what is written where an `if` asks for AMP
_FOLLOW = 4  # variables that hold a part of a term


class Weighed(NamedTuple):
    """A factor of a loss in an arm in a region of autocast, and another one in its place in an arm without."""

    factor: ir.Constant
    other: ir.Constant


class Ungraded(NamedTuple):
    """What switches gradients off in one of two arms that compute the same, and the arm without it.

    `region`: the arm that switches them off is in a region of autocast.
    """

    context: ir.Value
    other: ir.Block
    region: bool


class Added(NamedTuple):
    """A statement that adds a term to a loss in one of two arms, and the arm that adds others, but not this one.

    `region`: the arm that adds it is in a region of autocast.
    """

    statement: ir.Statement
    term: ir.Value
    other: ir.Block
    region: bool


class Unpacked(NamedTuple):
    """A statement that takes what a call gives apart, in one of two arms, into another number of values than the other.

    `call`: what is called. `own`, `others`: the numbers of values; 1 where a loss is the whole. `other`: the statement
    of the other arm. `region`: the arm is in a region of autocast. `like`: a statement elsewhere that takes as many as
    the other arm, as all do; None where there is none, and either arm may be right.
    """

    statement: ir.Assign
    call: ir.Call
    own: int
    other: ir.Assign
    others: int
    region: bool
    like: ir.Assign | None


class SetApart(NamedTuple):
    """A read, after two arms, of a variable that only one of them sets, in a region of autocast (`region`) or not.

    `binding`: where it is set first.
    """

    use: ir.Name
    binding: ir.Name
    region: bool


class SetUpApart(NamedTuple):
    """A read of a variable that only one arm of an `if` on AMP sets, though both make the optimizer.

    `binding`: where it is set first. `holds`: how the test comes out for the arm that sets it.
    """

    use: ir.Name
    binding: ir.Name
    statement: ir.If
    holds: bool


class _Arm(NamedTuple):
    """An arm, its simple statements, and what is left out of these."""

    block: ir.Block
    leaves: list[ir.Node]
    without: ir.Value | None


def weighed_apart(module: Module) -> list[Weighed]:
    """The arms in a region of autocast whose twins without one compute the same losses but for a constant factor: the
    first factor of each.
    """
    found = [
        _weighed(module, cast.leaves, plain.leaves)
        for _, cast, plain in module.once(_twins)
        if len(cast.leaves) == len(plain.leaves)
    ]
    return [each for each in found if each is not None and all(map(module.is_own, each))]


def ungraded_apart(module: Module) -> list[Ungraded]:
    """The arms in a region of autocast, or without one, that compute without gradients what their twins compute with
    gradients, though nothing in sight needs these.
    """
    found = []
    for statement, cast, plain in module.once(_twins):
        one, other = (cast, plain) if cast.without is not None else (plain, cast)
        if one.without is None or other.without is not None or not module.is_own(statement):
            continue
        texts = [[_text(module, each) for each in arm.leaves] for arm in (one, other)]
        if texts[0] == texts[1] and not _needs_gradients(module, statement) and not _has_none(module, statement):
            found.append(Ungraded(one.without, other.block, one is cast))
    return found


def terms_apart(module: Module) -> list[Added]:
    """The terms of a loss that only one of two arms adds, in a region of autocast or without one, if the arms start
    from the same loss and add another term alike, or sum up the same terms but for these: the first of each arm.
    """
    found = []
    for statement, cast, plain in module.once(_twins):
        if module.is_own(statement) and _text(module, statement.test) in module.once(_switches):
            apart = _summed_apart(module, statement, cast, plain)
            if apart is not None:
                found.append(apart)
                continue
        starts = [{_text(module, each): _target(each) for each in _starts(arm)} for arm in (cast, plain)]
        losses = {target for text, target in starts[0].items() if text in starts[1]}
        terms = [_terms(module, arm, losses) for arm in (cast, plain)]
        more, fewer = (0, 1) if len(terms[0]) > len(terms[1]) else (1, 0)
        alone = [text for text in terms[more] if text not in terms[fewer]]
        if not module.is_own(statement) or not alone or not terms[fewer]:
            continue
        if terms[fewer].keys() <= terms[more].keys() and not _adds_around(
            module, statement, _target(terms[more][alone[0]][0]), [terms[more][each][1] for each in alone]
        ):
            added, term = terms[more][alone[0]]
            found.append(Added(added, term, (cast, plain)[fewer].block, more == 0))
    return found


def unpacked_apart(module: Module) -> list[Unpacked]:
    """The calls whose results two arms, in a region of autocast and without one, take apart in different ways: the
    first of each pair of arms.
    """
    found = []
    for statement, cast, plain in module.once(_twins):
        given = [dict(_unpacked(module, arm)) for arm in (cast, plain)]
        for text, one in given[0].items():
            other = given[1].get(text)
            if not module.is_own(statement) or other is None:
                continue
            own, others = _count(one), _count(other)
            if own is not None and others is not None and own != others:
                found.append(_odd_one(module, one, other))
                break
    return found


def _odd_one(module: Module, cast: ir.Assign, plain: ir.Assign) -> Unpacked:
    """Of two arms the one that takes apart what no other use of the same call does; without others the first."""
    uses = [each for each in _same_calls(module, cast) if each is not cast and each is not plain]
    counts = {_count(each) for each in uses if isinstance(each.targets[0], ir.Sequence)} - {None}
    for one, other in ((cast, plain), (plain, cast)):
        if counts == {_count(other)}:
            like = next(each for each in uses if _count(each) == _count(other))
            return _unpacked_by(one, other, one is cast, like)
    return _unpacked_by(cast, plain, True, None)


def _unpacked_by(one: ir.Assign, other: ir.Assign, region: bool, like: ir.Assign | None) -> Unpacked:
    assert isinstance(one.value, ir.Call)
    return Unpacked(one, one.value, _count(one) or 1, other, _count(other) or 1, region, like)


def _same_calls(module: Module, assign: ir.Assign) -> Iterator[ir.Assign]:
    """The assignments of what a call gives, with as many arguments, in the same class, or in functions of no class."""
    call = assign.value
    assert isinstance(call, ir.Call)
    text, cls, given = _text(module, call.func), _class_of(call), [each.keyword for each in call.args]
    for each in module.own.near(ir.last_name(call.func)).calls:
        stored = each.parent
        if not isinstance(stored, ir.Assign) or len(stored.targets) != 1 or _class_of(each) is not cls:
            continue
        if _text(module, each.func) == text and [arg.keyword for arg in each.args] == given:
            yield stored


def _class_of(call: ir.Call) -> ir.Class | None:
    function = ir.function_of(call)
    return function.cls if function is not None else None


def set_apart(module: Module) -> list[SetApart]:
    """The first read after two arms of a variable that only one of them sets, where the other one may have run."""
    found = []
    for statement, cast, plain in module.once(_twins):
        if not module.is_own(statement) or isinstance(statement.parent, ir.Try):
            continue
        if _called(module, cast).isdisjoint(_called(module, plain)):
            continue  # the other branch doesn't do the same without autocast
        for own, other in ((cast, plain), (plain, cast)):
            if block_leaves(own.block) or block_leaves(other.block) or _goes_on(own.block) or _goes_on(other.block):
                continue
            if (read := _first_read_after(module, statement, own.block, other.block)) is not None:
                found.append(SetApart(*read, own is cast))
    return found


def _first_read_after(
    module: Module, statement: ir.If, own: ir.Block, other: ir.Block
) -> tuple[ir.Name, ir.Name] | None:
    """The first read after an `if` of a variable that only its `own` suite sets, and where it is set."""
    names = _names_set(own)
    alone = [names[each] for each in names.keys() - _names_set(other).keys()]
    uses = [(use, each) for each in alone if (use := _read_after(module, statement, each, other)) is not None]
    return min(uses, key=lambda each: each[0].id, default=None)


def set_up_apart(module: Module) -> list[SetUpApart]:
    """The first read of a variable that only one arm of an `if` on AMP sets, where both arms make an optimizer."""
    found = []
    for statement in module.own.near(_AMP).statements:
        if not isinstance(statement, ir.If) or statement.orelse is None or not _asks_for_amp(statement.test):
            continue
        arms = (statement.then, True, statement.orelse), (statement.orelse, False, statement.then)
        if any(block_leaves(own) or _goes_on(own) for own, _, _ in arms):
            continue
        both = _names_set(statement.then).keys() & _names_set(statement.orelse).keys()
        if not any(_is_optimizer(module, _names_set(statement.orelse)[each]) for each in both):
            continue
        for own, holds, other in arms:
            if (read := _first_read_after(module, statement, own, other)) is not None:
                found.append(SetUpApart(*read, statement, holds))
    return found


def _asks_for_amp(test: ir.Value) -> bool:
    """Whether a test is the switch of mixed precision, by its name: `args.fp16`, `not use_amp`."""
    value = test.operand if isinstance(test, ir.Unary) and test.op == "Not" else test
    return isinstance(value, (ir.Name, ir.Attribute)) and names_switch(ir.last_name(value))


def _is_optimizer(module: Module, name: ir.Name) -> bool:
    known = objects(module)
    return known.is_optimizer(name) is not None or "optim" in name.name.lower()


def _called(module: Module, arm: _Arm) -> set[str]:
    """What an arm calls, as text."""
    return {_text(module, each.func) for each in ir.calls_below(arm.block)}


def _goes_on(block: ir.Block) -> bool:
    """Whether an arm is one more `if`, `elif` as a rule: its own arms, with and without a region, are compared."""
    return len(block.statements) == 1 and isinstance(block.statements[0], ir.If)


def _names_set(block: ir.Block) -> dict[str, ir.Name]:
    """The variables that a suite sets, somewhere, each with the first place."""
    names = [each for each in ir.values_below(block) if isinstance(each, ir.Name) and each.bound]
    return {each.name: each for each in reversed(names)}


def _read_after(module: Module, statement: ir.If, binding: ir.Name, other: ir.Block) -> ir.Name | None:
    """The first read of a variable after an `if` that alone sets it, where another suite of it may have run."""
    home, known = binding.scope.home(binding.name), decided(module)
    nodes = [node_of(each) for each in home.bindings[binding.name]] if home is not None else []
    if home is None or any(each is None or not is_within(each, statement) for each in nodes):
        return None
    reads = [
        each
        for each in module.whole.near(binding.name).values
        if ir.is_variable(each, binding.name) and not each.bound and each.scope.home(each.name) is home
    ]
    after = [
        each
        for each in reads
        if isinstance(each, ir.Name) and each.id > statement.id and not is_within(each, statement)
        if ir.function_of(each) is ir.function_of(statement) and not is_handled(module, each, NameError)
        if possible(known.inside(each), known.inside(other.statements[0])) is not None and not _asks_for_names(each)
    ]
    return min(after, key=lambda each: each.id) if after else None


def _asks_for_names(use: ir.Name) -> bool:
    """Whether an expression asks whether there is such a variable: `loss if "loss" in locals() else 0`."""
    up: ir.Node | None = use
    while isinstance(up, ir.Value):
        if isinstance(up, (ir.Conditional, ir.Bool)):
            called = (each for each in ir.walk_values(up) if isinstance(each, ir.Call))
            if any(ir.last_name(each.func) in ("locals", "globals", "dir", "vars") for each in called):
                return True
        up = up.parent
    return False


def _unpacked(module: Module, arm: _Arm) -> Iterator[tuple[str, ir.Assign]]:
    """The calls of an arm whose results are assigned, as text, each with its first assignment."""
    parts = {
        value.base.name
        for each in arm.leaves
        for root in (each.values() if isinstance(each, ir.Statement) else ())
        for value in ir.walk_values(root)
        if isinstance(value, ir.Subscript) and isinstance(value.base, ir.Name)
    }
    for each in reversed(arm.leaves):
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call) and len(each.targets) == 1:
            if _target(each) not in parts:  # a tuple of which an item is the loss
                yield _text(module, each.value), each


def _count(assign: ir.Assign) -> int | None:
    """Into how many values a statement takes a result apart; 1 for a loss, None where that can't be told."""
    target = assign.targets[0]
    if isinstance(target, ir.Sequence):
        return None if target.unpacks() else len(target.items)
    return 1 if _target(assign) else None


def _twins(module: Module) -> list[tuple[ir.If, _Arm, _Arm]]:
    """The ifs with two arms of which one opens a region of autocast: with that arm first."""
    found = []
    for statement in module.whole.near("autocast").statements:
        if isinstance(statement, ir.If) and statement.orelse is not None:
            readers, blocks = (Reader(module), Reader(module)), (statement.then, statement.orelse)
            arms = [
                _Arm(block, list(each.leaves(block)), each.without) for each, block in zip(readers, blocks, strict=True)
            ]
            if readers[0].region is not readers[1].region:
                cast, plain = arms if readers[0].region else reversed(arms)
                found.append((statement, cast, plain))
    return found


def _text(module: Module, node: ir.Node) -> str:
    return "".join(module.text(node).split())


# --- gradients that nobody needs -------------------------------------------------------------------------------------


def _needs_gradients(module: Module, statement: ir.Statement) -> bool:
    """Whether the function of an `if` has gradients made, steps, or hands on what may."""
    function = ir.function_of(statement)
    body = function.body if function is not None else module.program.body
    returned = (each.value for each in ir.walk_statements(body, into=False) if isinstance(each, ir.Return))
    return any(True for _ in events(module).below(body)) or any(
        isinstance(each, ir.Name) and "loss" in each.name.lower()
        for value in returned
        if value is not None
        for each in ([*value.children()] if isinstance(value, ir.Sequence) else [value])
    )


def _has_none(module: Module, statement: ir.Statement) -> bool:
    """Whether no gradients are made around an `if`, or around a call of its function."""
    calls = callers(module, ir.function_of(statement))
    return without_gradients(module, statement) or any(without_gradients(module, each) for each in calls)


# --- terms of a loss -------------------------------------------------------------------------------------------------


def _target(node: ir.Node) -> str:
    """The loss that a statement binds, or adds to; "" for another."""
    targets = node.targets if isinstance(node, ir.Assign) else [node.target] if isinstance(node, ir.AugAssign) else ()
    name = targets[0].name if len(targets) == 1 and isinstance(targets[0], ir.Name) else ""
    return name if "loss" in name.lower() else ""


def _term(node: ir.Node) -> ir.Value | None:
    """What a statement adds to a loss: `loss += term`, `loss = loss + term`."""
    if isinstance(node, ir.AugAssign):
        return node.value if node.op == "Add" and _target(node) else None
    whole = first = node.value if isinstance(node, ir.Assign) and _target(node) else None
    while isinstance(first, ir.Binary) and first.op == "Add":
        first = first.left
    if not isinstance(whole, ir.Binary) or not isinstance(first, ir.Name) or first.name != _target(node):
        return None
    return whole.right if whole.left is first else whole


def _starts(arm: _Arm) -> Iterator[ir.Assign]:
    """The statements that compute a loss anew, by a call."""
    for each in arm.leaves:
        if isinstance(each, ir.Assign) and each.value is not None and _target(each) and _term(each) is None:
            if any(isinstance(value, ir.Call) for value in ir.walk_values(each.value)):
                yield each


def _switches(module: Module) -> set[str]:
    """The tests that choose between training with a scaler and without."""
    statements = (each.statement for each in module.once(parallel_branches))
    return {_text(module, each.test) for each in statements if isinstance(each, ir.If)}


def _summed_apart(module: Module, statement: ir.If, cast: _Arm, plain: _Arm) -> Added | None:
    """A term of a loss that one arm sums up out of several, and the other arm doesn't, though it has others of them."""
    sums = [
        {
            _target(each): (each, terms)
            for each in arm.leaves
            if isinstance(each, ir.Assign) and (terms := _summed(each))
        }
        for arm in (cast, plain)
    ]
    for loss, (assigned, terms) in sums[0].items():
        if loss not in sums[1]:
            continue
        twin, others = sums[1][loss]
        pairs = ((cast, assigned, terms, others, plain), (plain, twin, others, terms, cast))
        for arm, where, own, its, other in pairs:
            shared = [each for each in own if _among(module, each, its)]
            alone = [each for each in own if each not in shared]
            if alone and len(shared) > 1 and not _adds_around(module, statement, loss, alone):
                return Added(where, alone[0], other.block, arm is cast)
    return None


def _summed(node: ir.Node) -> list[ir.Value]:
    """The terms that a statement sums up in a loss, `loss = first + second`; none for another statement."""
    if not isinstance(node, ir.Assign) or node.value is None or not _target(node) or _term(node) is not None:
        return []
    terms, first = [], node.value
    while isinstance(first, ir.Binary) and first.op == "Add":
        terms.append(first.right)
        first = first.left
    return [first, *reversed(terms)] if terms else []


def _among(module: Module, term: ir.Value, others: list[ir.Value]) -> bool:
    """Whether a term is one of some others: it has their text, or a variable that they have, too."""
    return any(_text(module, term) == _text(module, each) or _variables(term) & _variables(each) for each in others)


def _variables(term: ir.Value) -> set[str]:
    """The variables in a term whose names say that they hold a loss; all of them where none does."""
    names = {each.name for each in ir.walk_values(term) if isinstance(each, ir.Name)}
    return {each for each in names if "loss" in each.lower()} or names


def _adds_around(module: Module, statement: ir.If, loss: str, terms: list[ir.Value]) -> bool:
    """Whether the function of an `if` adds one of some terms to a loss outside of the `if`."""
    function = ir.function_of(statement)
    inside = {each.id for block in statement.blocks() for each in ir.walk_statements(block)}
    body = function.body if function is not None else module.program.body
    added = [
        term
        for each in ir.walk_statements(body, into=False)
        if each.id not in inside and _target(each) == loss
        for term in (*_summed(each), _term(each))
        if term is not None
    ]
    return any(_among(module, each, added) for each in terms)


def _terms(module: Module, arm: _Arm, losses: set[str]) -> dict[str, tuple[ir.Statement, ir.Value]]:
    """What an arm adds to some losses, as text, in which a variable that it assigns is what that holds."""
    held: dict[str, list[ir.Value]] = {}
    for each in arm.leaves:
        for target in each.targets if isinstance(each, ir.Assign) and each.value is not None else ():
            if isinstance(target, ir.Name) and target.name not in losses:
                held.setdefault(target.name, []).append(each.value)  # type: ignore[attr-defined]
    found: dict[str, tuple[ir.Statement, ir.Value]] = {}
    for each in arm.leaves:
        term = _term(each)
        if term is not None and isinstance(each, ir.Statement) and _target(each) in losses:
            found.setdefault(_resolved(module, term, held, _FOLLOW), (each, term))
    return found


def _resolved(module: Module, term: ir.Value, held: dict[str, list[ir.Value]], depth: int) -> str:
    """The text of a term without its blanks, with what its variables hold."""
    start, text = module.span(term)[0], module.text(term)
    names = [each for each in ir.walk_values(term) if isinstance(each, ir.Name)] if depth else []
    for each in sorted(names, key=module.span, reverse=True):
        before = [value for value in held.get(each.name, ()) if value.id < term.id]
        if before:
            first, last = module.span(each)
            own = _resolved(module, before[-1], held, depth - 1)
            text = f"{text[: first - start]}{own}{text[last - start :]}"
    return "".join(text.split())


# --- factors ---------------------------------------------------------------------------------------------------------


def _weighed(module: Module, one: list[ir.Node], other: list[ir.Node]) -> Weighed | None:
    """The first factor in which two suites differ; None where they differ in nothing, or in something else."""
    found: list[Weighed] = []
    for first, second in zip(one, other, strict=True):
        factors = _factors(first), _factors(second)
        if _blanked(module, first, factors[0]) != _blanked(module, second, factors[1]):
            return None
        pairs = zip(*factors, strict=True)
        found += [Weighed(mine, its) for mine, its in pairs if mine.value != its.value]
    return found[0] if len(found) == 1 else None


def _factors(node: ir.Node) -> list[ir.Constant]:
    """The numbers by which a statement that computes a loss multiplies."""
    if not isinstance(node, (ir.Assign, ir.AugAssign)):
        return []
    targets = node.targets if isinstance(node, ir.Assign) else [node.target]
    if not any("loss" in ir.last_name(each).lower() for each in targets) or node.value is None:
        return []
    products = (each for each in ir.walk_values(node.value) if isinstance(each, ir.Binary) and each.op == "Multiply")
    sides = [side for each in products for side in (each.left, each.right) if isinstance(side, ir.Constant)]
    return sorted((each for each in sides if type(each.value) in (int, float)), key=lambda each: each.id)


def _blanked(module: Module, node: ir.Node, factors: list[ir.Constant]) -> str:
    """The text of a node without its blanks and some factors."""
    start, text = module.span(node)[0], module.text(node)
    for first, last in sorted((module.span(each) for each in factors), reverse=True):
        text = f"{text[: first - start]}#{text[last - start :]}"
    return "".join(text.split())
