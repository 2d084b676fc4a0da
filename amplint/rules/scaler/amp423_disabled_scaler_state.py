"""The state of a disabled GradScaler (an empty dict), or None, is loaded into an enabled GradScaler.

## What it does
Finds a `scaler.load_state_dict(...)` on an enabled scaler, if a disabled scaler may have saved the state.

The finding is an error if one run of the program creates both scalers, first a disabled one and then an enabled one.

The finding is a warning if the flag may differ between two runs (on the command line, in a configuration, or in a
call): what was trained without AMP can't be resumed with AMP. The run without AMP saves one of these:

- the empty state of the disabled scaler;
- None or an empty dict in place of the state: `scaler.state_dict() if use_amp else None`.

Warnings are only *likely*:

- if a device that each run chooses sets the flag (`enabled=args.device == "cuda"`);
- if the scaler is saved or loaded through a function of the program that gets the scaler, such as
  `save({"model": model, "scaler": scaler})`.

amplint reports nothing:

- about a scaler that torch disables because the machine has no CUDA;
- if the run that loads takes the flag from the same place as the run that saves: then both scalers are enabled, or
  both are disabled. A disabled scaler ignores the state that it loads;
- if an `if` checks that the state is not empty;
- if the load is in a `try` whose handler lets the program go on;
- if the program compares its flag with the one in the checkpoint.

It is not enough to check that a state exists. `checkpoint["scaler"] is not None` is true for an empty dict, and
`"scaler" in checkpoint` is true even if None was saved under that key.

## Why is this bad?
The state of a disabled scaler is `{}`. `load_state_dict` of an enabled scaler raises "The source state dict is empty,
possibly because it was saved from a disabled instance of GradScaler." For None it raises TypeError. The run can't be
resumed.

## Example
```python
scaler.load_state_dict(checkpoint["scaler"])
```

## Use instead
```python
if checkpoint["scaler"]:
    scaler.load_state_dict(checkpoint["scaler"])
```

## Fix safety
Unsafe: the fix loads the state only if it is not empty. If it is empty, the scaler starts at its initial scale.

## Proof
The test programs raise before the fix, and resume after it.

## References
- [Saving and resuming](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.conditions import guarded
from amplint.fixes.edits import indentation
from amplint.fixes.statements import own_statement
from amplint.model.calls.external_calls import local_class, local_function, method
from amplint.model.inference.formulas import contradict, negated
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import parameter_read, values_of
from amplint.model.objects.amp_objects import Made, objects, scaler_arguments
from amplint.model.objects.terms import Op
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.syntax.nesting import conditions, ifs_round
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import SCALERS
from amplint.model.usage.mentions_of import near_definition, near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.checkpoints import State, saved_by, slot_of, states
from amplint.rules.shared.enabled_flags import said, turning
from amplint.rules.shared.other_runs import (
    Entry,
    Lost,
    Resumed,
    entries,
    file_name,
    is_asked_for,
    is_of_another_run,
    none_of_another_run,
    off_in_another_run,
    where_made,
    whole_files,
)
from amplint.rules.shared.scaler_keepers import reads
from amplint.rules.shared.scaler_usage import ScalerUsage, argument_of, asks, every_scaler_usage, flags_in

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.ERROR,
    fixes=(Applicability.UNSAFE,),
    triggers=("GradScaler",),
    not_shown="verify doesn't save or load checkpoints",
)

# Names for a state that a fix keeps in a variable: the first that the file doesn't have.
_NAMES = ("scaler_state", "saved_scaler_state", *(f"scaler_state_{number}" for number in range(2, 100)))


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each load of a state that may be empty."""
    if any(len(usage.makes) != 1 for usage in every_scaler_usage(module)):
        return  # one is made at several places: which it is can't be told
    for load in states(module, "load_state_dict"):
        for usage in every_scaler_usage(module):
            if load.key not in usage.keys or len(load.call.args) != 1:
                continue
            save = _empty_state(module, usage, load) if not usage.unseen else None
            if save is not None and not _is_guarded(module, load.call, usage):
                yield _finding(
                    module,
                    load.call,
                    f"the state from {module.line(save)} is empty if its scaler was disabled, and an enabled scaler "
                    "raises when it loads an empty state",
                )
                break
            found = _of_another_run(module, usage, load)
            if found is not None:
                yield found
                break
        else:
            yield from _of_given(module, load)


def _finding(
    module: Module,
    load: ir.Call,
    why: str,
    what: str = "empty",
    *,
    severity: Severity | None = None,
    confidence: Confidence | None = None,
) -> Finding:
    edits = _guarding(module, load)
    several = "\n" in module.text(load)
    return rule.finding(
        module.span(load),
        f"{why}; load the state only if it is not {what}",
        fix=Fix(Applicability.UNSAFE, f"Load the state only if it is not {what}", edits) if edits else None,
        withheld=None
        if edits
        else f"the call {'spans several lines' if several else 'is on one line with other code'}; "
        "put it under an `if` by hand",
        severity=severity,
        confidence=confidence,
    )


def _guarding(module: Module, load: ir.Call) -> tuple[Edit, ...]:
    """The edits that load a state only if there is something in it; none where the call's line can't take them.

    A call that gives the state runs once, as before: `states.pop("scaler")` gives it only the first time.
    """
    statement, given = own_statement(load), load.args[0].value
    if statement is None:
        return ()
    calls = [each for each in ir.walk_values(given) if isinstance(each, ir.Call)]
    if all(ir.called_on(each, "get", "state_dict") is not None for each in calls):
        edit = guarded(module, statement, module.text(given))
        return (edit,) if edit is not None else ()
    name = next(each for each in _NAMES if each not in module.source.text)
    edit = guarded(module, statement, name)
    if edit is None:
        return ()
    first = f"{name} = {module.text(given)}{module.source.newline}{indentation(module, statement)}"
    return edit._replace(content=first + edit.content), Edit(*module.span(given), name)


def _of_another_run(module: Module, usage: ScalerUsage, load: State) -> Finding | None:
    """A load of what a run saves with the scaler off, or without one, by a run with the scaler on."""
    saves = [each.call for each in states(module, "state_dict") if each.key in usage.keys]
    for entry in (*entries(module, load.call), *whole_files(module, load.call)):
        for save in saves or _given_whole(module, usage):
            if entry.key in _keys(module, save) and is_of_another_run(module, load.call, save, entry):
                resumed = Resumed(usage, save, load.call, entry)
                found = off_in_another_run(module, resumed) or none_of_another_run(module, resumed)
                if found is not None and not _only_by_hasattr(found):
                    return _of_lost(module, load.call, save, found)
    return None


def _of_given(module: Module, load: State) -> Iterator[Finding]:
    """A load into a parameter that is likely the one scaler which the file makes, in a function that returns it."""
    made = _returned_one(module)
    if made is None or not _is_given(module, load.of) or len(load.call.args) != 1:
        return
    usage = ScalerUsage(module, load.key, [made], made.call)
    saves = [each.call for each in states(module, "state_dict") if _is_given(module, each.of)]
    saves.sort(key=lambda save: abs(save.id - load.call.id))  # functions that belong together stand together
    for entry in entries(module, load.call):
        for save in saves:
            if entry.key in _keys(module, save) and is_of_another_run(module, load.call, save, entry):
                found = off_in_another_run(module, Resumed(usage, save, load.call, entry))
                if found is not None and not found.device and not _asks_whether_on(module, load.call, made):
                    yield _of_lost(module, load.call, save, found, likely=True)
                    return


def _asks_whether_on(module: Module, load: ir.Call, made: Made) -> bool:
    """Whether an if round a load, or in it, asks for the state, for the flag, or whether the scaler is on."""
    flags = flags_in(module, made.enabled) if made.enabled is not None else set[str]()
    tests = [each.test for each in ifs_round(load)]
    parts = [part for test in tests for part in ir.walk_values(test)]
    return (
        any(isinstance(each, ir.Attribute) and each.attr == "is_enabled" for each in parts)
        or any(flags_in(module, test) & flags for test in tests)
        or any(isinstance(value, ir.Conditional) for value in _values_round(load))
        or any(is_asked_for(module, each) for each in entries(module, load))
    )


def _returned_one(module: Module) -> Made | None:
    """The construction of the only scaler of the file, if a function returns it at once."""
    made = [each for each in module.calls_of(*SCALERS) if module.is_own(each)]
    if len(made) != 1 or not isinstance(made[0].parent, ir.Return):
        return None
    return Made(made[0], scaler_arguments(module, made[0]).get("enabled"))


def _is_given(module: Module, scaler: ir.Value) -> bool:
    """Whether an object is a parameter, called or used like a scaler, for all that its function does."""
    named = "scaler" in ir.last_name(scaler).lower() or objects(module).is_scaler(scaler) is not None
    return (
        named
        and parameter_read(module, scaler) is not None
        and all(each.is_open or ir.is_none(each.value) for each in values_of(module, scaler).leaves)
    )


def _only_by_hasattr(found: Lost) -> bool:
    """Whether all that is asked is whether the object has the scaler, which nothing decides in sight."""
    asked = turning(found.world, found.formula)
    return bool(asked) and all(term.op == Op.CALL and term.name == "hasattr" for term in asked)


def _given_whole(module: Module, usage: ScalerUsage) -> list[ir.Value]:
    """The scaler as an item of a dict that the program's own function saves: its state, as it is loaded as one again.

    torch's own function would save the object.
    """
    known, found = objects(module), list[ir.Value]()
    for each in (value for key in usage.keys for value in known.with_key(near_kept(module, {key}), key)):
        saved = saved_by(module, each) if isinstance(each, (ir.Name, ir.Attribute)) else None
        if isinstance(each.parent, ir.Mapping) and saved is not None:
            if not any(name.startswith("torch.") for name in module.names.of(saved.func)):
                found.append(each)
    return found


def _of_lost(module: Module, load: ir.Call, save: ir.Value, found: Lost, *, likely: bool = False) -> Finding:
    when = said(module, found.world, found.formula, turning(found.world, found.formula)) or "if the scaler was disabled"
    state = f"{module.line(save)} saves an empty state (the scaler is disabled)"
    if found.what == "None":
        state = f"{module.line(save)} saves None instead of the scaler's state"
    goes_on = "on cuda" if found.device else "with the scaler enabled"
    return _finding(
        module,
        load,
        f"{when}, {state}: resuming from that checkpoint {goes_on} raises",
        found.what,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY if likely or found.device or not isinstance(save, ir.Call) else Confidence.CERTAIN,
    )


def _empty_state(module: Module, usage: ScalerUsage, load: State) -> ir.Call | None:
    """The call that takes the state which is loaded, where it may be that of a scaler that is off."""
    given = load.call.args[0].value
    direct = _assigned(module, given)
    for save in states(module, "state_dict"):
        if direct is not None and direct is not save.call:
            continue
        if direct is None and not _is_entry(module, given, save.call):
            continue
        owners = [each for each in every_scaler_usage(module) if save.key in each.keys]
        if any(each.unseen for each in owners) or any(asks(module, each, save.call) for each in owners):
            continue
        if owners == [usage] and direct is None and _goes_on_with_the_flag(module, usage, load, save):
            return save.call
        # Where the loading one saves its own state under the same key, the file may be one of its own.
        if usage not in owners and _is_on(usage) and any(_may_be_off(module, each) for each in owners):
            if direct is not None or not _saves_itself(module, usage):
                return save.call
    return None


def _keys(module: Module, save: ir.Value) -> set[str]:
    """The keys under which a state is saved, by itself or through a variable."""
    values: list[ir.Value] = [save]
    up = save.parent
    for target in up.targets if isinstance(up, ir.Assign) else ():
        if isinstance(target, ir.Name) and module.names.bound_once(target) is not None:
            values += reads(module, target.scope.home(target.name), target.name)
    keys = {slot.key for each in values if (slot := slot_of(module, each)) is not None}
    return keys | {name for each in values if (name := _own_file(module, each))}


def _own_file(module: Module, state: ir.Value) -> str:
    """The name of the file in which a state is saved, and nothing else; "" if it isn't in one, or has no name here."""
    saved = saved_by(module, state)
    given = saved.positional if saved is not None and saved is state.parent else ()
    return file_name(given[1]) if len(given) > 1 and given[0] is state else ""


def _is_on(usage: ScalerUsage) -> bool:
    enabled = usage.made.enabled
    return enabled is None or (isinstance(enabled, ir.Constant) and enabled.value is True)


def _may_be_off(module: Module, usage: ScalerUsage) -> bool:
    """Whether a scaler may be made switched off: not where it is only made where its flag is set."""
    on = decided(module).of(usage.made.enabled)
    return not _is_on(usage) and not contradict(negated(on), where_made(module, usage))


def _saves_itself(module: Module, usage: ScalerUsage) -> bool:
    return any(each.key in usage.keys for each in states(module, "state_dict"))


def _assigned(module: Module, value: ir.Value) -> ir.Call | None:
    """The call of `state_dict()` that a value is, by itself or through a variable bound once."""
    if isinstance(value, ir.Name):
        bindings = module.names.bindings(value)
        if len(bindings) != 1 or not isinstance(bindings[0], Assigned):
            return None
        value = bindings[0].value
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attribute) and value.func.attr == "state_dict":
        return value
    return None


def _is_entry(module: Module, value: ir.Value, save: ir.Call) -> bool:
    """Whether a value is read under the key under which a state is saved: `checkpoint["scaler"]`."""
    slot = slot_of(module, save)
    index = value.index if isinstance(value, ir.Subscript) else None
    return slot is not None and isinstance(index, ir.Constant) and bool(index.value == slot.key)


# --- guards ----------------------------------------------------------------------------------------------------------


def _is_guarded(module: Module, load: ir.Call, usage: ScalerUsage) -> bool:
    """Whether something asks for what is loaded, for the scaler or its flag, or catches the error."""
    if asks(module, usage, load) or any(isinstance(value, ir.Conditional) for value in _values_round(load)):
        return True
    given = load.args[0].value
    found = list(entries(module, load)) or [Entry("", given, ((given, load),))]
    return any(is_asked_for(module, each) for each in found)


def _values_round(value: ir.Value) -> Iterator[ir.Value]:
    up = value.parent
    while isinstance(up, ir.Value):
        yield up
        up = up.parent


# --- one construction, called with its flag off and on ---------------------------------------------------------------


def _goes_on_with_the_flag(module: Module, usage: ScalerUsage, load: State, save: State) -> bool:
    """Whether calls in a row run the scaler off and save, and then run it on and load from the same file."""
    function = ir.function_of(usage.made.call)
    flag = _parameter(module, usage.made.enabled, function) if function is not None else None
    if function is None or flag is None:
        return False
    if function.cls is not None:
        return function.name == "__init__" and _two_objects(module, function, flag, load, save)
    if ir.function_of(load.call) is not function or ir.function_of(save.call) is not function:
        return False
    source = _source(module, load.call, function)
    calls = [call for call in near_definition(module, function).calls if local_function(module, call.func) is function]
    if source is None:
        return False
    for off, on in _in_a_row(module, function, calls, flag):
        before, after = argument_of(module, function, off, source), argument_of(module, function, on, source)
        if _is_nothing(before) and after is not None and not _is_nothing(after):
            if _same_file(module, off, after):
                return True
    return False


def _parameter(module: Module, value: ir.Value | None, function: ir.Function) -> str | None:
    """The parameter of a function that a value is, by itself or as the attribute that only the function sets."""
    if isinstance(value, ir.Attribute):
        stored = list(module.names.stored(value))
        value = stored[0] if len(stored) == 1 else None
    if not isinstance(value, ir.Name):
        return None
    bindings = module.names.bindings(value)
    alone = len(bindings) == 1 and isinstance(bindings[0], Other) and bindings[0].node is function
    return value.name if alone else None


def _source(module: Module, load: ir.Call, function: ir.Function) -> str | None:
    """The parameter without which a function doesn't load: `if resume is not None:` round the load."""
    tests = ifs_round(load)
    if len(tests) != 1 or conditions(load, tests[0]) != tests:
        return None
    test = tests[0].test
    if isinstance(test, ir.Compare) and test.ops == ("IsNot",) and _is_nothing(test.rights[0]):
        test = test.left
    return _parameter(module, test, function) if isinstance(test, ir.Name) else None


def _is_nothing(value: ir.Value | None) -> bool:
    return isinstance(value, ir.Constant) and not value.value


def _in_a_row(
    module: Module, function: ir.Function, calls: list[ir.Call], flag: str
) -> Iterator[tuple[ir.Call, ir.Call]]:
    """The calls with the flag off, each with those behind it, in the same suite, that have it on."""
    for off in calls:
        for on in calls:
            one, other = argument_of(module, function, off, flag), argument_of(module, function, on, flag)
            together = ir.statement_of(off).block is ir.statement_of(on).block and off.id < on.id
            if together and is_false(one) and isinstance(other, ir.Constant) and other.value is True:
                yield off, on


def _same_file(module: Module, off: ir.Call, given: ir.Value) -> bool:
    """Whether a call is given the same file as another."""
    known = objects(module)
    wanted = known.render(given)
    return wanted is not None and any(known.render(arg.value) == wanted for arg in off.args)


def _two_objects(module: Module, init: ir.Function, flag: str, load: State, save: State) -> bool:
    """Whether an object with its flag off saves to a file that one with its flag on loads."""
    cls = init.cls
    assert cls is not None
    saving, loading = ir.function_of(save.call), ir.function_of(load.call)
    calls = [call for call in near_definition(module, cls).calls if local_class(module, call.func) is cls]
    for off, on in _in_a_row(module, init, calls, flag):
        names = [_kept_as(module, each) for each in (off, on)]
        if None in names or names[0] == names[1]:
            continue
        written, read = _calls(module, str(names[0]), cls, saving), _calls(module, str(names[1]), cls, loading)
        if any(one.id < other.id and _same_file(module, one, other.positional[0]) for one in written for other in read):
            return True
    return False


def _kept_as(module: Module, call: ir.Call) -> str | None:
    """The key of the variable that is bound to what a call makes, and to nothing else."""
    statement = ir.statement_of(call)
    if isinstance(statement, ir.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ir.Name) and len(module.names.bindings(target)) == 1:
            return objects(module).key(target)
    return None


def _calls(module: Module, name: str, cls: ir.Class, function: ir.Function | None) -> list[ir.Call]:
    """The calls of a method of the object that a variable holds, with a positional argument."""
    return [
        call
        for call in near_kept(module, {name}).calls
        if isinstance(call.func, ir.Attribute)
        and objects(module).key(call.func.base) == name
        and call.positional
        and function is not None
        and method(module, cls, call.func.attr) is function
    ]
