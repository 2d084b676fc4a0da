"""What opens autocast regions: what a context can be, and what is entered round a node in its own function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph, Given
from amplint.model.calls.call_sites import passed
from amplint.model.inference.formulas import FALSE, TRUE, Formula, both, contradict, either, negated, replaced
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import Doubt, values_of
from amplint.model.module import Answers
from amplint.model.names.reaching_definitions import only_assignment, only_reaching, reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import Region, is_partial, region_of
from amplint.model.objects.call_context import CallContext, Callee
from amplint.model.objects.terms import Term, literal, path, present, reads
from amplint.model.regions.framework_regions import framework_region
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Defined
from amplint.model.syntax.nesting import is_within

if TYPE_CHECKING:
    from amplint.model import Module

_MANAGER = {"contextlib.contextmanager"}
# Decorators of a function that gives a context which leave what it gives as it is.
_SAME = {"builtins.staticmethod", "builtins.classmethod", "builtins.property"}
# What surely is no region; and what one that can't be seen would be called.
_PLAIN = ("torch.", "contextlib.", "builtins.", "tqdm", "warnings.", "time.")
_WORDS = re.compile(r"(?i)amp(?![a-km-z])|cast|precision|ctx|context|half|16|32|accelerat|fabric")
# What a context out of sight is called that may switch regions off.
_SWITCHES = re.compile(r"(?i)autocast|amp(?![a-z])|fp32|float32|precision")
_ENTERS = ("enter_context", "__enter__")
_CLOSES = ("__exit__", "close", "pop_all")
# Methods that open or close a region by hand.
BY_HAND = (*_ENTERS, *_CLOSES)
# Switches the state behind the regions' backs.
_SETS = re.compile(r"torch\.set_autocast_(\w+_)?enabled")
_DEEPEST = 12  # contexts that are followed for one another
# What can stand for one of several functions.
_CHOSEN = (ir.Name, ir.Attribute, ir.Subscript)


class Opening(NamedTuple):
    """A region that a context can open, and what has to hold for it to be this one; None: that can't be told."""

    region: Region
    when: Formula | None


class Opens(NamedTuple):
    """What entering a context does: it opens one of `regions`, or none.

    `unseen` is what else the context can be, as far as that isn't in sight.
    """

    regions: tuple[Opening, ...] = ()
    unseen: tuple[ir.Value, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether one of the regions is opened, whatever the conditions."""
        told = [each.when for each in self.regions if each.when is not None]
        whole = bool(told) and len(told) == len(self.regions) and not self.unseen
        return whole and (TRUE in told or contradict(negated(either(*told))))


class Entered(NamedTuple):
    """A context that is entered round a node: by `at`, a `with`, a function that it decorates, or a call by hand.

    `made` is what has to hold for that, where the node is run.
    """

    context: ir.Value
    at: ir.Node
    opens: Opens
    made: Formula = TRUE


class Openers:
    """Reads the contexts of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._objects = objects(module)
        self._calls = module.once(CallGraph)
        self._decided = decided(module)
        self._opens = Answers[int, Opens](_DEEPEST)
        self._by_hand = _calls_by_hand(module)

    def opens(self, context: ir.Value) -> Opens:
        """What a context opens where a `with` enters it, or a function is decorated with it."""
        found = self._opens.of(context.id, lambda: self._find(context))
        return found if found is not None else Opens(unseen=(context,))

    def _find(self, value: ir.Value) -> Opens:
        with self._objects.within(CallContext()):  # the same for whoever asks
            return self._opened_by(value)

    def _opened_by(self, value: ir.Value) -> Opens:
        if isinstance(value, ir.Constant):
            return Opens()
        if isinstance(value, ir.Conditional):
            test = self._decided.of(value.test)
            arms = (value.then, test), (value.other, negated(test))
            return _joined(_under(when, self.opens(arm)) for arm, when in arms)
        if isinstance(value, ir.Call):
            region = region_of(self._module, value)
            if region is not None:
                return Opens((Opening(region, TRUE),))
            frameworks = framework_region(self._module, value)
            if frameworks is not None:
                return Opens((Opening(frameworks.region, TRUE if frameworks.is_given else None),))
            callee = self._calls.find(value)
            if callee is not None:
                return self._called(value, callee)
            if (chosen := self._chosen(value)) is not None:
                return chosen
        if isinstance(value, ir.Attribute) and (callee := self._calls.find_property(value)) is not None:
            return self._returned(value, callee.function)
        if isinstance(value, ir.Name) and (inner := self._only(value)) is not None:
            return self.opens(inner)
        found = self._decided.alternatives(value)
        if len(found) > 1 or found[0].value is not value:
            return _joined(_under(each.when, self.opens(each.value)) for each in found)
        if isinstance(value, ir.Attribute) and (kept := self._kept_in_settings(value)) is not None:
            return self.opens(kept)
        return self._several(value)

    def _kept_in_settings(self, value: ir.Attribute) -> ir.Value | None:
        """What the attribute of an object is set to where its class is in sight, if that is one thing: `cfg.ctx`."""
        found = values_of(self._module, value).leaves
        only = found[0] if len(found) == 1 else None
        known = only is not None and not only.is_open and only.doubt <= Doubt.DEFAULT and only.value is not value
        return only.value if only is not None and known else None

    def _chosen(self, call: ir.Call) -> Opens | None:
        """What a call opens of one of several: `ctx = partial(autocast, "cuda") if args.amp else nullcontext`."""
        func = call.func
        if isinstance(func, ir.Name) and len(functions := self._defined(func)) > 1:
            return _joined(self._of_arm(call, each, functions) for each in functions)
        found = self._decided.alternatives(func) if isinstance(func, _CHOSEN) else []
        if call.args or not found or (len(found) == 1 and found[0].value is func):
            return None
        return _joined(_under(each.when, self._opened_by_a_call(each.value, call)) for each in found)

    def _of_arm(self, call: ir.Call, function: ir.Function, functions: list[ir.Function]) -> Opens:
        """What a call opens of one of several functions: under which test, if that chooses between two."""
        found = self._called(call, Callee(function))
        up = function.parent
        if isinstance(up, ir.If) and len(functions) == 2 and all(each.parent is up for each in functions):
            test = self._decided.of(up.test)
            return _under(test if function.block is up.then else negated(test), found)
        return Opens(tuple(each._replace(when=None) for each in found.regions), found.unseen)

    def _defined(self, name: ir.Name) -> list[ir.Function]:
        """The functions without parameters that a name is where it is read, one of them; none if it can be another."""
        bound = reaching(self._module.names, name)
        what = [each.what if isinstance(each, Defined) else None for each in bound]
        functions = [each for each in what if isinstance(each, ir.Function) and not each.params]
        return functions if len(functions) == len(bound) else []

    def _opened_by_a_call(self, what: ir.Value, call: ir.Call) -> Opens:
        """What a call of a value opens: of a function, a lambda, a `partial` or a class."""
        bound = reaching(self._module.names, what) if isinstance(what, ir.Name) else []
        defined = bound[0].what if len(bound) == 1 and isinstance(bound[0], Defined) else None
        function = what.function if isinstance(what, ir.Lambda) else defined
        if isinstance(function, ir.Function):
            return self._called(call, Callee(function)) if not function.params else Opens(unseen=(call,))
        prefilled = what if isinstance(what, ir.Call) and is_partial(self._module, what) else None
        region = region_of(self._module, call, prefilled) if prefilled is not None else None
        if region is not None:
            return Opens((Opening(region, TRUE),))
        return Opens() if self.is_plain(what) else Opens(unseen=(call,))

    def _only(self, name: ir.Name) -> ir.Value | None:
        """What a variable is assigned where it is read, if that is one thing."""
        only = only_assignment(self._module.names, name)
        plain = only is not None and isinstance(only.target.parent, (ir.Assign, ir.Walrus))
        return only.value if only is not None and plain else None

    def _several(self, value: ir.Value) -> Opens:
        """What a variable, attribute or parameter opens that is set to several things, each under tests untold."""
        given = self._set_to(value) if isinstance(value, (ir.Name, ir.Attribute)) else [None]
        found = _joined(self.opens(each) for each in given if each is not None)
        unseen = () if None not in given else () if self.is_plain(value) else (value,)
        untold = tuple(each._replace(when=None) for each in found.regions)
        return Opens(untold, (*found.unseen, *unseen))

    def _set_to(self, value: ir.Name | ir.Attribute) -> list[ir.Value | None]:
        """What a variable, attribute or parameter can be set to; None among that is something out of sight."""
        sources: list[ir.Value | None] = [*self._objects.sources(value)]
        bindings = reaching(self._module.names, value) if isinstance(value, ir.Name) else []
        function = ir.parameter_of(bindings[0]) if len(bindings) == 1 else None
        if function is not None and isinstance(value, ir.Name):
            return passed(self._module, function, value.name) or [None]
        bound = isinstance(value, ir.Attribute) or all(isinstance(each, Assigned) for each in bindings)
        return sources if sources and bound else [*sources, None]

    def is_plain(self, context: ir.Value) -> bool:
        """Whether a context is one of torch's or Python's own, none of which is a region by another name."""
        names = self._module.names.of(context.func if isinstance(context, ir.Call) else context)
        return bool(names) and all(name.startswith(_PLAIN) and not _SETS.fullmatch(name) for name in names)

    # --- functions that give or are a context ------------------------------------------------------------------------

    def _called(self, call: ir.Call, callee: Callee) -> Opens:
        function = callee.function
        found = Opens(unseen=(call,))
        if function.name == "__init__" or function.is_async:
            return found
        names = [self._module.names.of(each) for each in function.decorators]
        if function.is_generator and sum(each == _MANAGER for each in names) == 1:
            others = [each for each in names if each != _MANAGER]
            found = self._managed(function) if all(each <= _SAME for each in others) else found
        elif not function.is_generator and all(each <= _SAME for each in names):
            found = self._returned(call, function)
        return self._for_call(found, call, callee)

    def _returned(self, value: ir.Value, function: ir.Function) -> Opens:
        """What a function returns."""
        returns = returned(function)
        if function.is_generator or not returns:
            return Opens(unseen=(value,))
        return _joined(
            _under(self._decided.inside(each), self.opens(each.value)) for each in returns if each.value is not None
        )

    def _managed(self, function: ir.Function) -> Opens:
        """What is open where a function that is a `@contextmanager` yields."""
        suspended = [each for each in ir.values_below(function.body) if isinstance(each, ir.Suspend)]
        found = []
        for each in suspended:
            opened, unseen, _ = self.deciding(each)
            regions = tuple(Opening(inner.region, inner.when) for inner in opened)
            found.append(_under(self._decided.inside(each), Opens(regions, unseen)))
        return _joined(found)

    def _for_call(self, found: Opens, call: ir.Call, callee: Callee) -> Opens:
        """What a function gives to one call: its parameters are what that one gives for them."""
        given = self._calls.given(call, callee)
        if given is None:
            return Opens(tuple(each._replace(when=None) for each in found.regions), found.unseen)
        handed_on = (self._handed_on(each, callee.function, given) for each in found.regions)
        filled = (self._filled(each, callee.function, given.named) for each in handed_on)
        return Opens(tuple(each for each in filled if each.when != FALSE), found.unseen)

    def _handed_on(self, opening: Opening, function: ir.Function, given: Given) -> Opening:
        """A region that takes over what a call puts into the `*args` and `**kwargs` of the function that makes it."""
        made, args = opening.region.call, list[ir.Arg]()
        for arg in made.args:
            name = self._parameter(arg.value, function) if arg.star else None
            param = function.param(name) if name is not None else None
            if param is None or param.kind != arg.star:
                args.append(arg)
            elif param.kind == "*":
                args += [ir.Arg(value, None, "", value.node) for value in given.positional]
            else:
                args += [ir.Arg(value, name, "", value.node) for name, value in given.keywords.items()]
        if tuple(args) == made.args:
            return opening
        region = region_of(self._module, ir.Call(made.id, made.node, made.parent, made.func, tuple(args)))
        return opening._replace(region=region._replace(call=made)) if region is not None else opening

    def _filled(self, opening: Opening, function: ir.Function, given: dict[str, ir.Value | None]) -> Opening:
        told = True

        def filled(value: ir.Value | None, *, switch: bool = False) -> ir.Value | None:
            nonlocal told
            name = self._parameter(value, function)
            if name is not None and given.get(name) is not None:
                return given[name]
            told = told and not (switch and value is not None and self._hangs_on_call(value, function))
            return value

        region = opening.region
        region = region._replace(
            device_type=filled(region.device_type),
            dtype=filled(region.dtype),
            enabled=filled(region.enabled, switch=True),
            cache_enabled=filled(region.cache_enabled),
        )
        when = self._replaced(opening.when, function, given) if opening.when is not None else None
        return Opening(region, when if told else None)

    def _parameter(self, value: ir.Value | None, function: ir.Function) -> str | None:
        """The name of the parameter that a value is."""
        if not isinstance(value, ir.Name):
            return None
        return value.name if ir.parameter_of(only_reaching(self._module.names, value)) is function else None

    def _hangs_on_call(self, value: ir.Value, function: ir.Function) -> bool:
        """Whether a value is made of a parameter for which not all calls give one thing."""
        for each in ir.walk_values(value):
            if isinstance(each, ir.Name) and self._parameter(each, function) is not None:
                if not self._decided.given(self._module.names.bindings(each)[0], each.name):
                    return True
        return False

    def _replaced(self, formula: Formula, function: ir.Function, given: dict[str, ir.Value | None]) -> Formula | None:
        """A condition in a function for one call; None where what the call gives doesn't decide it."""
        by: dict[Term, Formula] = {}
        for name, value in given.items():
            key = self._objects.raw_variable(function.scope, name)
            for term in formula.facts():
                if term == path(key) and value is not None:
                    by[term] = self._decided.of(value)
                elif term == present(path(key)) and value is not None:
                    by[term] = self._decided.present(value)
                elif term.compared == path(key) and isinstance(value, ir.Constant):
                    by[term] = TRUE if term.parts[1] == literal(value.value) else FALSE
                elif reads(term, key):
                    return None
        return replaced(formula, by) if by else formula

    # --- what is entered round a node --------------------------------------------------------------------------------

    def entered(self, node: ir.Node) -> list[Entered]:
        """The contexts that are entered round a node in its function, from the innermost on."""
        found = [*self._of_withs(node), *self._entered_by_hand(node)]
        found.sort(key=lambda each: -each.context.id)
        return [*found, *self._of_decorators(node)]

    def _of_withs(self, node: ir.Node) -> Iterator[Entered]:
        child, up = node, node.parent
        while up is not None and not isinstance(up, ir.Function):
            if isinstance(up, ir.With):
                contexts = [item.context for item in up.items]
                if isinstance(child, ir.Value):  # in the header: those before it are open
                    contexts = contexts[: contexts.index(child)] if child in contexts else []
                yield from (Entered(each, up, self.opens(each)) for each in contexts)
            child, up = up, up.parent

    def _of_decorators(self, node: ir.Node) -> Iterator[Entered]:
        child, up = node, node.parent
        while up is not None and not isinstance(up, ir.Function):
            child, up = up, up.parent
        if isinstance(up, ir.Function) and isinstance(child, ir.Statement):
            yield from self.decorating(up)

    def decorating(self, function: ir.Function) -> list[Entered]:
        """The decorators of a function that are contexts, innermost first; generators and coroutines run outside."""
        if function.is_generator or function.is_async:
            return []
        found = [Entered(each, function, self.opens(each)) for each in reversed(function.decorators)]
        return [each for each in found if each.opens.regions]

    def _entered_by_hand(self, node: ir.Node) -> Iterator[Entered]:
        function = ir.function_of(node)
        calls = self._by_hand.get(function.id if function is not None else 0, ())
        before = [each for each in calls if each.id < node.id]
        for call in before:
            if self.sets(call):
                yield Entered(call, call, Opens(unseen=(call,)))
                continue
            base, context = ir.called_on(call, *_ENTERS), entered_by(call)
            key = self._objects.key(base) if base is not None else None
            stack = self._with_of(call, key)
            if context is None or (stack is not None and not is_within(node, stack)):
                continue
            ends = (each for each in before if call.id < each.id and self._closes(each, key))
            made = both(self._decided.inside(call), *(negated(self._decided.inside(each)) for each in ends))
            if made != FALSE:
                yield Entered(context, call, self.opens(context), made)

    def _with_of(self, node: ir.Node, key: str | None) -> ir.With | None:
        """The `with` round a node that binds the object with a key."""
        up = node.parent if key is not None else None
        while up is not None and not isinstance(up, ir.Function):
            targets = [item.target for item in up.items] if isinstance(up, ir.With) else []
            if any(each is not None and self._objects.key(each) == key for each in targets):
                return up if isinstance(up, ir.With) else None
            up = up.parent
        return None

    def _closes(self, call: ir.Call, key: str | None) -> bool:
        base = ir.called_on(call, *_CLOSES)
        return base is not None and self._objects.key(base) == key

    def sets(self, call: ir.Call) -> bool:
        """Whether a call sets the state of autocast behind the regions' backs."""
        return any(_SETS.fullmatch(name) for name in self._module.names.of(call.func))

    def deciding(self, node: ir.Node) -> tuple[list[Open], tuple[ir.Value, ...], Formula]:
        """The regions of which one decides whether autocast is on at a node, by its own function.

        What may also decide but isn't in sight; and what has to hold for what is round the function to decide.
        """
        found: list[Open] = []
        unseen: list[ir.Value] = []
        left = TRUE
        for each in self.entered(node):
            told = []
            for region, when in each.opens.regions:
                if when is not None:
                    told.append(both(each.made, when))
                whole = both(left, told[-1]) if when is not None else None
                if whole != FALSE:
                    found.append(Open(region, each.context, each.at, whole))
            left = both(left, negated(either(*told)))
            unseen += each.opens.unseen
            if left == FALSE or (each.made == TRUE and each.opens.is_sure) or any(map(may_switch, each.opens.unseen)):
                return found, tuple(unseen), FALSE
        return found, tuple(unseen), left


class Open(NamedTuple):
    """A region that is open at a node: what enters it, where, and what has to hold for it to be what decides.

    `site` is the last of the calls that lead from the region to the node's function; None where it is that one's own.
    """

    region: Region
    entered: ir.Value
    at: ir.Node
    when: Formula | None
    site: ir.Call | None = None


def openers(module: Module) -> Openers:
    """The reader of a module's contexts."""
    return module.once(Openers)


def opens(module: Module, context: ir.Value) -> Opens:
    """What a context opens where it is entered."""
    return openers(module).opens(context)


def entered_by(call: ir.Call) -> ir.Value | None:
    """What a call enters: of `stack.enter_context(region)` its argument, of `region.__enter__()` the region."""
    if not isinstance(call.func, ir.Attribute) or call.func.attr not in _ENTERS:
        return None
    if call.func.attr == "__enter__":
        return call.func.base
    return call.positional[0] if call.positional else None


def may_switch(context: ir.Value) -> bool:
    """Whether a context that can't be seen is about precision, going by its name: `with disable_autocast():`."""
    return any(_SWITCHES.search(ir.last_name(each)) for each in ir.walk_values(context))


def may_be_region(module: Module, context: ir.Value) -> bool:
    """Whether a context that can't be followed may be an autocast region."""
    if openers(module).is_plain(context):
        return False
    return any(_WORDS.search(ir.last_name(each)) for each in ir.walk_values(context))


def _calls_by_hand(module: Module) -> dict[int, list[ir.Call]]:
    """The calls that open or close a context by hand, or set autocast's state, by the ids of their functions."""
    found: dict[int, list[ir.Call]] = {}
    sets = ("set_autocast_enabled", "set_autocast_cpu_enabled", "set_autocast_xla_enabled")
    for call in sorted(module.whole.called(*BY_HAND, *sets), key=lambda each: each.id):
        function = ir.function_of(call)
        found.setdefault(function.id if function is not None else 0, []).append(call)
    return found


def _under(when: Formula, found: Opens) -> Opens:
    """What a context opens under one more condition."""
    if when == FALSE:
        return Opens()
    regions = tuple(each if each.when is None else each._replace(when=both(when, each.when)) for each in found.regions)
    return Opens(tuple(each for each in regions if each.when != FALSE), found.unseen)


def _joined(parts: Iterable[Opens]) -> Opens:
    """What a context opens that is one of several."""
    parts = list(parts)
    return Opens(
        tuple(region for each in parts for region in each.regions),
        tuple(value for each in parts for value in each.unseen),
    )
