"""What decides: values followed to what they can be, and under which conditions; tests as formulas over open facts.

`enabled=use_amp` is followed through variables, attributes, parameters and choices to `args.amp`, whatever it is called
on the way, so that two switches can be compared by what decides them and not by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_sites import CallSites, callers, passed
from amplint.model.calls.dummy_scalers import makes_dummy_scaler
from amplint.model.calls.external_calls import storing_class
from amplint.model.inference.declared_choices import declared_choices
from amplint.model.inference.declared_settings import option_named
from amplint.model.inference.devices import devices, region_devices, types_of
from amplint.model.inference.dtypes import Dtype, changes_defaults, dtypes, region_dtypes
from amplint.model.inference.formulas import (
    FALSE,
    TRUE,
    Formula,
    both,
    choice,
    contradict,
    either,
    equals,
    fact,
    negated,
    possible,
    present,
    replaced,
)
from amplint.model.inference.never_empty import is_never_empty, makes_never_empty
from amplint.model.inference.set_options import set_before
from amplint.model.inference.values import KEPT, Doubt, Follower, Leaf, Step
from amplint.model.names.reaching_definitions import only_reaching, reaching
from amplint.model.objects import terms
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region
from amplint.model.objects.key_parts import attribute_of, own_self, part_of
from amplint.model.objects.terms import Op, Term
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round, unpacked_from
from amplint.model.syntax.ir import Assigned, Binding, Other
from amplint.model.syntax.operators import COMPARES, ORDERS
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import class_of_self, owner_class
from amplint.model.torch_facts.deprecated_names import is_in_all
from amplint.model.torch_facts.names import DEFAULT_DTYPE, SCALERS
from amplint.model.torch_facts.op_spellings import DTYPES

if TYPE_CHECKING:
    from amplint.model import Module


def _on(device: str) -> Formula:
    """That the code runs on a device of this type."""
    return fact(terms.on_device(device))


# The code runs on cuda: a region and a scaler for cuda switch themselves off where it is missing.
ON_CUDA = _on("cuda")
_FOLLOW = 8
_MANY = 1000  # more devices than anybody compares with
# Tests of tests of tests: a formula doubles with each. So does the work where a loop sets what its own tests ask for.
_DEEP = 10
_MOST_TESTS = 400
OTHER_ACCELERATORS = ("xpu", "mps", "npu", "hpu", "xla", "mlu", "musa", "mtia")
_NOT_ON_CUDA = {"torch.cuda.amp.amp_definitely_not_available"}
# What is true only where there is CUDA, though it may be false there too; and what says that there is another device.
_BFLOAT16 = "torch.cuda.is_bf16_supported"
_TRUE_ON_CUDA = {_BFLOAT16, "torch.cuda.is_initialized"}
# The release since which the former is true on each card, as it counts emulation (torch/cuda/__init__.py).
_EMULATED_SINCE = "2.4"
_ELSEWHERE = {
    "torch.backends.mps.is_available": "mps",
    "torch.mps.is_available": "mps",
    "torch.xpu.is_available": "xpu",
}
_COUNT = "torch.cuda.device_count"
# What raises without CUDA: a comparison of it comes out only where there is some.
_NEEDS_CUDA = {f"torch.cuda.get_device_{name}" for name in ("capability", "properties", "name")}
# What the name of a dtype, or of a precision, has.
_DTYPE = re.compile(r"(?i)16|32|half|float|mixed")
_EQUAL = ("Equal", "Is")
_UNEQUAL = ("NotEqual", "IsNot")


class Alternative(NamedTuple):
    """One of the things that a value can be, and what has to hold for it."""

    value: ir.Value
    when: Formula


def _vague(node: ir.Node) -> Formula:
    """A fact that can't be told from others."""
    return fact(_unknown(node.id))


def _unknown(name: object) -> Term:
    """What can't be told from others but by a name of its own."""
    return Term(Op.VAGUE, str(name))


def is_vague(formula: Formula) -> bool:
    """Whether it hangs on something that can't be told from other facts."""
    return any(term.op == Op.VAGUE for term in formula.subjects())


def without_idle_facts(formula: Formula, *others: Formula) -> Formula:
    """A formula without the facts that may be one or the other where it holds, and others do as well.

    `if path is not None and resume() is not None: raise`: behind it, where `path` is None, whatever `resume()` is.
    """
    facts = sorted(formula.facts(), key=lambda term: (term.op != Op.VAGUE, str(term)))  # what can't be told goes first
    for term in facts:
        either_way = both(replaced(formula, {term: TRUE}), replaced(formula, {term: FALSE}))
        if possible(either_way, *others) is not None:
            formula = either_way
    return formula


class Decided:
    """Follows the values of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._follower = module.once(Follower)
        self._active: set[int] = set()
        self._depth = 0
        self._tests_left = _MOST_TESTS  # for what is asked now
        self._cut = 0  # how often something was not followed, since it is followed already, or too deep
        self._formulas: dict[int, Formula] = {}  # of the tests that were followed to their ends
        self._given: dict[tuple[int, str], list[ir.Value]] = {}
        self._orders: dict[Term, tuple[ir.Compare, bool]] = {}  # what of two values is more: the first test that asks
        self.tests: dict[Term, ir.Value] = {}  # the facts, each with a test that asks for it
        self._bounds: dict[Term, tuple[str | None, ...]] = {}  # what something is declared to be one of
        self.dtypes: set[Term] = set()  # those that something is a torch.dtype

    # --- what a value can be -----------------------------------------------------------------------------------------

    def alternatives(self, value: ir.Value, depth: int = _FOLLOW) -> list[Alternative]:
        """What a value can be, variables and attributes followed as far as the file shows; never empty."""
        self._begin()
        if not depth or value.id in self._active or not self._tests_left:
            self._cut += 1
            return [Alternative(value, TRUE)]
        self._active.add(value.id)
        found = self._alternatives(value, depth)
        self._active.discard(value.id)
        return found or [Alternative(value, TRUE)]

    def _begin(self) -> None:
        """Allow as much work as one question may take, where a new one is asked."""
        if not self._active and not self._depth:
            self._tests_left = _MOST_TESTS

    def _alternatives(self, value: ir.Value, depth: int) -> list[Alternative]:
        binding = self._parameter(value)
        if binding is not None and isinstance(value, ir.Name):
            return self._given_for(binding, value.name, depth)
        literal = set_before(self._module, value)
        if literal is not None:
            return [Alternative(literal, TRUE)]
        step = self._follower.step(value) if self._is_followed(value) else None
        if step is not None and step.parameter and isinstance(value, ir.Name):
            return self._replaced(value, step, depth)
        if step is None or not (step.whole or isinstance(value, ir.Conditional)) or _is_of_settings(value, step):
            return []
        found = [
            Alternative(each.value, both(self.when(source), each.when))
            for source in step.sources
            for each in self.alternatives(source.value, depth - 1)
        ]
        return [each for each in found if each.when != FALSE]

    def _given_for(self, binding: Binding, name: str, depth: int) -> list[Alternative]:
        """What a parameter can be by what the file's calls give for it; nothing where that isn't one thing."""
        return [each for one in self.given(binding, name) for each in self.alternatives(one, depth - 1)]

    def _replaced(self, name: ir.Name, step: Step, depth: int) -> list[Alternative]:
        """What a variable can be that is a parameter where no assignment replaces it."""
        bindings = reaching(self._module.names, name)
        binding = next(each for each in bindings if ir.parameter_of(each) is not None)
        found = []
        for source in step.sources if all(each.doubt is not Doubt.REPLACED for each in step.sources) else ():
            when = self.when(source)
            if source.value is name:
                given = self._given_for(binding, name.name, depth) or [Alternative(name, TRUE)]
            else:
                given = self.alternatives(source.value, depth - 1) if source.doubt is Doubt.NONE else []
            found += [Alternative(each.value, both(when, each.when)) for each in given]
        return [each for each in found if each.when != FALSE]

    def _whichever(self, value: ir.Value, of: Callable[[ir.Value], Formula]) -> Formula:
        """What `of` says of a value, whichever of its alternatives that is."""
        return either(*(both(each.when, of(each.value)) for each in self.alternatives(value)))

    def _parameter(self, value: ir.Value) -> Binding | None:
        """The parameter that a name is, where it can be nothing else."""
        only = only_reaching(self._module.names, value) if isinstance(value, ir.Name) and not value.bound else None
        return only if ir.parameter_of(only) is not None else None

    def _is_followed(self, value: ir.Value) -> bool:
        """Whether what a value is decides, and not what it is by default."""
        if isinstance(value, ir.Attribute):
            if owner_class(value) is not None or value.attr in KEPT:
                return True
            option = option_named(self._module, value.attr)
            return self._follower.is_never_changed(value) if option is None else option.is_fixed
        return isinstance(value, (ir.Conditional, ir.Walrus, ir.Subscript, ir.Call, ir.Name))

    def given(self, binding: Binding, name: str) -> list[ir.Value]:
        """What the file's calls give for a parameter; nothing where that isn't one thing."""
        function = binding.node if isinstance(binding, Other) else None
        if not isinstance(function, ir.Function):
            return []
        key = function.id, name
        if key not in self._given:
            self._given[key] = []  # a function that calls itself gives nothing new
            self._given[key] = self._find_given(function, name)
        return self._given[key]

    def _find_given(self, function: ir.Function, name: str) -> list[ir.Value]:
        found: dict[str, ir.Value] = {}
        for value in passed(self._module, function, name):
            if value is None:
                return []
            literal = repr(value.value) if isinstance(value, ir.Constant) else None
            found[literal or self.path(value) or f"value {value.id}"] = value
        return list(found.values()) if len(found) == 1 else []

    def path(self, value: ir.Value, depth: int = _FOLLOW, key: object = None) -> str | None:
        """Where a value comes from, as a text that is the same for the same thing in whichever function.

        `key`: of a dict it is only asked what it has there, which a copy has as well, unless it is set anew.
        """
        if not depth:
            self._cut += 1
            return None
        if isinstance(value, ir.Name):
            return self._path_of_variable(value, depth, key)
        if isinstance(value, ir.Attribute):
            return self._path_of_attribute(value, value.base, value.attr, depth)
        if isinstance(value, ir.Subscript) and isinstance(value.index, ir.Constant):
            base = self.path(value.base, depth - 1, value.index.value)
            return part_of(base, value.index.value) if base is not None else None
        return self._path_of_lookup(value, depth) if isinstance(value, ir.Call) else None

    def _path_of_lookup(self, call: ir.Call, depth: int) -> str | None:
        """The path of what `getattr(config, "amp", False)` or `config.get("amp", False)` looks up."""
        given, table = call.positional, ir.called_on(call, "get")
        if len(given) != len(call.args) or call.unpacks("*"):
            return None
        if self._module.names.of(call.func) == {"builtins.getattr"} and len(given) > 1:
            name = given[1].value if isinstance(given[1], ir.Constant) else None
            return self._path_of_attribute(call, given[0], name, depth) if isinstance(name, str) else None
        if table is None or not 1 <= len(given) <= 2 or not isinstance(given[0], ir.Constant):
            return None
        base = self.path(table, depth - 1, given[0].value)
        return part_of(base, given[0].value) if base is not None else None

    def _path_of_variable(self, value: ir.Name, depth: int, key: object) -> str:
        """The path of what a variable is assigned or given, else its own."""
        only = only_reaching(self._module.names, value)
        is_active = value.id in self._active
        self._cut += is_active
        given = self.given(only, value.name) if isinstance(only, Other) and not is_active else []
        inner = only.value if isinstance(only, Assigned) else next(iter(given), None)
        if isinstance(only, Assigned) and (original := self._copied(only, key)) is not None:
            inner = original
        return self._deeper(value, inner, depth, key) or self._objects.raw_variable(value.scope, value.name)

    def _copied(self, made: Assigned, asked: object) -> ir.Value | None:
        """The dict that a variable is a copy of, whose item at a key, or at all that are read, is the same."""
        call = made.value
        original = ir.called_on(call, "copy")
        if isinstance(call, ir.Call) and self._module.names.of(call.func) == {"builtins.dict"}:
            original = call.args[0].value if len(call.args) == 1 and call.args[0].star == "" else None
        if original is None or not isinstance(call, ir.Call) or call.keywords:
            return None
        changed, read = set[object](), set[object]()
        for each in self._module.whole.within(ir.function_of(call)).values:
            changing = ir.called_on(each, "update", "setdefault", "pop")
            if changing is not None and ir.last_name(changing) == made.target.name:
                return None
            if isinstance(each, ir.Subscript) and isinstance(each.base, ir.Name):
                key = each.index.value if isinstance(each.index, ir.Constant) else None
                is_set = ir.is_target(each)
                (changed if is_set and each.base.name == made.target.name else read).add(key)
        same = None not in changed and not changed & (read if asked is None else {asked})
        return original if same else None

    def _path_of_attribute(self, value: ir.Value, of: ir.Value, attr: str, depth: int) -> str | None:
        """The path of what is stored in an attribute of `self`, else its own."""
        cls = self._owner(of)
        if cls is None:
            base = self.path(of, depth - 1)
            return attribute_of(base, attr) if base is not None else None
        stored = (storing_class(self._module, cls, attr) or cls).stored(attr)
        inner = stored[0] if len(stored) == 1 else None
        if isinstance(inner, ir.Call) and self._module.names.of(inner.func) == {"builtins.bool"} and inner.positional:
            inner = inner.positional[0]  # as true as that
        return self._deeper(value, inner, depth) or attribute_of(own_self(cls), attr)

    def _owner(self, value: ir.Value, depth: int = _FOLLOW) -> ir.Class | None:
        """The class whose `self` a value is, also in a function that is given it: `step(self)`, `trainer.amp` there."""
        if not isinstance(value, ir.Name) or not depth:
            return None
        cls = class_of_self(value)
        binding = self._parameter(value) if cls is None else None
        given = self.given(binding, value.name) if binding is not None else []
        return self._owner(given[0], depth - 1) if given else cls

    def _deeper(self, value: ir.Value, inner: ir.Value | None, depth: int, key: object = None) -> str | None:
        if not isinstance(inner, (ir.Name, ir.Attribute, ir.Subscript, ir.Call)):
            return None
        if value.id in self._active:
            self._cut += 1
            return None
        self._active.add(value.id)
        found = self.path(inner, depth - 1, key)
        self._active.discard(value.id)
        return found

    # --- tests -------------------------------------------------------------------------------------------------------

    def of(self, test: ir.Value | None) -> Formula:
        """A test as a formula; None, where a switch is not given, is on."""
        if test is None:
            return TRUE
        self._begin()
        if test.id in self._formulas:
            return self._formulas[test.id]
        if self._depth >= _DEEP or not self._tests_left:
            self._cut += 1
            return _vague(test)
        self._depth += 1
        self._tests_left -= 1
        cut = self._cut
        try:
            found = self._of(test)
        finally:
            self._depth -= 1
        if self._cut == cut:
            self._formulas[test.id] = found
        return found

    def _of(self, test: ir.Value) -> Formula:
        if isinstance(test, ir.Constant):
            return TRUE if test.value else FALSE
        if isinstance(test, ir.Unary) and test.op == "Not":
            return negated(self.of(test.operand))
        if isinstance(test, ir.Bool):
            return (both if test.op == "and" else either)(self.of(test.left), self.of(test.right))
        if isinstance(test, ir.Conditional):
            return choice(self.of(test.test), self.of(test.then), self.of(test.other))
        if isinstance(test, ir.Compare):
            return self._compared(test)
        if (scaler := self._objects.asked_if_enabled(test)) is not None:
            return self.scaler_on(scaler)
        if isinstance(test, ir.Call):
            return self._called(test)
        if isinstance(test, ir.Attribute) and test.attr == "is_cuda":
            return ON_CUDA
        return self._followed(test)

    def _followed(self, test: ir.Value) -> Formula:
        """A test by what it can be; a fact of its own, where that is nothing else."""
        found = self.alternatives(test)
        return either(
            *(both(each.when, self._open(test) if each.value is test else self.of(each.value)) for each in found)
        )

    def _open(self, test: ir.Value) -> Formula:
        """A fact of its own; of an object that is true wherever it is there, that it is."""
        if is_never_empty(self._module, test):
            return self._is_there(test)
        return self._asked(fact(self._term(test)), test)

    def _term(self, value: ir.Value) -> Term:
        """Where a value comes from, or how it is written."""
        path = self.path(value)
        return terms.path(path) if path is not None else self._called_on(value) or _unknown(value.id)

    def _called_on(self, value: ir.Value) -> Term | None:
        """What a value is by names and literals; so is what a method makes of it: `str(args.dtype).lower()`."""
        found = self._objects.term(value)
        if found is not None or not isinstance(value, ir.Call) or not isinstance(value.func, ir.Attribute):
            return found
        parts = [self._called_on(each) for each in (value.func.base, *(each.value for each in value.args))]
        known = tuple(each for each in parts if each is not None)
        return Term(Op.CALL, value.func.attr, known) if len(known) == len(parts) and not value.unpacks() else None

    def _asked(self, found: Formula, value: ir.Value) -> Formula:
        """A fact, kept with a value that it is about."""
        for term in found.facts():
            self.tests.setdefault(term, value)
        return found

    def _called(self, call: ir.Call) -> Formula:
        names = self._module.names.of(call.func)
        if names in ({"torch.cuda.is_available"}, {_COUNT}):
            return ON_CUDA
        if names == {"builtins.bool"} and len(call.positional) == 1:
            return self.of(call.positional[0])
        if (
            names & SCALERS
            or self._is_offered(call)
            or self._objects.has_method(call)
            or makes_never_empty(self._module, call)
        ):
            return TRUE
        if names & _NOT_ON_CUDA:
            return negated(ON_CUDA)
        if names == {_BFLOAT16} and not call.args and self._module.target.guarantees(_EMULATED_SINCE):
            return ON_CUDA
        if names & _TRUE_ON_CUDA and len(names) == 1:
            return both(self._open(call), ON_CUDA)
        if names & _ELSEWHERE.keys() and len(names) == 1:
            return self._elsewhere(call, _ELSEWHERE[min(names)])
        if names == {"builtins.isinstance"} and len(call.positional) == 2:
            return self._is_instance(call, *call.positional)
        if names == {"builtins.hasattr"} and len(call.positional) == 2:
            return self._has_attribute(call, *call.positional)
        if isinstance(call.func, ir.Attribute):
            if call.func.attr == "startswith" and call.positional and isinstance(call.positional[0], ir.Constant):
                return self._starts(call.func.base, call.positional[0], call)
        return self._followed(call)

    def _starts(self, base: ir.Value, start: ir.Constant, call: ir.Call) -> Formula:
        """`base.startswith(start)`: it is this text, or one of those that start so and that it is compared with."""
        path = self.path(base)
        near = self._module.whole.near(start.value).values if path is not None and isinstance(start.value, str) else ()
        longer = [
            each
            for each in near
            if isinstance(each, ir.Constant) and isinstance(each.value, str) and isinstance(each.parent, ir.Compare)
            if each.value.startswith(str(start.value)) and each.value != start.value
            if any(self.path(other) == path for other in each.parent.children() if isinstance(other, ir.Value))
        ]
        return either(*(self._is(base, each, call) for each in (start, *longer)))

    def _has_attribute(self, call: ir.Call, base: ir.Value, name: ir.Value) -> Formula:
        """`hasattr(base, "name")`: it holds wherever `base.name` does, whoever passes the object on."""
        path = self.path(base) if not (isinstance(base, ir.Name) and class_of_self(base) is not None) else None
        if path is None or not isinstance(name, ir.Constant) or not isinstance(name.value, str):
            return self._followed(call)
        asked = fact(Term(Op.CALL, "hasattr", (terms.path(path), terms.literal(name.value))))
        return either(self._asked(asked, call), fact(terms.path(f"{path}.{name.value}")))

    def _is_instance(self, call: ir.Call, value: ir.Value, of: ir.Value) -> Formula:
        """`isinstance(value, of)`: of a scaler's class, that there is one."""
        classes = of.items if isinstance(of, ir.Sequence) else (of,)
        if classes and all(self._module.names.of(each) & SCALERS for each in classes):
            return self._whichever(value, lambda each: self._is_scaler(each, call))
        # Which optimizer it is, is a choice like any other.
        return self._open(call) if self._objects.is_optimizer(value) else _vague(call)

    def _is_scaler(self, value: ir.Value, test: ir.Call) -> Formula:
        """That one of the things that a value can be is a scaler of torch's: what isn't made in sight may be one."""
        if isinstance(value, ir.Call):
            return TRUE if self._module.names.of(value.func) & SCALERS else _vague(test)
        return self._is_there(value)

    def _is_offered(self, call: ir.Call) -> bool:
        """Whether a call asks torch for a name that all admitted releases have: `hasattr(torch.amp, "GradScaler")`."""
        given = call.positional
        if self._module.names.only(call.func) != "builtins.hasattr" or len(given) != 2:
            return False
        owner, name = self._module.names.only(given[0]), given[1]
        return isinstance(name, ir.Constant) and is_in_all(self._module.target, f"{owner}.{name.value}")

    def _compared(self, test: ir.Compare) -> Formula:
        """A comparison; of what only CUDA has, its devices and what they can do, it says that there is CUDA, too."""
        found = self._compared_as_any(test)
        for value, other in ((test.left, test.rights[0]), (test.rights[0], test.left)) if len(test.ops) == 1 else ():
            asked = self._asked_of_cuda(value)
            if asked == _COUNT and isinstance(other, ir.Constant) and isinstance(other.value, int):
                return _of_count(test.ops[0], other.value, found, turned=value is not test.left)
            if asked is not None:
                return both(found, ON_CUDA)
        return found

    def _asked_of_cuda(self, value: ir.Value, depth: int = _FOLLOW) -> str | None:
        """The function that a value comes from, or is a part of what comes from it, if that needs CUDA or counts it."""
        if isinstance(value, ir.Call):
            name = self._module.names.only(value.func)
            return name if name == _COUNT or name in _NEEDS_CUDA else None
        if not depth or not isinstance(value, (ir.Name, ir.Attribute, ir.Subscript)):
            return None
        step = self._follower.step(value)
        if step is not None and step.whole and len(step.sources) == 1:
            return self._asked_of_cuda(step.sources[0].value, depth - 1)
        if not isinstance(value, ir.Name):
            return self._asked_of_cuda(value.base, depth - 1)
        only = only_reaching(self._module.names, value) if not value.bound else None  # `major, minor = ...`
        source = unpacked_from(only)
        return self._asked_of_cuda(source, depth - 1) if source is not None else None

    def _compared_as_any(self, test: ir.Compare) -> Formula:
        op, left, right = test.ops[0], test.left, test.rights[0]
        if len(test.ops) > 1:
            return self._open(test)
        if isinstance(left, ir.Constant) and op in (*_EQUAL, *_UNEQUAL):
            left, right = right, left
        if op in ("Is", "IsNot") and (_is_new(left) or _is_new(right)):
            return FALSE if op == "Is" else TRUE
        if op in _EQUAL:
            return self._is(left, right, test)
        if op in _UNEQUAL:
            return negated(self._is(left, right, test))
        if op in ("In", "NotIn"):
            found = self._in(left, right, test)
            return found if op == "In" else negated(found)
        return self._ordered(test) if op in ORDERS else self._open(test)

    def _ordered(self, test: ir.Compare) -> Formula:
        """`left < right`: the same fact as `right > left`, and the opposite of `left >= right`."""
        greater, holds = terms.ordered(test.ops[0], self._term(test.left), self._term(test.rights[0]))
        first, held = self._orders.setdefault(greater, (test, holds))
        return self._open(first) if holds is held else negated(self._open(first))

    def _in(self, left: ir.Value, right: ir.Value, test: ir.Value) -> Formula:
        if isinstance(right, ir.Sequence):
            return either(*(self._is(left, each, test) for each in right.items))
        if isinstance(left, ir.Constant) and _is_part_of_name(left.value):  # `"cuda" in str(device)`
            return self._is(right, left, test)
        return self._open(test)

    def _is(self, left: ir.Value, right: ir.Value, test: ir.Value) -> Formula:
        """`left == right`."""
        dtype = DTYPES.get(self._module.names.only(right) or "")
        if dtype is not None:
            return self.is_dtype(left, dtype)
        if not isinstance(right, ir.Constant):
            return self._open(test)
        if right.value is None:
            return negated(self.present(left))
        if isinstance(right.value, bool):
            return self.of(left) if right.value else negated(self.of(left))
        return self.equals(left, right.value)

    def equals(self, left: ir.Value, value: object) -> Formula:
        """That a value is a literal; the name of a device says whether the code runs on cuda."""
        if isinstance(value, str):
            device = value.partition(":")[0]
            if device == "cuda":
                return FALSE if self._never_cuda(left) else ON_CUDA
            if device == "cpu":
                return both(negated(ON_CUDA), *(negated(_on(each)) for each in self._accelerators(left)))
            if device in OTHER_ACCELERATORS:
                return self._elsewhere(left, device)
        return self._whichever(left, lambda each: self._equal(each, value))

    def _elsewhere(self, value: ir.Value, device: str) -> Formula:
        """That a device is an accelerator other than cuda: a test asks for that by a value."""
        return both(self._asked(_on(device), value), negated(ON_CUDA))

    def _never_cuda(self, value: ir.Value) -> bool:
        """Whether a device, or its type, is seen to be another than cuda."""
        types = types_of(self._module, devices(self._module, value))
        return bool(types) and not types & {None, "cuda"}

    def _accelerators(self, value: ir.Value) -> list[str]:
        """Those other than cuda that a device, or its type, is seen to be one of."""
        types = types_of(self._module, devices(self._module, value))
        return [each for each in OTHER_ACCELERATORS if each in types and None not in types]

    def _equal(self, left: ir.Value, value: object) -> Formula:
        """That something equals a literal; of a declaration's choices it is the last one where it is no other."""
        choices = self._choices(left) if isinstance(left, (ir.Name, ir.Attribute)) else ()
        if choices and value not in choices:
            return FALSE
        found = self._open_equal(left, value)
        *others, last = (each for each in choices if each is not None) if choices else (None,)
        if value != last:
            return found
        none = (negated(self._open_equal(left, each)) for each in others)
        return either(found, both(self._is_there(left) if None in choices else TRUE, *none))

    def _open_equal(self, left: ir.Value, value: object) -> Formula:
        """That something equals a literal, whatever it is declared to be."""
        if isinstance(left, ir.Constant):
            return TRUE if left.value == value else FALSE
        if (self._module.names.only(left) or "") in DTYPES:
            return FALSE  # `torch.float16 == "fp16"`
        return self._asked(equals(self._term(left), value), left)

    def _choices(self, value: ir.Value) -> tuple[str | None, ...]:
        """All that a value can be by a declaration of it; empty where nothing bounds it."""
        subject = self._term(value)
        if not self._bounds.get(subject):
            self._bounds[subject] = declared_choices(self._module, value)
        return self._bounds[subject]

    def present(self, value: ir.Value) -> Formula:
        """`value is not None`."""
        return self._whichever(value, self._is_there)

    def _is_there(self, value: ir.Value) -> Formula:
        if isinstance(value, (ir.Constant, ir.Call)):
            return FALSE if isinstance(value, ir.Constant) and value.value is None else TRUE
        if (self._module.names.only(value) or "") in DTYPES:
            return TRUE
        path = self.path(value)
        return self._asked(present(terms.path(path)) if path is not None else _vague(value), value)

    # --- switches ----------------------------------------------------------------------------------------------------

    def when(self, leaf: Leaf) -> Formula:
        """What has to hold for a value to be a leaf."""
        tests = [self._test(*test) for test in leaf.tests]
        unless = [negated(both(*(self._test(*test) for test in each))) for each in leaf.unless]
        return both(*tests, *unless, *(self._by(call) for call in leaf.by))

    def _by(self, call: ir.Call) -> Formula:
        """That a function is run by one of its calls: by one at a time."""
        return equals(_unknown(f"call of {ir.last_name(call.func)}"), call.id)

    def _taken(self, found: list[Dtype]) -> list[Formula]:
        """When what can be several dtypes is the one or the other; one without tests, where no other is."""
        formulas = [self.when(each.leaf) for each in found]
        rest = negated(either(*(each for each in formulas if each != TRUE)))
        if sum(each == TRUE for each in formulas) == 1:
            return [each if each != TRUE else rest for each in formulas]
        return [tests if tests != TRUE else _vague(each.value) for each, tests in zip(found, formulas, strict=True)]

    def _is_one(self, found: list[Dtype], name: str) -> Formula:
        """That what can be several dtypes is `name`."""
        parts = []
        for each, when in zip(found, self._taken(found), strict=True):
            if each.name is None:
                equal = self._open_equal(each.value, name)
                self.dtypes |= equal.facts()
                parts.append(both(when, equal))
            elif each.name == name:
                parts.append(when)
        return either(*parts)

    def is_dtype(self, value: ir.Value, name: str) -> Formula:
        """That a dtype-like value is `name`."""
        return self._whichever(value, lambda each: self._is_one(dtypes(self._module, each), name))

    def _test(self, value: ir.Value, outcome: object) -> Formula:
        if outcome is None:
            return negated(self.present(value))
        if isinstance(outcome, ir.Value):
            return _vague(outcome)
        if isinstance(outcome, bool):
            return self.of(value) if outcome else negated(self.of(value))
        return self.equals(value, outcome)

    def region_dtypes(self, region: Region) -> list[Dtype]:
        """The dtypes in which a region can run while its own `enabled` holds; never empty."""
        found, on = region_dtypes(self._module, region), self.of(region.enabled)
        kept = [each for each, when in zip(found, self._taken(found), strict=True) if not contradict(on, when)]
        return kept or found

    def region_runs_in(self, region: Region, name: str) -> Formula:
        """That a region is on, and runs in the dtype `name`."""
        if region.opaque:
            return both(_vague(region.call), self._is_one(region_dtypes(self._module, region), name))
        if region.dtype is None:
            return self._region_runs_in(region, name)
        return self._whichever(region.dtype, lambda each: self._region_runs_in(region._replace(dtype=each), name))

    def _region_runs_in(self, region: Region, name: str) -> Formula:
        """That a region is on, and runs in the dtype `name`, its own dtype not followed further."""
        if region.chosen is not None:
            classes = region_devices(self._module, region)
            return either(*(self._as_class(region, each.name, name, self.when(each.leaf)) for each in classes))
        types = types_of(self._module, region_devices(self._module, region))
        found = region_dtypes(self._module, region)
        on = self.of(region.enabled)
        if types == {"cuda"}:
            return both(on, ON_CUDA, self._is_one(found, name))
        default = any(each.value is region.call for each in found)
        known = types <= {None, *DEFAULT_DTYPE}  # a vendor's device has a default of its own
        if default and known and name == "float16" and types != {"cpu"}:  # on other devices it is another
            possible = {*self.defaults_to(region, name), *(("cuda",) if not types or None in types else ())}
            return both(on, either(*map(runs_on, sorted(possible))))
        if types and None not in types and "cuda" not in types:
            return both(on, TRUE if types == {"cpu"} else negated(ON_CUDA), self._is_one(found, name))
        return both(on, _vague(region.call)) if default else both(on, self._is_one(found, name))

    def _as_class(self, region: Region, device: str | None, name: str, when: Formula) -> Formula:
        """That a region of one of several old classes, for one device, runs in the dtype `name`."""
        if device is None:
            return both(when, _vague(region.call))
        return both(when, self._region_runs_in(region._replace(chosen=None, device=device), name))

    def defaults_to(self, region: Region, name: str) -> list[str]:
        """The devices on which a region without a dtype runs in the dtype `name`, of those that it is seen to be for.

        Where its device is unknown these are the ones for which its `enabled` asks, or what it is inside of.
        """
        if changes_defaults(self._module):
            return []
        types = types_of(self._module, region_devices(self._module, region))
        if None in types or not types:
            tests = both(self.of(region.enabled), self.inside(region.call)).facts()
            types |= {term.name for term in tests if term.op == Op.ON}
        return [device for device in sorted(filter(None, types)) if DEFAULT_DTYPE.get(device) == name]

    def scaler_on(self, value: ir.Value) -> Formula:
        """That a scaler is there, and switched on."""
        parts = []
        for each in self.alternatives(value):
            if isinstance(each.value, ir.Call) and self._module.names.of(each.value.func) & SCALERS:
                enabled = scaler_arguments(self._module, each.value).get("enabled")
                on = _vague(each.value) if each.value.unpacks() else self.of(enabled)
                parts.append(both(each.when, on))
            elif not ir.is_none(each.value) and not makes_dummy_scaler(self._module, each.value):
                parts.append(both(each.when, _vague(each.value)))
        return either(*parts)

    # --- places ------------------------------------------------------------------------------------------------------

    def inside(self, node: ir.Node, within: ir.Node | None = None) -> Formula:
        """What has to hold for a node to be run, once its function is called, or once what it is `within` is run."""
        return both(*(self._test(test, holds) for test, holds in conditions_round(node, within)))

    def around(self, node: ir.Node, depth: int = 3) -> Formula:
        """What has to hold for a node to be run: also for one of the file's calls of its function to be made."""
        function = ir.function_of(node)
        found = self.inside(node)
        if function is None or not depth:
            return found
        calls = [each for each in callers(self._module, function) if ir.function_of(each) is not function]
        return both(found, either(*(self.around(each, depth - 1) for each in calls))) if calls else found


def runs_on(device: str) -> Formula:
    """That the code runs on this device; where there is cuda it runs on no other."""
    return ON_CUDA if device == "cuda" else both(_on(device), negated(ON_CUDA))


def _is_part_of_name(value: object) -> bool:
    """Whether a literal names a device or a dtype: a text that contains it is that one. Others are keys of dicts."""
    return isinstance(value, str) and (value.partition(":")[0] in DEFAULT_DTYPE or _DTYPE.search(value) is not None)


def _of_count(op: str, number: int, found: Formula, *, turned: bool) -> Formula:
    """The comparison of a count of CUDA's devices with a number, as a formula; `turned`: the number stands first."""
    compare = COMPARES.get(op)
    if compare is None:
        return found
    none, one, many = (compare(*((number, each) if turned else (each, number))) for each in (0, 1, _MANY))
    if none:  # `< 2`, `== 0`
        return either(found, negated(ON_CUDA)) if one or many else negated(ON_CUDA)
    return ON_CUDA if one and many else both(found, ON_CUDA)


def _is_new(value: ir.Value) -> bool:
    """Whether a value is an object that is made right there, and so is no other: `checkpoint.keys()`, a display."""
    if isinstance(value, ir.Call):
        return ir.called_on(value, "keys", "values", "items") is not None and not value.args
    is_display = isinstance(value, ir.Sequence) and value.kind != "tuple"
    return is_display or isinstance(value, (ir.Mapping, ir.Comprehension))


def _is_of_settings(value: ir.Value, step: Step) -> bool:
    """Whether a dict is one of settings: what it holds is a setting's default."""
    looked_up = isinstance(value, ir.Subscript) or (isinstance(value, ir.Call) and ir.last_name(value.func) == "get")
    return looked_up and not any(isinstance(each.value, ir.Call) for each in step.sources)


def decided(module: Module) -> Decided:
    """The reader of the module's decisions."""
    return module.once(Decided)


def is_off(module: Module, region: Region) -> bool:
    """Whether a region is surely off here: `enabled=False`, or a helper of another file's that is only called so.

    What calls a helper of this file's own may be anywhere.
    """
    if is_false(region.enabled):
        return True
    function, enabled = ir.function_of(region.call), region.enabled
    if region.opaque or not isinstance(enabled, ir.Name) or module.is_own(region.call):
        return False
    if function is None or function.cls is not None:
        return False
    if ir.parameter_of(module.names.only_binding(enabled)) is not function:
        return False
    return _is_only_called(module, function) and all(map(is_false, passed(module, function, enabled.name)))


def _is_only_called(module: Module, function: ir.Function) -> bool:
    """Whether calls in sight run a function, and nothing else is done with it."""
    known = {each.id for each in callers(module, function)}
    mentioned = module.once(CallSites).mentions(function)
    return bool(known) and all(
        isinstance(each.parent, ir.Call) and each.parent.func is each and each.parent.id in known for each in mentioned
    )
