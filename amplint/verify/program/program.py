"""The program as verify reads it: its files, which of their code matters to AMP, and where its training steps are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeGuard

from amplint.engine.reading import UnfoldableError, UnreadableError
from amplint.model import Module
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.external_calls import local_class
from amplint.model.names.reaching_definitions import returned
from amplint.model.names.tables import is_added_to, items_at
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.event import OF_SCALER, Event
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Binding
from amplint.model.syntax.nesting import loops_round, upwards
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, OLD_SCALER, SCALER
from amplint.model.usage.accelerators import LIBRARY
from amplint.verify.program.callers import Callers, with_parameter
from amplint.verify.program.files import Files, linked
from amplint.verify.program.function_tables import Tables
from amplint.verify.program.step_events import StepEvents
from amplint.verify.program.text_cache import Texts
from amplint.verify.program.unfollowed import Unfollowed, makes

# What has to have run for a step to be judged.
COVERED = (*OF_SCALER, "backward", "optimizer_step", "clip")
STEPS = frozenset(("step", "optimizer_step"))
MAKES = {SCALER, *OLD_SCALER, AUTOCAST, *OLD_AUTOCAST}
# Containers whose items are no batches.
TOOLS = re.compile(
    r"(?i)(optim(izer)?|opt|scaler|scheduler|model|net|network|module)s(_?dict)?(\.(values|items|keys)\(\))?$"
)
_DEPTH = 4  # of dicts in dicts, and of functions that are given one
REGION, _MADE = "region", "made"  # beside the kinds of events


class Step(NamedTuple):
    """A training step: a function, or the module itself (None), from which a backward and a step are reached."""

    name: str
    function: ir.Function | None
    reach: tuple[ir.Function | None, ...]  # what runs, itself first
    row: int
    clears: bool  # gradients, somewhere; else who calls it does
    has_loop: bool  # over batches: one in which gradients are made and used


class Program:
    """What a program consists of, and what follows its values from file to file."""

    def __init__(self) -> None:
        self.files: Files[Code] = Files(lambda module: Code(module, self))
        self.tables: Tables[Code] = Tables(self.files)
        self.callers: Callers[Code] = Callers(self.files, self.tables)
        self.unfollowed: Unfollowed[Code] = Unfollowed(self.files, self.callers)


class Code(Texts):
    """One file of a program; without one, the first of its own."""

    def __init__(self, module: Module, program: Program | None = None) -> None:
        program = program or Program()
        self.files, self.tables = program.files, program.tables
        self.callers, self.unfollowed = program.callers, program.unfollowed
        super().__init__(module, self.files.main.module if self.files.codes else None)
        self.files.codes.append(self)
        self.events = StepEvents(module, lambda value: self.callers.is_imported_scaler(self, value))
        self._calls = module.once(CallGraph)
        self._calls_of: dict[int, list[ir.Call]] | None = None
        self._matters: dict[int, bool] = {}
        self._trains: dict[int, bool] = {}
        self._only_loops: dict[int, bool] = {}
        self._covered: dict[int, list[Event]] = {}
        self._kinds: dict[int, frozenset[str]] = {}
        self._reached: dict[int, tuple[ir.Function, ...]] = {}
        self._by_name: dict[str, list[ir.Function]] = {}
        for each in module.functions:
            self._by_name.setdefault(each.name, []).append(each)

    def event(self, call: ir.Call) -> Event | None:
        """The AMP event that a call is."""
        return self.events.of(call)

    @cached_property
    def _linked(self) -> Module | None:
        """The file with what it takes from all others of its project; None where it can't be read so."""
        try:
            return linked(self.module.source)
        except (UnreadableError, UnfoldableError):
            return None

    def linked_call(self, call: ir.Call) -> tuple[Module, ir.Call] | None:
        """A call of the file where what it may run is in sight, of whatever file of the project that is."""
        module, span = self._linked, self.module.span(call)
        if module is None:
            return None
        calls = module.own.near(ir.last_name(call.func)).calls
        found = next((each for each in calls if module.span(each) == span), None)
        return (module, found) if found is not None else None

    def names_of(self, value: ir.Value) -> frozenset[str]:
        """The qualified names that a value can stand for, those of a variable of another file's among them."""
        names = self.module.names.of(value)
        place = self.files.of(self, value)
        if place is None or place.what is not None or not place.name:
            return names
        module = place.code.module
        assigned = _assigned_to(module.program.scope.bindings.get(place.name, ()))
        return names.union(*map(module.names.of, assigned))

    def owner(self, node: ir.Node | None) -> Code:
        """The file that a function or another node is of; this one has its module's own code (None)."""
        return self.files.owner(node) if node is not None else self

    # --- what matters

    def matters(self, block: ir.Block) -> bool:
        """Whether a suite, or a function that may be called in it, does something to scaler, gradients or regions."""
        return any(self._statement_matters(each) for each in ir.walk_statements(block, into=False))

    def _statement_matters(self, statement: ir.Statement) -> bool:
        if statement.id not in self._matters:
            self._matters[statement.id] = any(
                self.value_matters(each) for each in statement.values()
            ) or _stores_gradient(statement)
        return self._matters[statement.id]

    def value_matters(self, value: ir.Value) -> bool:
        """The same of an expression."""
        return any(self._call_matters(each) for each in ir.walk_values(value) if isinstance(each, ir.Call))

    def _call_matters(self, call: ir.Call) -> bool:
        event = self.event(call)
        if event is not None and event.kind != "opaque":
            return True
        names = self.names_of(call.func)
        if names & MAKES or any(name.startswith("torch.optim.") for name in names):
            return True
        if any(self.function_matters(each) for each in self._by_name.get(ir.last_name(call.func), ())):
            return True
        if any(self.function_matters(each) for each in self.callers.called(self, call)):
            return True
        if makes(call) and not self.unfollowed.is_given_scaler(self, call):
            return False
        return self.unfollowed.may_train(self, call) and not self.unfollowed.is_followed(self, call)

    def naming(self, value: ir.Value) -> list[ir.Value]:
        """An expression that names what makes a region or scaler, and those that its names are assigned; else none."""
        return self.known(_naming, value)

    def function_matters(self, function: ir.Function) -> bool:
        """The same of a function, whoever calls it."""
        if self.owner(function) is not self:
            return self.owner(function).function_matters(function)
        key = -function.id
        if key not in self._matters:
            self._matters[key] = False  # a recursive call adds nothing
            decorated = any(self.value_matters(each) or self.decorating(each) for each in function.decorators)
            self._matters[key] = decorated or self.matters(function.body)
        return self._matters[key]

    def decorating(self, decorator: ir.Value) -> list[ir.Function]:
        """The function of the program that is a decorator, or makes it, and those in it; none if none matters."""
        named = decorator.func if isinstance(decorator, ir.Call) else decorator
        what = self.files.what(self, named) if isinstance(named, (ir.Name, ir.Attribute)) else None
        if not isinstance(what, ir.Function):
            return []
        found = [what, *(each for each in ir.walk_statements(what.body) if isinstance(each, ir.Function))]
        return found if any(map(self.function_matters, found)) else []

    def class_matters(self, cls: ir.Class) -> bool:
        """The same of a class: of its methods, and of those that it inherits."""
        return any(
            of.function_matters(each)
            for of, base in self.files.bases(self, cls)
            for each in base.body.statements
            if isinstance(each, ir.Function)
        )

    def is_tool(self, value: ir.Value) -> bool:
        """Whether it matters to AMP which of several values a variable has: this one makes a scaler, or wraps one."""
        return self.known(_is_tool, value)

    def returns_tool(self, function: ir.Function) -> bool:
        """Whether it matters to AMP which `return` of a function is come to: one returns a tool, by itself or inside.

        That can be the variable of a tool, too.
        """
        return any(
            self.is_tool(value)
            or (isinstance(value, ir.Name) and any(map(self.is_tool, _assigned(self.module, value))))
            for each in returned(function)
            if each.value is not None
            for value in ir.walk_values(each.value)
        )

    def returns_events(self, function: ir.Function) -> bool:
        """Whether a function returns one that it defines, and that does something to scaler, gradients or regions."""
        if self.owner(function) is not self:
            return self.owner(function).returns_events(function)
        names = {each.value.name for each in returned(function) if isinstance(each.value, ir.Name)}
        own = (each for each in ir.walk_statements(function.body, into=False) if isinstance(each, ir.Function))
        return any(each.name in names and self.function_matters(each) for each in own)

    def only_loops(self, loop: ir.For | ir.While) -> bool:
        """Whether a loop has events only in loops inside it, or in those of functions that it calls: it is over epochs.

        It can clear gradients beside them.
        """
        if loop.id not in self._only_loops:
            found = self._loops_below(loop.body, set()) and not self._events_beside_loops(loop.body, set())
            self._only_loops[loop.id] = found
        return self._only_loops[loop.id]

    def _loops_below(self, block: ir.Block, seen: set[int]) -> bool:
        for statement in ir.walk_statements(block, into=False):
            if _is_over_others(statement) and self.matters(statement.body):
                return True
        for each in self._called_below(block):
            if each.id not in seen:
                seen.add(each.id)
                if self.owner(each)._loops_below(each.body, seen):
                    return True
        return False

    def _called_below(self, block: ir.Block) -> list[ir.Function]:
        return [each for value in ir.values_below(block) for each in self._named(value) if self.function_matters(each)]

    def _events_beside_loops(self, block: ir.Block, seen: set[int]) -> bool:
        for statement in block.statements:
            if isinstance(statement, (ir.Function, ir.Class)):
                continue
            if any(event.kind not in ("opaque", "zero_grad") for event in self.events.in_statement(statement)):
                return True
            for root in statement.values():
                for value in ir.walk_values(root):
                    for each in self._named(value):
                        if each.id not in seen and self.function_matters(each):
                            seen.add(each.id)
                            if self.owner(each)._events_beside_loops(each.body, seen):
                                return True
            if not _is_over_others(statement):
                if any(self._events_beside_loops(each, seen) for each in statement.blocks()):
                    return True
        return False

    def kinds_below(self, block: ir.Block) -> set[str]:
        """The kinds of the events in a suite and in the functions that it calls."""
        found: set[str] = {event.kind for event in self.events.below(block)}
        for function in self._called_below(block):
            found |= {kind for each in self.reach(function) for kind in self.own_kinds(each)}
        return found

    def trains(self, loop: ir.For | ir.While) -> bool:
        """Whether a loop is one over batches: gradients are made and used in it."""
        if loop.id not in self._trains:
            kinds = self.kinds_below(loop.body)
            self._trains[loop.id] = "backward" in kinds and bool(kinds & STEPS)
        return self._trains[loop.id]

    # --- steps

    def own_kinds(self, function: ir.Function | None) -> frozenset[str]:
        """The kinds of the events in a function's own suite; regions, and scalers made in a loop, count."""
        if self.owner(function) is not self:
            return self.owner(function).own_kinds(function)
        key = function.id if function is not None else 0
        if key not in self._kinds:
            found: set[str] = set()
            for statement in ir.walk_statements(self._body(function), into=False):
                if not isinstance(statement, (ir.Function, ir.Class)):
                    found |= self._kinds_in(statement)
            if function is not None and any(map(self._opens_region, function.decorators)):
                found.add(REGION)
            self._kinds[key] = frozenset(found - {"opaque"})
        return self._kinds[key]

    def _kinds_in(self, statement: ir.Statement) -> set[str]:
        """The kinds of the events in a statement itself; regions, and scalers made in a loop, count."""
        found: set[str] = set()
        for event in self.events.in_statement(statement):
            found |= {event.kind, REGION} if event.how == LIBRARY else {event.kind}
        for value in statement.values():
            for each in ir.walk_values(value):
                if self._opens_region(each):
                    found.add(REGION)
                elif isinstance(each, ir.Call) and self.module.names.of(each.func) & MAKES and loops_round(each):
                    found.add(_MADE)
        return found

    def _opens_region(self, value: ir.Value) -> bool:
        if not isinstance(value, ir.Call):
            return False
        return region_of(self.module, value) is not None or self.callers.gives_region(value)

    def _body(self, function: ir.Function | None) -> ir.Block:
        return function.body if function is not None else self.module.program.body

    def called(self, function: ir.Function | None) -> tuple[ir.Function, ...]:
        """The functions of the program that a function's suite calls or names, methods by their name."""
        if self.owner(function) is not self:
            return self.owner(function).called(function)
        key = function.id if function is not None else 0
        if key not in self._reached:
            found: dict[int, ir.Function] = {}
            for value in ir.values_below(self._body(function)):
                for each in self._named(value):
                    if each is not function:
                        found[each.id] = each
            for decorator in function.decorators if function is not None else ():
                found |= {each.id: each for each in self.decorating(decorator) if each is not function}
            self._reached[key] = tuple(found.values())
        return self._reached[key]

    def leads_on(self, call: ir.Call) -> bool:
        """Whether a call is of a function of the program."""
        return any(True for _ in self._named(call))

    def _named(self, value: ir.Value) -> Iterator[ir.Function]:
        """The functions of the program that an expression calls or names, by itself."""
        if isinstance(value, ir.Lambda):
            for inner in ir.values_below(value.function.body):
                yield from self._named(inner)
        elif isinstance(value, ir.Call):
            yield from self._called_by(value)
        elif isinstance(value, ir.Name):
            for each in self._by_name.get(value.name, ()):
                if each.cls is None and value.scope.home(value.name) is each.scope.parent:
                    yield each
        elif isinstance(value, ir.Attribute) and _is_self(value.base):
            yield from self._own_methods(value)

    def _own_methods(self, func: ir.Attribute) -> Iterator[ir.Function]:
        """The methods that a call of `self` runs by their name, unless it is an event."""
        call = func.parent
        if isinstance(call, ir.Call) and call.func is func:
            event = self.event(call)
            if event is None or event.kind == "opaque":
                yield from (each for each in self._by_name.get(func.attr, ()) if each.cls is not None)

    def _called_by(self, call: ir.Call) -> Iterator[ir.Function]:
        callee = self._calls.find(call)
        if callee is not None:
            yield callee.function
        else:
            yield from self.callers.called(self, call)
        if _is_self(call.func):  # a module's own call is of its forward
            yield from (each for name in ("forward", "__call__") for each in self._by_name.get(name, ()))

    def reach(self, function: ir.Function | None) -> tuple[ir.Function | None, ...]:
        """What runs where a function runs: itself, and what it calls that matters."""
        found: dict[int, ir.Function | None] = {function.id if function is not None else 0: function}
        todo = [function]
        while todo:
            for each in self.called(todo.pop()):
                if each.id not in found and self.function_matters(each):
                    found[each.id] = each
                    todo.append(each)
        return tuple(found.values())

    @cached_property
    def steps(self) -> list[Step]:
        """The training steps of the file, those that another one contains left out."""
        functions = filter(self.is_step, (None, *self.module.functions))
        found = {each.id if each is not None else 0: self._step(each) for each in functions}
        chosen = {key: step for key, step in found.items() if self._adds(step, found)}
        inner = {each.id for step in chosen.values() for each in step.reach[1:] if each is not None}
        return [step for key, step in chosen.items() if key not in inner or self._is_cyclic(step, chosen)]

    def steps_named(self, name: str) -> list[Step]:
        """All steps of a name, those that another one contains, or that only run one, among them."""
        functions = [each for each in (None, *self.module.functions) if self.name(each) == name]
        return [self._step(each) for each in functions if self.is_step(each)]

    def _step(self, function: ir.Function | None) -> Step:
        reach = self.reach(function)
        row = self.module.row(function) if function is not None else 1
        return Step(self.name(function), function, reach, row, self._clears(reach), self._has_loop(reach))

    def _adds(self, step: Step, steps: dict[int, Step]) -> bool:
        """Whether a function does something itself, or brings together what no step in it has."""
        if self.own_kinds(step.function):
            return True
        kinds = self.kinds_in(step.reach)
        for each in step.reach[1:]:
            if each is not None and self.owner(each) is self and each.id in steps:
                return False
            if each is not None and self.owner(each) is not self and self.owner(each).is_step(each):
                if kinds <= self.kinds_in(self.reach(each)):
                    return False
        return True

    def is_step(self, function: ir.Function | None) -> bool:
        """Whether gradients are made and used where a function runs, beside a scaler or a region."""
        kinds = self.kinds_in(self.reach(function))
        return "backward" in kinds and bool(kinds & STEPS) and bool(kinds & {*OF_SCALER, REGION})

    def kinds_in(self, reach: tuple[ir.Function | None, ...]) -> set[str]:
        """The kinds of the events in functions."""
        return {kind for each in reach for kind in self.own_kinds(each)}

    @staticmethod
    def _is_cyclic(step: Step, steps: dict[int, Step]) -> bool:
        """Whether all steps that contain this one are contained in it."""
        around = [each for each in steps.values() if each is not step and step.function in each.reach[1:]]
        return all(each.function in step.reach for each in around)

    def covered(self, step: Step) -> list[Event]:
        """The events of a step that have to have run; those in handlers of exceptions don't."""
        key = step.function.id if step.function is not None else 0
        if key not in self._covered:
            self._covered[key] = list(self._events_to_cover(step))
        return self._covered[key]

    def _events_to_cover(self, step: Step) -> Iterator[Event]:
        for function in step.reach:
            for each in self.owner(function).events.below(self._body(function)):
                sets_scale = (
                    each.kind == "update" and isinstance(each.call, ir.Call) and bool(each.call.args)
                )  # may be for scales that the bench hasn't
                if each.kind in COVERED and not (sets_scale or _in_handler(each.call) or _is_dead(each.call)):
                    yield each

    def classes(self, step: Step) -> list[ir.Class | None]:
        """The classes that a method can be run as: its own, or those that inherit it and are no base themselves."""
        cls = step.function.cls if step.function is not None else None
        if cls is None:
            return [None]
        classes = [each for each in self.module.statements if isinstance(each, ir.Class)]
        parents = [local_class(self.module, base.value) for each in classes for base in each.bases]
        below = [each for each in classes if self._calls.derives(each, cls) and each not in parents]
        return [*below[:4]] or [cls]

    def rows(self, function: ir.Function | None) -> tuple[int, int]:
        """The first and last line of a function, or of the file."""
        source = self.module.source
        if function is None:
            return 1, len(source.line_starts)
        start, end = self.module.span(function)
        return source.row(start), source.row(max(start, end - 1))

    def calls_of(self, function: ir.Function) -> list[ir.Call]:
        """The calls of a function in this file."""
        if self._calls_of is None:
            self._calls_of = {}
            for call in self.module.calls:
                callee = self._calls.find(call)
                if callee is not None:
                    self._calls_of.setdefault(callee.function.id, []).append(call)
        return self._calls_of.get(function.id, [])

    def sets_once(self, attribute: str) -> bool:
        """Whether an attribute is a constant of a class of this file, and nothing in the file sets it anew."""
        near = self.module.whole.near(attribute)
        declared = [
            each
            for each in near.statements
            if isinstance(each, ir.Assign)
            and isinstance(each.block.owner, ir.Class)
            and any(ir.is_variable(target, attribute) for target in each.targets)
        ]
        targets = (target for each in near.statements for target in _set_by(each))
        anew = any(isinstance(each, ir.Attribute) and each.attr == attribute for each in targets)
        anew = anew or any(isinstance(each, ir.Constant) and each.value == attribute for each in near.values)
        anew = anew or any(attribute in each.keywords for each in near.calls)
        return len(declared) == 1 and isinstance(declared[0].value, ir.Constant) and not anew

    def stores_once(self, attribute: ir.Attribute) -> bool:
        """Whether an attribute of `self` is a constant that one method stores, and nothing sets it anew."""
        cls = owner_class(attribute)
        if cls is None:
            return False
        stored = [each for _, base in self.files.bases(self, cls) for each in base.stored(attribute.attr)]
        below = [each for each in self.module.statements if isinstance(each, ir.Class) and each is not cls]
        stored += [one for each in below if self._calls.derives(each, cls) for one in each.stored(attribute.attr)]
        near = self.module.whole.near(attribute.attr)
        others = any(
            isinstance(target, ir.Attribute) and target.attr == attribute.attr and owner_class(target) is None
            for each in near.statements
            for target in _set_by(each)
        )
        named = any(isinstance(each, ir.Constant) and each.value == attribute.attr for each in near.values)
        return len(stored) == 1 and _is_literal(stored[0]) and not others and not named

    def writes_once(self, entry: ir.Subscript) -> bool:
        """Whether an entry of a dict is a constant that the program writes out, and nothing sets it anew.

        Of a dict that a function is given, in each call in sight.
        """
        found = self._entries(entry, _DEPTH)
        return bool(found) and all(_is_literal(each) for _, each in found)

    def _entries(self, entry: ir.Subscript, depth: int) -> list[tuple[Code, ir.Value]]:
        """What a dict has at a literal key, with the files that write it out; nothing where that may change."""
        key = entry.index.value if isinstance(entry.index, ir.Constant) else None
        if not isinstance(key, str) or not depth:
            return []
        if isinstance(entry.base, ir.Subscript):
            tables = self._entries(entry.base, depth - 1)
        else:
            tables = [*self._given_tables(entry.base, depth)]
        if any(of._puts(key) for of in {id(of): of for of, _ in (*tables, (self, entry))}.values()):
            return []
        found = [(of, items_at(of.module, table, key)) for of, table in tables]
        return [(of, each) for of, items in found for each in items] if all(items for _, items in found) else []

    def _given_tables(self, table: ir.Value, depth: int) -> Iterator[tuple[Code, ir.Value]]:
        """A dict; one that is a parameter as the calls in sight give it."""
        function = with_parameter(table) if isinstance(table, ir.Name) else None
        if function is None or not isinstance(table, ir.Name):
            yield self, table
        elif depth and not is_added_to(self.module, table):
            for of, given in self.callers.given(function, table.name):
                yield from of._given_tables(given, depth - 1)

    def _puts(self, key: str) -> bool:
        """Whether the file may put something into a dict at a key."""
        near = self.module.whole.near(key)
        targets = (target for each in near.statements for target in _set_by(each))
        return any(
            isinstance(each, ir.Subscript) and isinstance(each.index, ir.Constant) and each.index.value == key
            for each in targets
        ) or any(
            ir.called_on(each, "update", "setdefault") is not None
            and (
                key in each.keywords
                or any(isinstance(one, ir.Constant) and one.value == key for one in ir.walk_values(each))
            )
            for each in near.calls
        )

    def is_called_again(self, call: ir.Call) -> bool:
        """Whether this file calls what a call calls elsewhere as well, by the text."""
        return self._times_called[self.text(call.func)] > 1

    @cached_property
    def _times_called(self) -> Counter[str]:
        return Counter(self.text(each.func) for each in self.module.calls)

    @cached_property
    def periods(self) -> frozenset[str]:
        """What the program takes remainders by, as it is written."""
        return frozenset(
            self.text(each.right)
            for each in self.module.values
            if isinstance(each, ir.Binary)
            and each.op == "Modulo"
            and not isinstance(each.left, (ir.Constant, ir.FString))
        )

    @cached_property
    def updated(self) -> frozenset[str]:
        """The last names of what is `update`d with something."""
        return frozenset(
            ir.last_name(each.func.base)
            for each in self.module.calls
            if isinstance(each.func, ir.Attribute) and each.func.attr == "update" and each.args
        )

    def _clears(self, reach: tuple[ir.Function | None, ...]) -> bool:
        return any(
            event.kind == "zero_grad"
            for function in reach
            for event in self.owner(function).events.below(self._body(function))
        ) or any(
            _stores_gradient(each)
            for function in reach
            for each in ir.walk_statements(self._body(function), into=False)
        )

    def _has_loop(self, reach: tuple[ir.Function | None, ...]) -> bool:
        for function in reach:
            for each in ir.walk_statements(function.body, into=False) if function is not None else ():
                if isinstance(each, (ir.For, ir.While)) and self.owner(each).trains(each):
                    return True
        return False

    def name(self, function: ir.Function | None) -> str:
        """The qualified name of a function; `<module>` for None."""
        parts: list[str] = []
        up: ir.Node | None = function
        while up is not None:
            if isinstance(up, (ir.Function, ir.Class)):
                parts.append(up.name)
            up = up.parent
        return ".".join(reversed(parts)) or "<module>"


def _is_literal(value: ir.Value | None) -> bool:
    """Whether a value is a constant, with a sign maybe."""
    return isinstance(value.operand if isinstance(value, ir.Unary) else value, ir.Constant)


def _is_self(value: ir.Value) -> bool:
    return ir.is_variable(value, "self")


def _is_over_others(statement: ir.Statement) -> TypeGuard[ir.For | ir.While]:
    """Whether a loop is one over batches or the like, and not over models, optimizers or scalers."""
    if isinstance(statement, ir.For):
        named = (each for each in ir.walk_values(statement.iter) if isinstance(each, (ir.Name, ir.Attribute)))
        return not any(TOOLS.search(ir.last_name(each)) for each in named)
    return isinstance(statement, ir.While)


def _is_tool(code: Code, value: ir.Value) -> bool:
    if code.value_matters(value) or code.naming(value):
        return True
    kept = code.callers.function_in(code, value) if not isinstance(value, (ir.Name, ir.Call)) else ()
    if any(code.owner(each).function_matters(each) for each in kept):
        return True
    made = (code.files.what(code, each.func) for each in ir.walk_values(value) if isinstance(each, ir.Call))
    return any(isinstance(each, ir.Class) and code.owner(each).class_matters(each) for each in made)


def _naming(code: Code, value: ir.Value) -> list[ir.Value]:
    found: dict[int, ir.Value] = {}
    todo = [value]
    while todo:
        one = todo.pop()
        named = [each for each in ir.walk_values(one) if code.module.names.of(each) & MAKES]
        if not named or one.id in found:
            continue
        found[one.id] = one
        for each in named:
            if isinstance(each, ir.Name):
                todo += _assigned(code.module, each)
    return [*found.values()]


def _assigned(module: Module, name: ir.Name) -> list[ir.Value]:
    """What a variable is assigned."""
    return _assigned_to(module.names.bindings(name))


def _assigned_to(bindings: Sequence[Binding]) -> list[ir.Value]:
    return [each.value for each in bindings if isinstance(each, Assigned)]


def _stores_gradient(statement: ir.Statement) -> bool:
    targets = statement.targets if isinstance(statement, ir.Delete) else _set_by(statement)
    return any(isinstance(each, ir.Attribute) and each.attr == "grad" for each in targets)


def _set_by(statement: ir.Statement) -> Sequence[ir.Value]:
    """What an assignment assigns to; nothing where a statement is none."""
    if isinstance(statement, ir.AugAssign):
        return (statement.target,)
    return statement.targets if isinstance(statement, ir.Assign) else ()


def _is_dead(value: ir.Value) -> bool:
    """Whether an expression is next to a statement that always leaves its suite, and after it."""
    for each in upwards(ir.statement_of(value)):
        for before in each.block.statements:
            if before is each:
                break
            if isinstance(before, (ir.Raise, ir.Return)) or (isinstance(before, ir.Jump) and before.kind != "pass"):
                return True
    return False


def _in_handler(value: ir.Value) -> bool:
    return any(
        isinstance(each.parent, ir.Try) and any(handler.body is each.block for handler in each.parent.handlers)
        for each in upwards(ir.statement_of(value))
    )
