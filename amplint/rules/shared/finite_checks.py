"""Numbers that may not be finite: what asks for that, what ends the program then, and what a number is made of."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import passed
from amplint.model.calls.events import events, is_grad
from amplint.model.flow.gradient_reads import is_parameters
from amplint.model.flow.value_uses import COMPUTING, INFINITE, PASSING
from amplint.model.inference.values import asked, held
from amplint.model.names.reaching_definitions import reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.control import EXITS, block_leaves, conditions_round
from amplint.model.syntax.ir import Assigned, node_of
from amplint.model.syntax.nesting import ifs_round, loop_of, upwards
from amplint.model.torch_facts.signatures import CLIPS

if TYPE_CHECKING:
    from amplint.model import Module

    Parts = Callable[[ir.Value, bool], list[ir.Value]]

_MANY = 200
_FOLLOW = 10
# What a test calls, and whether it is true of numbers that are not finite.
_TESTS = {"isnan": True, "isinf": True, "isfinite": False}
# What hands the truth of a test on.
_WRAPPERS = {"all", "any", "bool", "cpu", "int", "item", "len", "sum"}
_NORMS = {"clip_grad_norm_", "clip_grad_norm", "get_total_norm"}
# Exceptions that mean something to whoever calls.
_SIGNALS = {"OverflowError", "StopIteration", "StopAsyncIteration", "GeneratorExit"}


class Abort(NamedTuple):
    """A statement that ends the program where a value is not finite; `decides`: the assert or if that asks that."""

    at: ir.Statement
    decides: ir.Assert | ir.If
    asked: list[ir.Value]


class Part(NamedTuple):
    """A value that a number is made of.

    `sites` are the calls through which it was come to, the innermost last: its parameters are what they give. `item`:
    of several values packed together the one that counts; None: all do.
    """

    value: ir.Value
    sites: tuple[ir.Call, ...] = ()
    item: int | str | None = None

    def whole(self, value: ir.Value) -> Part:
        """Another value, beside it, all of which counts."""
        return Part(value, self.sites)


# --- aborts -----------------------------------------------------------------------------------------------------------


def aborts(module: Module) -> list[Abort]:
    """The statements that raise or exit where a number is not finite, and that nothing in sight catches."""
    return module.once(_aborts)


def _aborts(module: Module) -> list[Abort]:
    found = []
    for statement in module.whole.near("assert", "raise", *module.words(*EXITS)).statements:
        if not isinstance(statement, ir.Assert) and not ends_program(module, statement):
            continue
        for decides, test, holds in _deciding(module, statement):
            asked = not_finite(module, test, holds)
            if asked and not is_caught(module, statement):
                found.append(Abort(statement, decides, asked))
                break
    return found


def _deciding(module: Module, statement: ir.Statement) -> Iterator[tuple[ir.Assert | ir.If, ir.Value, bool]]:
    """What may decide that a statement is run, its test, and how that comes out: the assert itself, the `if` around it,
    and those before it in its suite that leave (`if torch.isfinite(grad).all(): continue`), unless they ask for more.
    """
    parent = statement.parent
    if isinstance(statement, ir.Assert):
        yield statement, statement.test, False
        return
    before = statement.block.statements[: statement.block.statements.index(statement)]
    leaving = [each for each in before if isinstance(each, ir.If) and block_leaves(each.then)]
    for each in reversed(leaving):
        if all(_is_there(module, other.test, False) for other in leaving if other is not each):
            yield each, each.test, False
    if isinstance(parent, ir.If):
        yield parent, parent.test, statement.block is parent.then


def ends_program(module: Module, statement: ir.Statement) -> bool:
    """Whether a statement ends the program; an exception of one's own may be a signal to the caller."""
    if isinstance(statement, ir.Raise):
        raised = statement.parts[0] if statement.parts else None
        raised = raised.func if isinstance(raised, ir.Call) else raised
        name = ir.last_name(raised) if raised is not None else ""
        if raised is None or module.names.of(raised) != {f"builtins.{name}"}:
            return False
        return name not in _SIGNALS and isinstance(getattr(builtins, name, None), type)
    call = statement.value if isinstance(statement, ir.Expr) else None
    return isinstance(call, ir.Call) and bool(module.names.of(call.func) & EXITS)


def is_caught(module: Module, node: ir.Node) -> bool:
    """Whether an exception is caught round a node, or round a call of its function."""
    function = ir.function_of(node)
    name = function.name if function is not None else ""
    raised = _raised(node)
    return any(
        any(_catches(module, handler, raised) for handler in each.handlers)
        and (stands_in(node, each.body) or (name and _calls(each.body, name)))
        for each in (*module.whole.within(function).statements, *(module.whole.near(name).statements if name else ()))
        if isinstance(each, ir.Try)
    )


def _raised(node: ir.Node) -> type[BaseException]:
    """The exception that a statement raises; torch raises RuntimeErrors."""
    if isinstance(node, ir.Raise) and node.parts:
        raised = node.parts[0]
        found = getattr(builtins, ir.last_name(raised.func if isinstance(raised, ir.Call) else raised), None)
        return found if isinstance(found, type) and issubclass(found, BaseException) else Exception
    if isinstance(node, ir.Assert):
        return AssertionError
    return SystemExit if isinstance(node, ir.Expr) else RuntimeError


def is_handled(module: Module, node: ir.Node, *raised: type[BaseException]) -> bool:
    """Whether one of some exceptions that a node may raise is caught round it, in its own function."""
    tries = (each.parent for each in upwards(ir.statement_of(node)) if isinstance(each.parent, ir.Try))
    return any(_catches(module, handler, each) for one in tries for handler in one.handlers for each in raised)


def _catches(module: Module, handler: ir.Handler, raised: type[BaseException]) -> bool:
    """Whether a handler may catch an exception, as far as its types can be told."""
    types = handler.type.items if isinstance(handler.type, ir.Sequence) else (handler.type,)
    for each in types:
        for name in module.names.of(each) if each is not None else ("builtins.BaseException",):
            known = getattr(builtins, name.removeprefix("builtins."), None) if name.startswith("builtins.") else None
            if isinstance(known, type):
                if issubclass(raised, known):
                    return True
            elif not name.endswith("OutOfMemoryError"):
                return True
    return False


def stands_in(node: ir.Node, block: ir.Block) -> bool:
    """Whether a node stands below a suite, in the same function."""
    return any(each.block is block for each in upwards(ir.statement_of(node)))


def _calls(block: ir.Block, name: str) -> bool:
    return any(isinstance(each, ir.Call) and ir.last_name(each.func) == name for each in ir.values_below(block))


# --- tests ------------------------------------------------------------------------------------------------------------


def not_finite(module: Module, test: ir.Value, holds: bool) -> list[ir.Value]:
    """The values of which it is enough that one is not finite for a test to come out as `holds`.

    None where something else has a part in it too: a counter, a flag.
    """
    return list(asked(module, _not_finite, held(module, test), list[ir.Value](), holds))


def _not_finite(module: Module, test: ir.Value, holds: bool) -> list[ir.Value]:
    def parts(value: ir.Value, truth: bool) -> list[ir.Value]:
        return not_finite(module, value, truth)

    if isinstance(test, ir.Unary) and test.op in ("Not", "BitInvert"):
        return parts(test.operand, not holds)
    if isinstance(test, ir.Bool) or (isinstance(test, ir.Binary) and test.op in ("BitOr", "BitAnd")):
        left, right = parts(test.left, holds), parts(test.right, holds)
        if (test.op in ("or", "BitOr")) is holds:
            return left + right
        both = (left or _adds_nothing(module, test.left, holds)) and (right or _adds_nothing(module, test.right, holds))
        return left + right if both else []
    if isinstance(test, ir.Compare):
        return _compared(module, test, holds, parts)
    if isinstance(test, ir.Call):
        return _called(module, test, holds, parts) or _answered(module, test, holds, parts)
    if isinstance(test, ir.Comprehension):
        return _listed(test, holds, parts)
    return _flagged(module, test, holds, parts) if isinstance(test, ir.Name) else []


def _flagged(module: Module, flag: ir.Name, holds: bool, parts: Parts) -> list[ir.Value]:
    """A variable that is set where a number is not finite: `bad = False`, and then `bad = True` for a NaN."""
    bindings = reaching(module.names, flag)
    assigned = [each.value for each in bindings if isinstance(each, Assigned)]
    if len(assigned) < len(bindings) or any(ir.function_of(each) is not ir.function_of(flag) for each in assigned):
        return []
    return _decided_by(module, [(each, each) for each in assigned], holds, parts, conditions_round(flag))


def _answered(module: Module, test: ir.Call, holds: bool, parts: Parts) -> list[ir.Value]:
    """A function of the project that answers whether numbers are finite."""
    callee = module.once(CallGraph).find(test)
    if callee is None or callee.function.is_generator:
        return []
    returns = returned(callee.function)
    ends = bool(callee.function.body.statements) and isinstance(callee.function.body.statements[-1], ir.Return)
    if not ends and not holds:  # where it ends without an answer, that is None
        return []
    return _decided_by(module, [(each.value, each) for each in returns], holds, parts, [])


def _decided_by(
    module: Module,
    values: Iterable[tuple[ir.Value | None, ir.Node]],
    holds: bool,
    parts: Parts,
    given: list[tuple[ir.Value, bool]],
) -> list[ir.Value]:
    """What is asked where one of some values is to come out as `holds`: by itself, or where a constant is chosen.

    Args:
        values: the values, and the nodes that give them.
        given: conditions that hold anyway.
    """
    found: list[ir.Value] = []
    for value, node in values:
        if value is None or isinstance(value, ir.Constant):
            if bool(value is not None and value.value) is not holds:
                continue
            asked_for = []
            for test, how in (each for each in conditions_round(node) if each not in given):
                asks = parts(test, how)
                if not asks and not _is_there(module, test, how):
                    return []
                asked_for += asks
        else:
            asked_for = parts(value, holds)
        if not asked_for:
            return []
        found += asked_for
    return found


def _listed(test: ir.Comprehension, holds: bool, parts: Parts) -> list[ir.Value]:
    """`any(... for p in ...)`, and the list of those that aren't finite, which is true where there is one."""
    found = parts(test.elements[0], holds) if len(test.elements) == 1 else []
    if holds and test.kind != "GeneratorExp":
        found += [value for clause in test.clauses for each in clause.conditions for value in parts(each, True)]
    return found


def _compared(module: Module, test: ir.Compare, holds: bool, parts: Parts) -> list[ir.Value]:
    """`x != x`, `x == float("inf")`, `torch.isnan(x).sum() > 0`."""
    if len(test.ops) != 1:
        return []
    op, left, right = test.ops[0], test.left, test.rights[0]
    if op == ("NotEqual" if holds else "Equal"):
        rendered = objects(module).render(left)
        return [left] if rendered is not None and rendered == objects(module).render(right) else []
    if op == ("Equal" if holds else "NotEqual"):
        return [one for one, other in ((left, right), (right, left)) if _is_infinite(module, other)]
    zero = isinstance(right, ir.Constant) and right.value == 0 and right.value is not False
    return parts(left, holds) if op == "GreaterThan" and zero else []


def _is_infinite(module: Module, value: ir.Value) -> bool:
    if isinstance(value, ir.Call) and module.names.of(value.func) == {"builtins.float"}:
        return any(isinstance(each, ir.Constant) and isinstance(each.value, str) for each in value.positional)
    return bool(module.names.of(value) & INFINITE)


def _called(module: Module, test: ir.Call, holds: bool, parts: Parts) -> list[ir.Value]:
    """`torch.isfinite(x)`, `x.isnan()`, and what hands their truth on: `.any()`, `bool(...)`."""
    func, name = test.func, ir.last_name(test.func)
    given = test.positional[0] if test.positional else None
    if not _computes(module, func):
        given = func.base if isinstance(func, ir.Attribute) else None
    if given is None:
        return []
    if name in _TESTS:
        return [given] if _TESTS[name] is holds else []
    return parts(given, holds) if name in _WRAPPERS else []


def _computes(module: Module, func: ir.Value) -> bool:
    """Whether a function is one of torch's, numpy's or Python's, and no method of what stands before the dot."""
    names = module.names.of(func)
    return bool(names) and all(each.startswith(COMPUTING) for each in names)


def _adds_nothing(module: Module, test: ir.Value, holds: bool) -> bool:
    """Whether a test comes out as `holds` again and again in a training whose numbers are what they are: where there is
    a number at all, or in each k-th iteration.
    """
    return _is_there(module, test, holds) or comes_again(module, test, holds)


def comes_again(module: Module, test: ir.Value, holds: bool) -> bool:
    """Whether a test comes out as `holds` in each k-th iteration: `step % 100 == 0`.

    One of a number that counts what is not finite does not.
    """
    test = held(module, test)
    if isinstance(test, ir.Unary) and test.op == "Not":
        return comes_again(module, test.operand, not holds)
    if isinstance(test, ir.Compare):
        right = test.rights[0]
        if test.ops != (("Equal",) if holds else ("NotEqual",)) or not isinstance(right, (ir.Constant, ir.Binary)):
            return False
        test, holds = test.left, False
    if holds or not isinstance(test, ir.Binary) or test.op != "Modulo":
        return False
    counted = [each for each in ir.walk_values(test.left) if isinstance(each, (ir.Name, ir.Attribute))]
    names = [each for each in counted if not isinstance(each.parent, ir.Attribute)]
    return bool(names) and all(_counts_iterations(module, each) for each in names)


def _counts_iterations(module: Module, value: ir.Value) -> bool:
    """Whether a number is a loop's, or is added to in each iteration, whatever is found there, and not set back."""
    stores = [each for each in _stores_of(module, value) if loop_of(each) is not None]
    adding = [each for each in stores if isinstance(each, ir.AugAssign)]
    if any(about_finite(module, each.test) for store in adding for each in ifs_round(store)):
        return False
    loops = {loop_of(each) for each in adding}
    return all(loop_of(each) not in loops and bool(adding) for each in stores if isinstance(each, ir.Assign))


def _stores_of(module: Module, value: ir.Value) -> list[ir.Statement]:
    """The statements that store a variable, or an attribute of its name."""
    if isinstance(value, ir.Name):
        nodes = filter(None, map(node_of, module.names.bindings(value)))
        return [ir.statement_of(each) for each in nodes if not isinstance(each, ir.Function)]
    name = ir.last_name(value)
    statements = (each for each in module.whole.near(name).statements if isinstance(each, (ir.Assign, ir.AugAssign)))
    return [each for each in statements if any(_is_named(target, name) for target in _targets(each))]


def _targets(store: ir.Assign | ir.AugAssign) -> Iterable[ir.Value]:
    return store.targets if isinstance(store, ir.Assign) else (store.target,)


def _is_named(target: ir.Value, name: str) -> bool:
    return isinstance(target, ir.Attribute) and target.attr == name


def _is_there(module: Module, test: ir.Value, holds: bool) -> bool:
    """Whether a test comes out as `holds` where there is a number at all: `norm is not None`, `p.requires_grad`."""
    if isinstance(test, ir.Unary) and test.op == "Not":
        return _is_there(module, test.operand, not holds)
    if isinstance(test, ir.Bool):
        both = (test.op == "and") is holds
        return both and _is_there(module, test.left, holds) and _is_there(module, test.right, holds)
    if isinstance(test, ir.Compare):
        right = test.rights[0]
        none = isinstance(right, ir.Constant) and right.value is None
        return none and test.ops == (("IsNot",) if holds else ("Is",))
    if isinstance(test, ir.Call):
        return holds and bool(module.names.of(test.func) & {"builtins.isinstance", "torch.is_tensor"})
    return holds and ir.last_name(test) in ("requires_grad", "grad")


def about_finite(module: Module, test: ir.Value) -> list[ir.Value]:
    """The values that a test asks whether they are finite, or whether they aren't."""
    return [*not_finite(module, test, True), *not_finite(module, test, False)]


def only_asks_for_presence(module: Module, tests: Iterable[ir.Value]) -> bool:
    """Whether some tests ask for no more than that something is there, or that it isn't."""
    return all(_is_there(module, each, True) or _is_there(module, each, False) for each in tests)


# --- numbers ----------------------------------------------------------------------------------------------------------


def made_of(module: Module, value: ir.Value) -> list[ir.Value]:
    """A number, and the values that it is made of by arithmetic, which keeps NaN: no calls of models and criteria.

    Variables are followed to what they can hold there, functions of the file to what they return for what they are
    given, and of several values that are packed together the one that is taken.
    """
    found: dict[int, ir.Value] = {}
    seen: set[Part] = set()
    todo = [Part(value)]
    while todo and len(seen) < _MANY:
        part = todo.pop(0)
        if part not in seen:
            seen.add(part)
            found[part.value.id] = part.value
            todo += _parts(module, part)
    return list(found.values())


def _parts(module: Module, part: Part) -> list[Part]:
    value = part.value
    if isinstance(value, ir.Name):
        return list(_held(module, value, part))
    if isinstance(value, ir.Call):
        return _operands(module, value, part)
    if isinstance(value, (ir.Sequence, ir.Mapping)):
        return [part.whole(each) for each in _items(value, part.item)]
    if isinstance(value, ir.Subscript):
        index = value.index.value if isinstance(value.index, ir.Constant) else None
        return [part._replace(value=value.base, item=index if isinstance(index, (int, str)) else None)]
    if isinstance(value, ir.Conditional):
        return [part._replace(value=each) for each in (value.then, value.other)]
    if isinstance(value, ir.Walrus):
        return [part._replace(value=value.value)]
    return [part.whole(each) for each in _computed_from(value)]


def _items(value: ir.Sequence | ir.Mapping, item: int | str | None) -> list[ir.Value]:
    """What is packed together, or the item of it that counts, where that can be told."""
    if isinstance(value, ir.Sequence):
        packed = any(isinstance(each, ir.Starred) for each in value.items)
        if isinstance(item, int) and not packed and -len(value.items) <= item < len(value.items):
            return [value.items[item]]
        return list(value.items)
    keys = [key.value if isinstance(key, ir.Constant) else None for key, _ in value.items]
    known = item in keys and None not in keys
    return [each for key, (_, each) in zip(keys, value.items, strict=True) if not known or key == item]


def _computed_from(value: ir.Value) -> list[ir.Value]:
    """The operands of what keeps the NaN of any of them."""
    if isinstance(value, ir.Attribute):
        return [value.base] if value.attr in ("data", "T") else []
    if isinstance(value, ir.Comprehension):
        return list(value.elements)
    kept = isinstance(value, (ir.Binary, ir.Bool, ir.Starred)) or _is_sign(value)
    return list(value.children()) if kept else []


def _is_sign(value: ir.Value) -> bool:
    return isinstance(value, ir.Unary) and value.op in ("Minus", "Plus")


def _operands(module: Module, call: ir.Call, part: Part) -> list[Part]:
    func, name = call.func, ir.last_name(call.func)
    if _computes(module, func):
        return [part.whole(each) for each in call.positional] if name in PASSING else []
    if isinstance(func, ir.Attribute) and name in PASSING:
        return [part.whole(func.base)]
    callee = module.once(CallGraph).find(call)
    if callee is None or callee.function.is_generator or call in part.sites or len(part.sites) == _FOLLOW:
        return []
    sites = (*part.sites, call)
    return [Part(each.value, sites, part.item) for each in returned(callee.function) if each.value is not None]


def _held(module: Module, name: ir.Name, part: Part) -> Iterator[Part]:
    """What a variable can hold: what is assigned, added to it, looped over, or given by the file's own calls."""
    for binding in reaching(module.names, name):
        up = node_of(binding)
        if isinstance(binding, Assigned):
            yield part._replace(value=binding.value)
            continue
        place = _place_in(up)
        while isinstance(up, (ir.Name, ir.Sequence)):
            target, up = up, up.parent
            if isinstance(up, ir.Comprehension):
                yield from (part.whole(each.iter) for each in up.clauses if each.target is target)
        if isinstance(up, ir.Assign) and place is not None and up.value is not None:
            yield part._replace(value=up.value, item=place)
        elif isinstance(up, ir.AugAssign):
            yield part.whole(up.value)
        elif isinstance(up, ir.For):
            yield part.whole(up.iter)
        elif isinstance(up, ir.Function):
            yield from _given(module, up, name.name, part)


def _place_in(target: ir.Node | None) -> int | None:
    """Which item of what is unpacked a variable gets: `loss, norm = ...`."""
    up = target.parent if target is not None else None
    if not isinstance(up, ir.Sequence) or not isinstance(up.parent, ir.Assign):
        return None
    return up.items.index(target) if not any(isinstance(each, ir.Starred) for each in up.items) else None


def _given(module: Module, function: ir.Function, name: str, part: Part) -> list[Part]:
    """What a parameter can be: what the call that led here gives for it, else what any of the file's does."""
    calls = module.once(CallGraph)
    for depth, site in reversed(list(enumerate(part.sites))):
        callee = calls.find(site)
        if callee is not None and callee.function is function:
            given = (calls.arguments(site, callee) or {}).get(name)
            return [Part(given, part.sites[:depth], part.item)] if given is not None else []
    return [Part(each, (), part.item) for each in passed(module, function, name) if each is not None]


def returns_norm(module: Module, call: ir.Call) -> bool:
    """Whether a call clips gradients or measures them, and returns their norm."""
    return bool(module.names.of(call.func) & CLIPS) or ir.last_name(call.func) in _NORMS


def gradients_in(module: Module, value: ir.Value) -> ir.Value | None:
    """The gradients of parameters that a number is the size of: `p.grad`, the call that clips or measures them, or
    `torch.autograd.grad` of a scaled loss.
    """
    for each in made_of(module, value):
        if isinstance(each, ir.Call):
            if returns_norm(module, each) or _is_grad_of_scaled(module, each):
                return each
        elif is_grad(each) and is_parameters(module, each):
            return each
    return None


def _is_grad_of_scaled(module: Module, call: ir.Call) -> bool:
    """Whether a call is `torch.autograd.grad` of what a scaler has scaled."""
    if "torch.autograd.grad" not in module.names.of(call.func):
        return False
    outputs = argument(call, "torch.autograd.grad", "outputs")
    scaled = held(module, outputs) if outputs is not None else None
    event = events(module).of(scaled) if isinstance(scaled, ir.Call) else None
    return event is not None and event.kind == "scale"
