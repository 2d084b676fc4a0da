"""What the rules share that compare the switches of regions and scalers (AMP206, AMP207, AMP210)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Edit
from amplint.config.defaults import DEVICES
from amplint.fixes.device_choice import readable_at
from amplint.fixes.edits import add_last_argument
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers, leading_to
from amplint.model.calls.dummy_scalers import makes_dummy_scaler
from amplint.model.calls.events import events
from amplint.model.flow.path_conditions import Conditions
from amplint.model.inference.devices import region_devices
from amplint.model.inference.dtypes import changes_defaults
from amplint.model.inference.formulas import TRUE, Formula, World, both, fact, in_order, possible, replaced
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.inference.values import held, parameter_read, values_of
from amplint.model.names.reaching_definitions import returned
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region
from amplint.model.objects.event import Event
from amplint.model.objects.key_parts import last_name
from amplint.model.objects.terms import Op, Term
from amplint.model.regions.cpu_training import does_nothing
from amplint.model.regions.openers import Open
from amplint.model.regions.training_regions import Trained, trained
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round, loops_round
from amplint.model.syntax.operators import ORDERS
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import SCALERS
from amplint.model.usage.module_casts import is_cast_there, is_made_anew, is_made_in
from amplint.rules.shared.default_values import holds_by_default, only_if
from amplint.rules.shared.scaler_order import receiver

if TYPE_CHECKING:
    from amplint.model import Module

_SAID = 2
_NOT_ON = "on devices other than"
# Sharpness-aware optimizers step in two halves, with a backward before each.
_OWN_STEPS = ("first_step", "second_step")
_MANY = 16
_OPTIONS = (ir.Attribute, ir.Subscript)
_SIMPLE = (ir.Name, ir.Attribute, ir.Constant, ir.Compare, ir.Bool, ir.Unary)
# Where `enabled` stands at the earliest among a scaler's arguments; regions are asked for theirs.
_BEFORE_ENABLED = 4


def constructions(module: Module, scaler: ir.Value) -> list[ir.Call]:
    """The calls that may have made a scaler; none where it may also come from elsewhere."""
    return module.once(_constructions, scaler)


def _constructions(module: Module, scaler: ir.Value) -> list[ir.Call]:
    found = []
    for each in values_of(module, scaler).leaves:
        if isinstance(each.value, ir.Call) and module.names.of(each.value.func) & SCALERS and not each.is_open:
            found.append(each.value)
        elif each.is_open or not (ir.is_none(each.value) or makes_dummy_scaler(module, each.value)):
            return []
    return list(dict.fromkeys(found))


def only_if_enabled(module: Module, made: ir.Call) -> str:
    """The setting that enables a scaler which a call makes, in words as a message begins: "if `args.amp` is true, ".

    "" where it is on by default, or on all devices that it is for.
    """
    enabled = scaler_arguments(module, made).get("enabled")
    if enabled is None or holds_by_default(module, held(module, enabled)) is True:
        return ""
    found = decided(module).of(enabled).facts()
    if found and all(term.op == Op.ON for term in found):  # only whether there is cuda
        return ""
    return only_if(module, enabled, True)


def unless_scaling(module: Module) -> str:
    """The setting without which no scaler of a file scales, as a message begins: "if `args.amp` is true, ".

    "" where it is on by default, where there are several settings, or where a scaler is made without one.
    """
    return module.once(_unless_scaling)


def _unless_scaling(module: Module) -> str:
    enabled = [each.enabled for made in objects(module).made.values() for each in made]
    settings = {module.on_one_line(each): each for each in enabled if each is not None}
    if len(settings) != 1 or None in enabled:
        return ""
    (setting,) = settings.values()
    return only_if(module, setting, True) if holds_by_default(module, held(module, setting)) is False else ""


def handed_on(module: Module, scaler: ir.Value) -> ir.Call | None:
    """The call that makes the one scaler of the file, in a function that returns it under the name of a parameter which
    no call in sight gives: another file hands it on.
    """
    function, name = ir.function_of(scaler), ir.last_name(scaler)
    if function is None or parameter_read(module, scaler) is None or callers(module, function):
        return None
    made = [each for each in module.calls_of(*SCALERS) if module.is_own(each)]
    home = ir.function_of(made[0]) if len(made) == 1 else None
    return made[0] if home is not None and home is not function and _is_returned(made[0], home, name) else None


def _is_returned(made: ir.Call, home: ir.Function, name: str) -> bool:
    """Whether a function assigns what a call makes to a variable of a name, and returns that, also with others."""
    kept = made.parent
    if not isinstance(kept, ir.Assign) or not any(ir.is_variable(each, name) for each in kept.targets):
        return False
    given = (part for each in returned(home) if each.value is not None for part in ir.walk_values(each.value))
    return any(ir.is_variable(each, name) for each in given)


def scaled_by(module: Module, made: ir.Call) -> list[Trained]:
    """The losses that a scaler is seen to scale, by the call that makes it."""
    return module.once(_scaled).get(made, [])


def _scaled(module: Module) -> dict[ir.Call, list[Trained]]:
    """The losses that are scaled, by the calls that make the scalers."""
    found: dict[ir.Call, list[Trained]] = {}
    for each in trained(module):
        if each.event.kind == "scale":
            for made in dict.fromkeys(constructions(module, receiver(each.event))):
                found.setdefault(made, []).append(each)
    return found


def about_amp(module: Module, formula: Formula, but: Formula) -> bool:
    """Whether a formula hangs on facts that may be about AMP, by their names, and of which another says nothing."""
    shared = but.subjects()
    return is_vague(formula) or any(name.subject not in shared for name in _amp_settings(module, formula))


def _amp_settings(module: Module, formula: Formula) -> set[Term]:
    """What of a formula may be about AMP, by its names: not that a loop goes on, or that a file is run."""
    known, conditions = decided(module), module.once(_conditions)
    found = set()
    for term in _settings(formula):
        if term in known.tests:
            test = known.tests[term]
            # What must not be given (`args.resume is None`) switches AMP on by its name alone.
            is_off = possible(replaced(formula, {term: TRUE})) is None
            may_ask = conditions.names_amp(test) if is_off else conditions.may_ask_for_amp(test)
        else:  # a parameter that several calls give
            may_ask = not term.is_path or conditions.may_be_called_amp([last_name(term.name)])
        found |= {term} if may_ask else set()
    return found


def _settings(formula: Formula) -> set[Term]:
    """What a formula hangs on, without the device that the code runs on."""
    return {term for term in formula.facts() if term.op != Op.ON}


def independent(module: Module, one: Formula, other: Formula) -> bool:
    """Whether what two formulas hang on, and don't share, are options that a user sets one by one.

    That is: attributes or items of one object that the file doesn't set (`args.amp` and `args.scaler`).
    """
    others = _settings(other)
    return bool(others) and are_options(module, {*(_amp_settings(module, one) - other.facts()), *others})


def are_options(module: Module, terms: Collection[Term]) -> bool:
    """Whether all of some terms are attributes or items of one object that the file doesn't set (`args.amp`)."""
    known = decided(module)
    values = [known.tests.get(each) for each in terms]
    bases = {known.path(each.base) for each in values if isinstance(each, (ir.Attribute, ir.Subscript))}
    if len(bases) != 1 or None in bases or not all(isinstance(each, _OPTIONS) for each in values):
        return False
    return not any(isinstance(each, ir.Attribute) and owner_class(each) is not None for each in values)


def can_be_float16(module: Module, region: Region) -> bool:
    """Whether the file itself shows that a region can run in float16."""
    known = decided(module)
    found = known.region_dtypes(region)
    default = not region.opaque and any(each.name is None and each.value is region.call for each in found)
    half = any(each.name == "float16" for each in found) or (default and bool(known.defaults_to(region, "float16")))
    return half and not does_nothing(module, region)


def is_float16_on_cuda(module: Module, region: Region) -> bool:
    """Whether a region has the dtype of a device that is out of sight: float16, where that is cuda."""
    if region.dtype is not None or region.opaque or changes_defaults(module):
        return False
    return {each.type for each in region_devices(module, region)} == {None}


def is_bfloat16(module: Module, region: Region) -> bool:
    """Whether the file itself shows that a region runs in bfloat16 only."""
    return all(each.name == "bfloat16" for each in decided(module).region_dtypes(region))


def _conditions(module: Module) -> Conditions:
    return Conditions(module)


def turning(world: World, *formulas: Formula) -> set[Term]:
    """The facts on which formulas hang in a world: with one the other way, a formula comes out otherwise."""
    whole = dict.fromkeys(frozenset[Term]().union(*(each.facts() for each in formulas)), False) | world
    return {
        term
        for term in whole
        if any(each.holds(whole) is not each.holds(other) for other in _turned(whole, term) for each in formulas)
    }


def _turned(world: World, term: Term) -> Iterator[World]:
    """A world with a fact the other way; what no longer equals one literal may equal each of the others."""
    alike = [each for each in world if each.compared is not None and each.compared == term.compared and each != term]
    if not world[term]:
        yield {**world, **dict.fromkeys(alike, False), term: True}
        return
    yield {**world, term: False}
    yield from ({**world, term: False, each: True} for each in alike)


def only_reaching(module: Module, entered: Open) -> set[Term]:
    """The facts by which the code with a region is reached, and that no `if` around the region asks for.

    Loops that go on and checks that pass say nothing about the region: `if eval_only: break`.
    """
    known = decided(module)
    reached = known.inside(entered.at).facts()
    reached |= known.inside(entered.site).facts() if entered.site is not None else frozenset()
    around = frozenset[Term]().union(*(known.of(each.test).facts() for each in ifs_round(entered.at)))
    return {*reached} - around


def said(
    module: Module, world: World, formula: Formula, about: set[Term] | None = None, device: str | None = None
) -> str:
    """How a world's facts that a formula hangs on come out, in words; at most two, of those that it is `about`.

    `device`: the one device type that the code is for, where that is known.
    """
    facts = formula.facts() if about is None else formula.facts() & about
    on = {term for term in facts if term.op == Op.ON}
    if on:  # the device that it is says more than which ones it is not
        on |= {term for term in world if term.op == Op.ON and world[term]}
        facts |= on
    if any(world[term] and (term in on or _names_device(term)) for term in facts):
        facts -= {term for term in on if not world[term]}  # the device's name says it
    # What equals one literal equals no other, and the one says more.
    compared = {term.compared for term in facts} - {None}
    facts |= {term for term in world if world[term] and term.compared in compared}
    equal = {term.compared for term in facts if world[term]}
    telling = [term for term in in_order(facts) if world[term] or term.compared is None or term.compared not in equal]
    found = [
        f"on {device}" if device not in (None, "cuda") and each.startswith(_NOT_ON) else each
        for each in filter(None, _in_words(module, world, telling))
    ]
    devices = [each for each in found if each.startswith(("on ", _NOT_ON))]
    others = [each for each in found if each not in devices]
    # A device is always said: without it the others may be true of a run that is right.
    kept = {*devices[:1], *others[:_SAID]}
    return " and ".join(each for each in found if each in kept).replace(" and if ", " and ")


def _names_device(term: Term) -> bool:
    """Whether a fact says that a value equals the name of a device type."""
    return term.compared is not None and term.parts[1].name.strip("\"'") in DEVICES


def _in_words(module: Module, world: World, telling: list[Term]) -> Iterator[str]:
    """Facts in words; that one value equals none of several literals is one of them, so is that the device is none."""
    off = [term for term in telling if term.op == Op.ON and not world[term]]
    unequal = [term for term in telling if term.compared is not None and not world[term]]
    for term in telling:
        if term in off:
            if term == off[0]:
                yield f"{_NOT_ON} {' and '.join(each.name for each in off)}"
            continue
        alike = [each for each in unequal if each.compared == term.compared and each.op == term.op]
        if term not in alike or len(alike) == 1 or not all(each in decided(module).tests for each in alike):
            yield _said(module, term, world[term])
        elif term == alike[0]:
            text = module.on_one_line(decided(module).tests[term])
            yield f"if `{text}` is neither {' nor '.join(_literal(module, each) for each in alike)}"


def _literal(module: Module, term: Term) -> str:
    """What a value is compared with."""
    literal = term.parts[1].name
    return f"torch.{literal[1:-1]}" if term in decided(module).dtypes else literal


def settings_of_run(module: Module, terms: Iterable[Term]) -> set[Term]:
    """Facts without those on how far a run is: what of two values is more, of which one is counted or set anew."""
    return {each for each in terms if not _is_progress(module, decided(module).tests.get(each))}


def settings_of_amp(module: Module, terms: Iterable[Term]) -> set[Term]:
    """Of these those that may be about AMP, by their names, or are about the device; all, if none is."""
    found = settings_of_run(module, terms)
    asked = _amp_settings(module, both(*map(fact, found)))
    return {each for each in found if each in asked or each.op == Op.ON or _names_device(each)} or found


def _is_progress(module: Module, test: ir.Value | None) -> bool:
    sides = test.children() if isinstance(test, ir.Compare) and set(test.ops) <= ORDERS.keys() else ()
    return any(len(module.names.bindings(each)) > 1 for each in sides if isinstance(each, ir.Name))


def _said(module: Module, term: Term, holds: bool) -> str:
    """How a fact comes out, in words; "" where nothing in the file asks for it."""
    known = decided(module)
    if term.op == Op.ON:
        return f"on {term.name}"
    if term not in known.tests or isinstance(known.tests[term], (ir.Constant, ir.Sequence, ir.Mapping)):
        return ""  # of a literal there is nothing to ask
    text = module.on_one_line(known.tests[term])
    if term.compared is not None:
        return f"if `{text} {'==' if holds else '!='} {_literal(module, term)}`"
    if term.op == Op.PRESENT:
        return f"if `{text}` is {'not None' if holds else 'None'}"
    return f"if `{text}` is {'true' if holds else 'false'}"


def plain_steps(module: Module, backward: ir.Node) -> Iterator[Event]:
    """The steps of optimizers, without a scaler, behind a backward in its function, or behind a call of that one.

    `how` is "unseen" where the optimizer's method is known by its name alone.
    """
    function = ir.function_of(backward)
    for place in (backward, *callers(module, function)):
        around, loops = ir.function_of(place), loops_round(place)
        for call in module.whole.within(around).calls:
            behind = call.id > place.id or any(each in loops for each in loops_round(call))
            if ir.function_of(call) is around and behind:
                event = events(module).of(call)
                if event is not None and event.kind == "optimizer_step":
                    yield event
                elif (own := _own_step(module, call)) is not None:
                    yield own


def _own_step(module: Module, call: ir.Call) -> Event | None:
    """A method of an optimizer's own that steps: by what it calls, or by its name (`first_step` of SAM)."""
    func = call.func
    key = objects(module).is_optimizer(func.base) if isinstance(func, ir.Attribute) else None
    if key is None or not isinstance(func, ir.Attribute):
        return None
    callee = module.once(CallGraph).find(call)
    inside = ir.calls_below(callee.function.body) if callee is not None else ()
    steps = func.attr in _OWN_STEPS or any(ir.last_name(each.func) in ("step", *_OWN_STEPS) for each in inside)
    return Event("optimizer_step", call, optimizer=key, how="unseen" if callee is None else "") if steps else None


def comes_before(module: Module, first: ir.Call, key: str, then: ir.Node, optimizers: set[str]) -> bool:
    """Whether a cast of the model kept at `key` is seen to come before `then`, and not behind the training."""
    known, home = objects(module), ir.function_of(first)
    if not is_cast_there(module, first, key):
        return True  # it is made there
    here = [each for each in leading_to(module, then, _MANY) if ir.function_of(each) is home]
    if here:
        loops = [each for each in loops_round(first) if not is_made_in(module, key, each)]
        return any(first.id < each.id or any(loop in loops for loop in loops_round(each)) for each in here)
    if home is not None and home.name == "__init__":
        return True
    if any(_is_called_before(module, each, key, then) for each in leading_to(module, first, _MANY)[1:]):
        return True
    return any(
        isinstance(each, ir.Assign)
        and ir.function_of(each) is home
        and any(known.key(target) in optimizers for target in each.targets)
        for each in module.whole.within(home).statements
    )


def _is_called_before(module: Module, casting: ir.Node, key: str, then: ir.Node) -> bool:
    """Whether a call that leads to a cast comes before one that leads to `then`, in the function that makes both."""
    known = decided(module)
    for each in leading_to(module, then, _MANY):
        if each is casting or ir.function_of(each) is not ir.function_of(casting) or not isinstance(casting, ir.Call):
            continue
        loops = [loop for loop in loops_round(casting) if not is_made_anew(module, key, casting, loop)]
        follows = casting.id < each.id or any(loop in loops for loop in loops_round(each))
        if follows and possible(both(known.around(casting), known.around(each))) is not None:
            return True
    return False


def readable(module: Module, value: ir.Value, at: ir.Node) -> bool:
    """Whether all variables and attributes that a value reads can be read at `at`, with the same meaning."""
    parts = [each for each in ir.walk_values(value) if isinstance(each, (ir.Name, ir.Attribute))]
    outer = [each for each in parts if not (isinstance(each.parent, ir.Attribute) and each.parent in parts)]
    simple = all(isinstance(each, _SIMPLE) for each in ir.walk_values(value))
    return simple and all(readable_at(module, each, at) for each in outer)


def spelled(module: Module, value: ir.Value, at: ir.Node) -> str | None:
    """A flag as it can be written at `at`: as it is, or as the attribute of the same object that keeps it."""
    if readable(module, value, at):
        return module.text(value)
    function, known = ir.function_of(at), decided(module)
    path = known.path(value) if isinstance(value, (ir.Name, ir.Attribute)) else None
    if function is None or function.cls is None or path is None or not function.params:
        return None
    if isinstance(value, ir.Attribute) and owner_class(value) is function.cls:
        return f"{function.params[0].name}.{value.attr}"
    for attr, stored in function.cls.stores():
        if len(stored) == 1 and stored[0] is not None and known.path(stored[0]) == path:
            return f"{function.params[0].name}.{attr}"
    return None


def set_enabled(module: Module, call: ir.Call, text: str) -> Edit | None:
    """Give a call of the new or old classes another `enabled`; None where arguments are in the way."""
    if call.unpacks() or len(call.positional) > _BEFORE_ENABLED:
        return None
    given = call.keyword("enabled")
    if given is not None:
        return Edit(*module.layout.outer(given), text)
    return add_last_argument(module, call, f"enabled={text}")
