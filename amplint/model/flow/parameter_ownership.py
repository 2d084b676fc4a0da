"""Which optimizer's parameters a loss, a clear or a clip reaches, as far as the file shows it."""

from __future__ import annotations

import re
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import events, is_grad
from amplint.model.calls.external_calls import storing_class
from amplint.model.flow.state import AbstractValue, State, ValueKind
from amplint.model.names.reaching_definitions import only_assignment, reaching, returned
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.key_parts import (
    KeySet,
    attribute_of,
    contains,
    is_attribute,
    last_name,
    moved,
    overlap,
    own_self,
    owner_of,
    root_of,
    self_id,
)
from amplint.model.syntax import ir
from amplint.model.syntax.control import unpacked_from
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.syntax.nesting import exclusive
from amplint.model.syntax.queries import calls_in
from amplint.model.syntax.scopes import UNKNOWN
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.model.torch_facts.modules import CASTS, MOVES, RETURNS_ITSELF

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.model.objects.call_context import CallContext

# Methods of tensors, by which a batch that is a parameter isn't taken for a model.
_OF_TENSORS = {*MOVES, *CASTS, *ENDS_GRADIENTS, "clone", "requires_grad_", "view", "reshape", "flatten", "mean", "sum"}
_CRITERION = re.compile(r"(?i)criterion|loss")


class Ownership:
    """Reads the owners of parameters in one module. An optimizer's key "" stands for all that is not known.

    `several`: there are several optimizers where it is asked, whether or not the file makes them.
    """

    def __init__(self, module: Module, several: bool) -> None:
        self._module = module
        self._objects = objects(module)
        # The models whose parameters some optimizer owns.
        self._roots = {root for roots in self._objects.owns.values() for root in roots}
        self._root_keys = KeySet(self._roots)
        self._roots_known: dict[CallContext, KeySet] = {}  # those, and what a call context makes of them
        self._called: dict[int, list[ir.Value]] = {}  # function -> what its calls call
        self._reached: dict[tuple[object, ...], AbstractValue] = {}
        self._of_copies: dict[tuple[object, ...], bool] = {}
        self._inherited_known: dict[str, tuple[str, set[str]]] = {}
        self._taking: list[str | None] = []  # the variables whose sources are being looked at
        self._follows = False  # whether variables are followed to what they are assigned
        self.is_single = not several and len(self._objects.constructed) <= 1

    def is_optimizer(self, key: str) -> bool:
        """Whether a key is one of an optimizer that the file makes or steps."""
        return self._objects.is_optimizers(key)

    def is_construction(self, value: ir.Value, place: int | None = None) -> bool:
        """Whether a value is a new optimizer of torch's, made here or in the function that is called.

        `place`: of the items that the function returns the one that is asked about.
        """
        if not isinstance(value, ir.Call):
            return False
        if place is None and self._is_torchs_optimizer(value):
            return True
        callee = self._module.once(CallGraph).find(value)
        returns = returned(callee.function) if callee is not None else []
        return bool(returns) and all(self._is_made_there(each.value, place) for each in returns)

    def _is_made_there(self, value: ir.Value | None, place: int | None) -> bool:
        """Whether a function that returns a value has made it, or the item of it at a place, as an optimizer."""
        if place is not None:
            items = value.items if isinstance(value, ir.Sequence) else ()
            value = items[place] if place < len(items) else None
        if isinstance(value, ir.Name):
            made = only_assignment(self._module.names, value)
            value = made.value if made is not None else None
        return self._is_torchs_optimizer(value)

    def _is_torchs_optimizer(self, value: ir.Value | None) -> bool:
        names = self._module.names.of(value.func) if isinstance(value, ir.Call) else frozenset()
        return bool(names) and all(name.startswith("torch.optim.") for name in names)

    def is_owned(self, key: str) -> bool:
        """Whether an optimizer owns the parameters of an object, whatever its name is bound to."""
        return self._root_keys.overlaps(key)

    def _owned(self, optimizer: str, state: State) -> set[str]:
        known = self._objects
        found = known.owns.get(optimizer)
        if found is None:  # made by a constructor that was followed
            original = known.original(optimizer)
            inside, instance = root_of(original), owner_of(optimizer)
            found = known.owns.get(original)
            if found is None:
                inside, found = self._inherited(original)
            found = {moved(each, inside, instance) if contains(inside, each) else each for each in found}
        return {state.object_of(known.call_context.translate(each)) for each in found}

    def _inherited(self, optimizer: str) -> tuple[str, set[str]]:
        """What an optimizer owns that a method of an inherited class makes, and the `self` of that class."""
        if optimizer not in self._inherited_known:
            self._inherited_known[optimizer] = self._find_inherited(optimizer)
        return self._inherited_known[optimizer]

    def _find_inherited(self, optimizer: str) -> tuple[str, set[str]]:
        owner, attr = owner_of(optimizer), last_name(optimizer)
        number = self_id(owner)
        if number is None or all(owner_of(each) == owner or last_name(each) != attr for each in self._objects.owns):
            return owner, set()
        cls = self._module.cls(number)
        stored = storing_class(self._module, cls, attr) if cls is not None else None
        base = own_self(stored) if stored is not None else owner
        return base, self._objects.owns.get(attribute_of(base, attr), set())

    # --- what a loss is made of -------------------------------------------------------------------------------------

    def reach(self, value: ir.Value, state: State) -> AbstractValue | None:
        """The models that a tensor comes from; None where that tells nothing apart."""
        return self.reach_of_all([value], state)

    def reach_of_all(self, values: list[ir.Value], state: State) -> AbstractValue | None:
        """The models that some tensors come from, taken together."""
        if not self._roots:
            return None
        # Paths that differ in other things come by the same values again and again.
        key = (
            *(value.id for value in values), self._objects.call_context, self._objects.names_known,
            state.env, state.result, state.optimizers,
        )  # fmt: skip
        if key not in self._reached:
            roots: set[str] = set()
            whole = self._collect_all(values, state, roots)
            self._reached[key] = AbstractValue(ValueKind.MADE, roots=frozenset(roots), whole=whole)
        return self._reached[key]

    def _collect(self, value: ir.Value, state: State, roots: set[str]) -> bool:
        """Add the models a value comes from; whether those are all."""
        if isinstance(value, ir.Constant):
            return True
        if isinstance(value, ir.Attribute) and value.attr in ENDS_GRADIENTS:
            return True
        if isinstance(value, ir.Call):
            return self._collect_call(value, state, roots)
        if isinstance(value, (ir.Name, ir.Attribute)):
            return self._collect_variable(value, state, roots)
        if isinstance(value, ir.Comprehension):
            return self._collect_penalty(value, state, roots)
        item = self._item(value) if isinstance(value, ir.Subscript) else None
        if item is not None:
            return self._collect(item, state, roots)
        if isinstance(value, (ir.Binary, ir.Unary, ir.Subscript, ir.Sequence, ir.Starred)):
            return self._collect_all(list(value.children()), state, roots)
        return False

    def _collect_call(self, call: ir.Call, state: State, roots: set[str]) -> bool:
        if ir.called_on(call, *ENDS_GRADIENTS) is not None:
            return True
        held = state.returned(call)
        if held is not None and (held.roots or held.whole):
            roots |= held.roots
            return held.whole
        key = self._objects.key(call.func)
        if self._calls_model(call, state, roots):
            return False
        if key is not None and (model := self._model(key, state)) is not None:
            roots.add(model)
            return self._collect_all([arg.value for arg in call.args], state, roots)
        return self._collect_operands(call, state, roots)

    def _collect_operands(self, call: ir.Call, state: State, roots: set[str]) -> bool:
        """The same, of a call of something that is not a model: what it is given, and the object of its method."""
        func = call.func
        torchs = all(name.startswith(("torch.", "builtins.")) for name in self._module.names.of(func))
        scales = isinstance(func, ir.Attribute) and self._objects.is_scaler(func.base) is not None
        base = func.base if isinstance(func, ir.Attribute) and not torchs and not scales else None
        if base is not None and self._has_several(base):
            self._collect_all([arg.value for arg in call.args], state, roots)
            return False  # which of them it runs can't be told
        parts = [arg.value for arg in call.args] + ([base] if base is not None else [])
        whole = self._collect_all(parts, state, roots)
        known = torchs or scales or base is not None or self._is_torchs(func)
        return whole and (known or (self._follows and bool(_CRITERION.search(ir.last_name(func)))))

    def _has_several(self, value: ir.Value) -> bool:
        """Whether an object keeps the models of several optimizers: `self`."""
        key = self._objects.key(value)
        kept = [
            roots for roots in self._objects.owns.values() if key and any(is_attribute(each, key) for each in roots)
        ]
        return len({frozenset(each) for each in kept}) > 1

    def _collect_variable(self, value: ir.Name | ir.Attribute, state: State, roots: set[str]) -> bool:
        key = self._objects.key(value)
        held = state.look_up(key)
        if key is not None and (model := self._model(key, state)) is not None:
            roots.add(model)
            return False  # the model itself, not what it gives
        if held is not None and (held.roots or held.whole):
            roots |= held.roots
            return held.whole
        made = only_assignment(self._module.names, value) if self._follows and isinstance(value, ir.Name) else None
        if made is not None:
            return self._collect(made.value, state, roots)
        return (
            isinstance(value, ir.Name) and held is None and self._is_input(value) and self._is_data(value, state, roots)
        )

    def _is_data(self, value: ir.Name, state: State, roots: set[str]) -> bool:
        """Whether a loop, or an assignment to several targets, takes a variable from no model; if so, that is added."""
        key = self._objects.own_key(value)
        if key in self._taking:
            return True
        self._taking.append(key)
        found: set[str] = set()
        for each in self._objects.bindings(value):
            source = unpacked_from(each)
            if source is not None and not self.may_be_scaled(source):
                self._collect(source, state, found)
        self._taking.remove(key)
        roots |= found
        return not found

    def may_be_scaled(self, value: ir.Value) -> bool:
        """Whether a value comes from a call that is given a scaler, or of a function that scales a loss."""
        known = events(self._module)
        for call in (each for each in ir.walk_values(value) if isinstance(each, ir.Call)):
            if any(self._objects.is_scaler(each) is not None for each in call.children()):
                return True
            callee = self._module.once(CallGraph).find(call)
            inside = map(known.of, calls_in(callee.function)) if callee is not None else ()
            if any(event is not None and event.kind == "scale" for event in inside):
                return True
        return False

    def _collect_penalty(self, value: ir.Comprehension, state: State, roots: set[str]) -> bool:
        """A penalty is made of its model: `sum(p.square().sum() for p in model.parameters())`."""
        models = {root for clause in value.clauses for root in self._objects.parameters_roots(clause.iter)}
        roots |= {state.object_of(self._objects.call_context.translate(root)) for root in models - {UNKNOWN}}
        return bool(models) and UNKNOWN not in models and self._collect_all(list(value.elements), state, roots)

    def _item(self, value: ir.Subscript) -> ir.Value | None:
        """What a display has under a literal: `losses["aux"]` of `losses = {"aux": ...}`."""
        made = only_assignment(self._module.names, value.base) if isinstance(value.base, ir.Name) else None
        if made is None or not isinstance(made.value, ir.Mapping) or not isinstance(value.index, ir.Constant):
            return None
        found = [
            each for key, each in made.value.items if isinstance(key, ir.Constant) and key.value == value.index.value
        ]
        return found[0] if len(found) == 1 else None

    def _collect_all(self, values: list[ir.Value], state: State, roots: set[str]) -> bool:
        whole = [self._collect(each, state, roots) for each in values]  # each of them, whatever the others are
        return all(whole)

    def _calls_model(self, call: ir.Call, state: State, roots: set[str]) -> bool:
        """Whether a call runs a function of this file that runs a model, which is added."""
        callee = self._module.once(CallGraph).find(call)
        if callee is None:
            return False
        keys = filter(None, map(self._objects.key, self._called_in(callee.function)))
        found = {model for key in keys if (model := self._model(key, state)) is not None}
        roots |= found
        return bool(found)

    def _called_in(self, function: ir.Function) -> list[ir.Value]:
        if function.id not in self._called:
            self._called[function.id] = [each.func for each in ir.calls_below(function.body)]
        return self._called[function.id]

    def _model(self, key: str, state: State) -> str | None:
        """The model that a key is one of, or a part of one, as the path knows it."""
        found = state.object_of(key)
        roots = self._roots_in(self._objects.call_context)
        if roots.overlaps(found) or roots.overlaps(key):
            return found
        owned = (root for optimizer, _ in state.groups for root in self._owned(optimizer, state))
        return found if any(overlap(found, root) or overlap(key, root) for root in owned) else None

    def _roots_in(self, call_context: CallContext) -> KeySet:
        """The models whose parameters some optimizer owns, also by the names that a call context gives them."""
        if call_context not in self._roots_known:
            self._roots_known[call_context] = KeySet((*self._roots, *map(call_context.translate, self._roots)))
        return self._roots_known[call_context]

    def _is_torchs(self, func: ir.Value) -> bool:
        """Whether what is called was made by a class of torch's: a criterion."""
        made = self._objects.classes_of(self._objects.key(func))
        return bool(made) and all(name.startswith("torch.") for name in made)

    def _is_input(self, value: ir.Name) -> bool:
        """Whether a variable is a loop's or a parameter: data, which no model has made."""
        if self._follows:  # a parameter may be what is trained
            return all(isinstance(each, Other) and each.why == "loop" for each in self._objects.bindings(value))
        return not any(True for _ in self._objects.sources(value))

    def hits(
        self, reach: AbstractValue | None, optimizer: str, state: State, frozen: frozenset[str] = frozenset()
    ) -> bool | None:
        """Whether a backward from there gives the optimizer's parameters gradients; None: maybe.

        `frozen`: the models whose parameters need no gradients there.
        """
        if reach is None:
            return True if self.is_alone(state) or self._is_only_backward else None
        owned = self._owned(optimizer, state) if optimizer else set()
        if owned and frozen:
            still = {state.object_of(self._objects.call_context.translate(each)) for each in frozen}
            if all(any(contains(model, root) for model in still) for root in owned):
                return False
        if not owned or UNKNOWN in owned:
            return True if (self.is_alone(state) and not optimizer) or self._is_only_backward else None
        roots = reach.roots
        if any(overlap(one, other) for one in owned for other in roots):
            return True
        return False if reach.whole and roots else None

    def is_made_by(self, loss: ir.Value, model: str, state: State) -> bool:
        """Whether a loss surely comes from a model and from data alone, so that only that has gradients of it."""
        one = copy(self)
        one._roots, one._roots_known, one._reached, one._follows = {model}, {}, {}, True
        reach = one.reach(loss, state)
        return reach is not None and reach.whole and reach.roots == {state.object_of(model)}

    def is_of_copies(self, loss: ir.Value) -> bool:
        """Whether all models that a loss comes from are deep copies, which no optimizer in sight trains."""
        # Paths come by the same backward again and again.
        key = loss.id, self._objects.call_context, self._objects.names_known
        if key not in self._of_copies:
            self._of_copies[key] = self._comes_of_copies(loss)
        return self._of_copies[key]

    def _comes_of_copies(self, loss: ir.Value) -> bool:
        copies, todo, seen = 0, [loss], set[int]()
        while todo:
            value = todo.pop()
            if value.id in seen:
                continue
            seen.add(value.id)
            if isinstance(value, ir.Name):
                todo += [each.value for each in reaching(self._module.names, value) if isinstance(each, Assigned)]
                continue
            if isinstance(value, ir.Call):
                if self._is_copy(value.func):
                    copies += 1
                elif not self._is_known_function(value):
                    return False
                elif isinstance(value.func, ir.Attribute):
                    todo.append(value.func.base)
                todo += [each.value for each in value.args]
            elif isinstance(value, ir.Attribute):
                todo.append(value.base)
            else:
                todo += value.children()
        return copies > 0

    def _is_copy(self, model: ir.Value) -> bool:
        """Whether a model, or what it is a part of, is a deep copy for all that is seen of it."""
        model = ir.root(model)
        made = only_assignment(self._module.names, model) if isinstance(model, ir.Name) else None
        value = ir.before_calls(made.value, *RETURNS_ITSELF) if made is not None else None
        is_copy = isinstance(value, ir.Call) and self._module.names.of(value.func) == {"copy.deepcopy"}
        key = self._objects.own_key(model)
        return is_copy and key is not None and not self.is_owned(key)

    def _is_known_function(self, call: ir.Call) -> bool:
        """Whether what is called is a function of torch's or of the file, a criterion, or a tensor's method."""
        func = call.func
        names = self._module.names.of(func)
        if all(name.startswith(("torch.", "builtins.")) for name in names) or self._is_torchs(func):
            return True
        if isinstance(func, ir.Attribute):
            root = ir.root(func)
            made = reaching(self._module.names, root) if isinstance(root, ir.Name) else []
            is_local = bool(made) and all(isinstance(each, Assigned) for each in made)
            return func.attr in _OF_TENSORS or is_local or isinstance(root, ir.Call)
        # A model is an object that is assigned or given, not a function.
        bound = reaching(self._module.names, func) if isinstance(func, ir.Name) else None
        return bound is not None and not any(
            isinstance(each, Assigned) or ir.parameter_of(each) is not None for each in bound
        )

    def parameters(self, value: ir.Value, state: State) -> AbstractValue | None:
        """The models whose parameters an argument is: `model.parameters()`."""
        roots = self._objects.parameters_roots(value) if isinstance(value, ir.Call) else frozenset()
        if not roots or UNKNOWN in roots:
            return None
        return AbstractValue(ValueKind.PARAMETERS, models=frozenset(map(state.object_of, roots)))

    # --- what is cleared and clipped --------------------------------------------------------------------------------

    def clears(self, what: str | None, optimizer: str, state: State) -> bool | None:
        """Whether `what.zero_grad()` clears an optimizer's gradients; None: maybe."""
        if what is None:
            return None
        if (
            what == optimizer
            or (optimizer and self._wraps(what, optimizer))
            or self._objects.is_inside(optimizer, what)
        ):
            return True
        if is_attribute(optimizer, what):
            return None  # a part of it: `optimizer.first_step`
        owned = self._owned(optimizer, state) if optimizer else set()
        if self._objects.is_item(what) and not optimizer:
            return None  # one of a container's: which of them can't be told
        if self.is_alone(state) and (not owned or not optimizer):
            return True if self.is_optimizer(what) else None
        if self.is_optimizer(what):
            return self._optimizer_clears(what, optimizer, owned, state)
        return self._model_clears(state.object_of(what), owned) if owned else None

    def _model_clears(self, what: str, owned: set[str]) -> bool | None:
        """The same, of a model; `owned`: what the optimizer owns."""
        if all(contains(what, root) for root in owned):
            return True
        return None if any(overlap(what, root) or UNKNOWN in root for root in owned) else False

    def _optimizer_clears(self, what: str, optimizer: str, owned: set[str], state: State) -> bool | None:
        """The same, of another optimizer; `owned`: what the one owns."""
        mine = self._owned(what, state)
        if not optimizer:
            original = self._objects.original(what)  # `optimizer.first_step`
            return None if any(is_attribute(each, original) for each in self._objects.optimizers) else False
        if not mine and self._objects.is_item(what):
            return None  # one of a container's: which of them can't be told
        if not mine or not owned:
            return False  # two optimizers own different parameters, unless shown otherwise
        return None if any(overlap(one, other) for one in mine for other in owned if one != other) else False

    def is_alone(self, state: State) -> bool:
        """Whether there is one optimizer, as far as can be seen."""
        return self.is_single and len(state.groups) <= 1

    @cached_property
    def _is_only_backward(self) -> bool:
        """Whether the file has one backward: it is what every step waits for."""
        return len(self._module.whole.called("backward")) == 1

    def takes_turns(self, optimizer: str, reach: AbstractValue | None, state: State) -> bool:
        """Whether an optimizer is stepped in one arm of an if, and another one in the other arm: then a backward is for
        one of them, unless its loss is seen to reach this one's parameters.
        """
        owned = self._owned(optimizer, state) if optimizer else set()
        if reach is not None and any(overlap(one, other) for one in owned for other in reach.roots):
            return False
        turns = {state.object_of(each) for each in self._in_turns}
        return optimizer in turns or (not optimizer and not turns <= dict(state.groups).keys())

    @cached_property
    def _in_turns(self) -> set[str]:
        """The optimizers that a scaler steps in an arm of an if, where another one is stepped in the other arm."""
        steps = [
            (call, key)
            for call in self._module.whole.called("step")
            if isinstance(call.func, ir.Attribute) and self._objects.is_scaler(call.func.base) and call.positional
            if (key := self._objects.key(call.positional[0])) is not None
        ]
        return {
            key
            for call, key in steps
            for other, its in steps
            if key != its and ir.function_of(call) is ir.function_of(other) and exclusive(call, other)
        }

    def _wraps(self, one: str, other: str) -> bool:
        """Whether one of two optimizers was made of the other: `Lookahead(optimizer)`."""
        wraps, original = self._objects.wraps, self._objects.original
        return any(
            original(inner) in wraps.get(original(outer), ()) or inner in wraps.get(outer, ())
            for outer, inner in ((one, other), (other, one))
        )

    def share(self, optimizer: str, other: str, state: State) -> bool:
        """Whether two optimizers own some of the same parameters."""
        return self._wraps(optimizer, other) or any(
            overlap(one, its) for one in self._owned(optimizer, state) for its in self._owned(other, state)
        )

    def _roots_of(self, subject: ir.Value | None, state: State) -> set[str]:
        """The models whose parameters are clipped: the list's, or those of the loop that `p.grad` stands in."""
        if subject is None:
            return set()
        roots = set(self._objects.parameters_roots(subject))
        up = subject.parent
        while not roots and is_grad(subject) and isinstance(up, ir.Node) and not isinstance(up, ir.Function):
            iterated = [up.iter] if isinstance(up, ir.For) else []
            if isinstance(up, ir.Comprehension):
                iterated = [clause.iter for clause in up.clauses]
            roots = {root for each in iterated for root in self._objects.parameters_roots(each)}
            up = up.parent
        return {state.object_of(self._objects.call_context.translate(root)) for root in roots}

    def among(self, subject: ir.Value | None, state: State) -> tuple[list[str], bool]:
        """The optimizers, of those met, that own what is clipped, and whether that is certain.

        All of them where it isn't known; "" where none was met.
        """
        met = [key for key, _ in state.groups]
        held = state.look_up(self._objects.key(subject)) if isinstance(subject, ir.Name) else None
        roots = (
            held.models if held is not None and held.kind is ValueKind.PARAMETERS else self._roots_of(subject, state)
        )
        found = [
            key
            for key in met
            if (owned := self._owned(key, state)) and any(overlap(one, other) for one in owned for other in roots)
        ]
        return (found, True) if found else (met or [""], False)
