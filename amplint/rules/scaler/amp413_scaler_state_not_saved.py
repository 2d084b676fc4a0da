"""A checkpoint contains the optimizer's state, but not the scaler's.

## What it does
Finds a checkpoint that misses the state of the scaler:

- the optimizer's state is saved with a model's, or in a file that is loaded again, and the state of the scaler that
  steps this optimizer is not saved;
- the scaler's state is saved, but only the optimizer's state is loaded;
- the scaler's state is loaded, and a later line creates a new scaler in its place.

Findings are only *likely* in these cases:

- an option that is off by default enables the scaler;
- the scaler's state is saved under one key and loaded under another, or is loaded under a condition that is never
  true;
- amplint can't see the code that saves or loads, and knows it only by its name (`save_checkpoint(model, optimizer)`);
- amplint can't see the code that uses the scaler, and no file of the program saves or loads a scaler's state;
- a class holds the scaler, and its `state_dict` or `load_state_dict` handles only the optimizer's state;
- the program uses accelerate, possibly in float16 (an option or a test in the code names it), and saves the
  optimizer's state by hand instead of with `save_state`;
- the program uses apex, and doesn't save `amp.state_dict()`;
- a `Checkpointer` of fvcore or detectron2 gets the optimizer, but neither the scaler nor `apex.amp`.

The finding is a *suspicion* (a note) if amplint sees no code that loads the optimizer's state, or if only functions do
that the program never calls. Checkpoints of the best or the final model are then not reported.

amplint reports nothing:

- if the scaler is disabled, or nothing scales or steps with it;
- if all autocast regions are bfloat16 or disabled, or if the program has no half precision at all;
- if the program saves the scale by hand, or never calls `update()`, so that the scale never changes;
- if the scaler is created again for each step or epoch (AMP408);
- if code that amplint can't follow gets the scaler, and a file of the program saves or loads a scaler's state;
- if code may reach the scaler's state through `vars(self)`, `__dict__` or a computed name;
- about states that stay in memory.

## Why is this bad?
A resumed run starts at the initial scale again (by default 65,536), whatever the scale was. If that is too high, the
first steps overflow and are skipped, until the scale is low enough (8 of 20 steps in a measured case).

## Example
```python
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
```

## Use instead
```python
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)
```

## Fix safety
Unsafe: the fix saves the scaler's state after the optimizer's, and loads it after the optimizer's. Older checkpoints,
and checkpoints with the state of a disabled scaler, load as before.

There is no fix:

- if the code that saves or loads can't be extended by one line, or doesn't have the scaler;
- if the checkpoint is loaded before the scaler is created, or the scaler is created again after that;
- if amplint sees nothing that loads the optimizer's state: to save a state that is never loaded would be useless.

## Proof
The test programs have a first run, and a run that resumes from its checkpoint, each with its own scaler. Before the fix
the second run starts from the initial scale, so both scales end at the same number. After the fix the second run
continues from the saved scale, so its scale differs at the end. The table lists equal scales only once.

## References
- [Saving and resuming](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Severity
from amplint.fixes.conditions import unit
from amplint.fixes.edits import indentation, insert, line_end
from amplint.fixes.statements import line_behind, own_statement
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import also_as
from amplint.model.calls.events import events
from amplint.model.calls.external_calls import function_named, local_class, local_function, method
from amplint.model.inference.constructions import constructions
from amplint.model.inference.declared_settings import option_named
from amplint.model.inference.formulas import contradict, possible
from amplint.model.inference.value_sets import decided, is_vague
from amplint.model.inference.values import parameter_read, values_of
from amplint.model.names.tables import arguments_of
from amplint.model.objects.amp_objects import objects, scaler_arguments
from amplint.model.objects.autocast_objects import Region
from amplint.model.objects.event import OF_SCALER
from amplint.model.objects.key_parts import last_name, root_of, variable_parts
from amplint.model.project.importers import is_imported, offered_loader_of_optimizers, surely_lack
from amplint.model.regions.openers import Open
from amplint.model.regions.training_regions import runs_in
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.nesting import loop_of
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import CHECKPOINTERS, KEEPS_SCALER
from amplint.model.torch_facts.signatures import GETS_STATES
from amplint.model.usage.accelerators import SCALES, Accelerators, accelerators
from amplint.model.usage.mentions_of import near_kept
from amplint.registry.rule import Rule
from amplint.rules.shared.apex_scales import APEX_STATES, scaling_calls
from amplint.rules.shared.checkpoints import (
    Slot,
    State,
    from_file,
    is_by_name,
    is_of_optimizer,
    is_saved,
    loaded_by,
    optimizer_at,
    slot_of,
    states,
    states_unclear,
    why_no_slot,
)
from amplint.rules.shared.default_values import holds_by_default, off_by_default, only_if
from amplint.rules.shared.enabled_flags import is_bfloat16, only_if_enabled, scaled_by
from amplint.rules.shared.float32_programs import is_float32
from amplint.rules.shared.missing_keys import lacks_what_is_read
from amplint.rules.shared.other_runs import entries as entries_read
from amplint.rules.shared.replaced_scalers import replaced_scalers
from amplint.rules.shared.resumes import (
    goes_back,
    handed_over,
    is_last_of_all,
    is_loaded_by_nobody,
    is_resumed,
    loaded_elsewhere,
    loads_in_sight,
    somewhere_called,
    usual_first,
)
from amplint.rules.shared.saved_anywhere import is_saved_nowhere, is_taken_nowhere
from amplint.rules.shared.scaler_keepers import is_given_away, is_only_shown
from amplint.rules.shared.scaler_order import used_by_others
from amplint.rules.shared.scaler_usage import (
    ScalerUsage,
    asks,
    every_scaler_usage,
    float16_possible,
    in_reach,
    linked,
    scaler_usages,
    scales_in_sight,
    starts_anew,
    text_at,
    trains_off,
    why_not_at,
)
from amplint.rules.shared.scalers_made_anew import made_anew

if TYPE_CHECKING:
    from amplint.model import Module

rule = Rule(
    __name__,
    __doc__,
    severity=Severity.WARNING,
    fixes=(Applicability.UNSAFE,),
    triggers=(
        "GradScaler & state_dict & optim",
        "GradScaler & save & optim",
        "GradScaler & heckpoint & optim",
        "GradScaler & restore",
        "timm & Scaler & load_state_dict",
        ".scale( & load_state_dict & optim",
        "autocast & load_state_dict & optim",
        "ccelerator & load_state_dict & optim",
        "ccelerator & heckpoint & optim",
        "apex & scale_loss & load_state_dict & optim",
        "apex & scale_loss & heckpoint & optim",
    ),
    not_shown="verify doesn't save or load checkpoints",
    about_absence=True,
)

# What a model's entry is called where it is not its state_dict().
_MODEL = re.compile(
    r"(?i)model|net|ema|weight|module|param|state_dict|policy|agent|actor|critic|generator|discriminator"
)
_OTHERS = re.compile(r"(?i)optim|^opt|_opt$|sched|scal|sampler|loader")
# What saves or loads checkpoints by its name.
_SAVING = re.compile(r"(?i)checkpoint|ckpt|snapshot|^_?save$|save_?(all|model|net|state|training)")
_SAVING_TEXT = re.compile(r"(?i)checkpoint|ckpt|snapshot|save")  # what is written where such a name is
_LOADING = re.compile(r"(?i)load|resume|restore")
_DTYPE = re.compile(r"(?i)b?float16|bf16|fp16|half")
_UP = 3  # calls that lead to a save
# A load of a scaler's state, or of that of whatever a loop goes through, in another file.
_LOADS = re.compile(
    rb"(?i)scal\w*(\[[^\]\n]*\])?\s*\.\s*load_state_dict\b|(\]|\)|\b(obj|each|v|item))\.load_state_dict\b"
)
_STATES_OF_APEX = re.compile(rb"\bamp\s*\.\s*(load_)?state_dict\b|\bamp\s*=\s*(apex\s*\.\s*)?amp\b")
# With these the scale is kept by hand.
_BY_HAND = {"__getstate__", "__setstate__", "_scale", "_init_scale"}


@rule.check
def check(module: Module) -> Iterator[Finding]:
    """Each scaler whose state is missing in a checkpoint, or never comes back."""
    yield from _of_libraries(module)
    yield from _of_accelerates_scaler(module)
    yield from _of_apex(module)
    if not float16_possible(module) or trains_off(module) or is_float32(module):
        return
    for replaced in replaced_scalers(module):
        yield rule.finding(
            module.span(replaced.made),
            f"this line replaces the scaler whose state was loaded on {module.line(replaced.load)}: the run starts at "
            "the initial scale and may skip steps; create the scaler before its state is loaded",
            withheld="amplint can't tell whether the new scaler is intended",
            confidence=None if replaced.surely else Confidence.LIKELY,
        )
    said = set[tuple[int, int]]()  # two scalers may have one function save
    for usage in scaler_usages(module):
        for each in _of_one(module, usage):
            if (each.start, each.end) not in said:
                said.add((each.start, each.end))
                yield each.as_likely() if is_loaded_by_nobody(module) else each
    if not said:
        yield from _of_program(module)


def _of_program(module: Module) -> Iterator[Finding]:
    """The save of an optimizer's state where no file of the program takes a scaler's, though it scales losses, and
    resumes: of a scaler that another file makes, where amplint can't follow it to the optimizer.
    """
    if any(module.is_own(each.call) for usage in every_scaler_usage(module) for each in usage.makes):
        return
    saved = [each for each in _saved_in_sight(module) if _is_repeated(each, module)]
    if not saved or not scales_in_sight(module) or not is_resumed(module) or not is_taken_nowhere(module):
        return
    if any(
        usage.methods & _BY_HAND or _is_made_again(module, usage) or _scales_no_float16(module, usage)
        for usage in scaler_usages(module)
    ):
        return
    if not loads_in_sight(module) and all(is_last_of_all(module, each, each) for each in saved):
        return
    saved = [each for each in saved if _holds_a_model(module, each)] or saved
    saved.sort(key=lambda each: _rank(module, each))
    yield rule.finding(
        module.span(saved[0]),
        "the checkpoint has the optimizer's state but not the scaler's, which no file of the program saves: a resumed "
        "run starts at the initial scale and may skip steps; save and load the scaler's state too",
        withheld="amplint can't follow the scaler to this line; save and load the state by hand",
        confidence=Confidence.LIKELY,
    )


def _is_repeated(node: ir.Node, module: Module) -> bool:
    """Whether a loop runs a place, also through the function's callers: training saves again and again."""
    return somewhere_called(module, node, _UP, lambda at: loop_of(at) is not None)


def _saved_in_sight(module: Module) -> Iterator[ir.Call]:
    """The calls of the file that take an optimizer's state into a file that a model's goes into as well, or, by their
    names, give both to what saves.
    """
    for each in states(module, "state_dict"):
        if not is_of_optimizer(module, each) or not is_saved(module, each.call) or _never_runs(module, each.call):
            continue
        if not _beside_a_model(module, each.call):
            continue
        places = [each.call, *(place for _, place in optimizer_at(module, each) if isinstance(place, ir.Call))]
        yield from [place for place in places if module.is_own(place)][:1]
    for call in module.own.near(_SAVING_TEXT).calls:
        if _given_to_save(module, call) and not _never_runs(module, call):
            yield call


def _of_libraries(module: Module) -> Iterator[Finding]:
    """The loads of the states of a library's scalers, under other keys than those under which they are saved."""
    known = objects(module)
    loads = [each for each in states(module, "load_state_dict") if module.is_own(each.call)]
    for key in dict.fromkeys(each.key for each in loads):
        if known.classes_of(key) & KEEPS_SCALER:
            loaded = [each for each in loads if each.key == key]
            saved = [each for each in states(module, "state_dict") if each.key == key and is_saved(module, each.call)]
            if saved and _reads_a_file(module, loaded):
                yield from _loaded_by_another_key(module, saved, loaded)
    for key in sorted(known.library_scalers):
        if _only_scales(module, key):
            name = last_name(key)
            yield from _saved_without(module, f"that of `{name}`", name, f"into `{name}`")


def _only_scales(module: Module, key: str) -> bool:
    """Whether all that is done with a library's scaler is to call it with losses, also by functions that get it."""
    known = objects(module)
    reads = (each for each in near_kept(module, {key}).values if isinstance(each, (ir.Name, ir.Attribute)))
    return _are_only_called(module, [each for each in reads if known.key(each) == key])


def _are_only_called(module: Module, reads: list[ir.Value], depth: int = 3) -> bool:
    """Whether a scaler is called somewhere, and all that reads it calls it, or gives it to a function that does."""
    reads = [each for each in reads if not ir.is_target(each)]
    return bool(reads) and all(_is_called(each) or _is_given_to_be_called(module, each, depth) for each in reads)


def _is_given_to_be_called(module: Module, scaler: ir.Value, depth: int) -> bool:
    """Whether a scaler is an argument of a function in sight that only calls it."""
    call, calls = scaler.parent, module.once(CallGraph)
    callee = calls.find(call) if isinstance(call, ir.Call) and depth else None
    if not isinstance(call, ir.Call) or callee is None:
        return False
    names = [name for name, value in (calls.arguments(call, callee) or {}).items() if value is scaler]
    inside = [each for each in module.whole.within(callee.function).values if isinstance(each, ir.Name)]
    return bool(names) and _are_only_called(module, [each for each in inside if each.name in names], depth - 1)


def _is_called(value: ir.Value) -> bool:
    return isinstance(value.parent, ir.Call) and value.parent.func is value


def _saved_without(module: Module, whose: str, name: str, where: str) -> Iterator[Finding]:
    """The first optimizer's state that is saved by hand and loaded again, without what else has one; `where` the
    checkpoint would have to be loaded.
    """
    for saved in _saved_by_hand(module):
        yield rule.finding(
            module.span(saved.call),
            f"the checkpoint has the optimizer's state but not {whose}: a resumed run starts at the initial scale and "
            f"may skip steps; save and load `{name}.state_dict()` too",
            withheld=f"amplint can't tell where the checkpoint can be loaded {where}",
            confidence=Confidence.LIKELY,
        )
        return


def _of_accelerates_scaler(module: Module) -> Iterator[Finding]:
    """The states of what accelerate prepared and scales in float16, saved and loaded by hand or out of sight."""
    known, owner = objects(module), accelerators(module)
    backwards = [*owner.scaled_backwards()]
    by_default = any(each.how.by_default for each in backwards)
    if not any(each.how.is_asked_for or owner.is_reckoned_with for each in backwards):
        return
    if all(_is_switched_off(module, made) for each in backwards for made in owner.made(each.accelerator)):
        return
    if any(True for name in ("save_state", "load_state") for _ in module.whole.called(name)):
        return
    if any(map(_is_called_scaler, module.whole.near("scaler").values)):
        return
    prepared = {known.key(arg.value) for call in owner.prepared() for arg in call.args}
    lists = any(call.unpacks() for call in owner.prepared())  # `accelerator.prepare(*objects)`: any optimizer may be in
    saved = [each.call for each in _saved_by_hand(module) if lists or each.key in prepared]
    if not saved and handed_over(module) is not None:
        calls = [each for each in module.own.near(_SAVING_TEXT).calls if _is_repeated(each, module)]
        saved = [each for each in calls if not prepared.isdisjoint(_given_to_save(module, each))]
    for each in saved[:1]:
        when = "" if by_default else 'with the precision "fp16", '
        yield rule.finding(
            module.span(each),
            f"{when}the checkpoint lacks the state of the Accelerator's scaler: a resumed run starts at the initial "
            "scale and may skip steps; save and load the state of `accelerator.scaler` too",
            withheld="amplint can't tell whether `save_state()` should do this instead",
            confidence=Confidence.LIKELY,
        )


def _is_switched_off(module: Module, made: ir.Call) -> bool:
    """Whether the code itself switches float16 off in an Accelerator, and no option turns it on: `amp = False` in the
    class of its settings.
    """
    given = made.keyword("mixed_precision")
    leaves = values_of(module, given).leaves if given is not None else ()
    half = [each for each in leaves if isinstance(each.value, ir.Constant) and each.value.value == SCALES]
    return bool(half) and all(any(_is_set_against(module, *test) for test in each.tests) for each in half)


def _is_set_against(module: Module, test: ir.Value, outcome: object) -> bool:
    """Whether a setting that no option of the command line, and no caller, can give makes a test come out otherwise."""
    by_default = holds_by_default(module, test)
    read = [each for each in ir.walk_values(test) if isinstance(each, ir.Attribute)]
    if by_default is None or by_default is outcome or not read:
        return False
    return not any(option_named(module, each.attr) for each in read)


def _of_apex(module: Module) -> Iterator[Finding]:
    """The states that are saved and loaded by hand where apex scales the loss, whose own state is not."""
    scaling = next(scaling_calls(module), None)
    if scaling is None or any(module.references(*APEX_STATES)):
        return
    if not module.is_own(scaling) and not module.own.near("scale_loss").calls:
        return  # what another file trains with apex need not be what this one saves
    amp = next(module.references("apex.amp.initialize"), None)
    name = module.text(amp.base) if isinstance(amp, ir.Attribute) else "amp"
    found = [*_saved_without(module, "apex's", name, f"after `{name}.initialize()`")]
    yield from found or _kept_without_apex(module, name)


def _kept_without_apex(module: Module, name: str) -> Iterator[Finding]:
    """The Checkpointer of fvcore's kind that keeps the optimizer that apex has initialized, and loads it again, and is
    not given apex, which has a state to keep as well.
    """
    known = objects(module)
    initialized = {
        known.key(value)
        for call in scaling_calls(module)
        for given in (*call.positional, *call.keywords.values())
        for value in (given.items if isinstance(given, ir.Sequence) else (given,))
    }
    for call in module.calls_of(*CHECKPOINTERS):
        handed = [value for _, value in (*_handed(module, call), *_added(module, call))]
        if not module.is_own(call) or initialized.isdisjoint(_given_to_save(module, call)):
            continue
        if any("apex.amp" in module.names.of(each) for each in handed) or not _resumes_by_itself(module, call):
            continue
        if not surely_lack(module.source.filename, _STATES_OF_APEX):
            continue
        yield rule.finding(
            module.span(call),
            f"`{module.on_one_line(call.func)}` gets the optimizer but not apex's state: a resumed run starts at the "
            f"initial scale and may skip steps; pass `amp={name}` too, and resume after `{name}.initialize()`",
            withheld=f"amplint can't tell whether the checkpoint is loaded after `{name}.initialize()`",
            confidence=Confidence.LIKELY,
        )
        return


def _saved_by_hand(module: Module) -> Iterator[State]:
    """The states of optimizers that the file saves in a checkpoint with a model's, and loads again."""
    loaded = {
        key
        for each in states(module, "load_state_dict")
        if (value := loaded_by(each.call)) and from_file(module, value) and not goes_back(module, each.call)
        for key in also_as(module, each.key)
    }
    for each in states(module, "state_dict"):
        if not is_of_optimizer(module, each) or not module.is_own(each.call):
            continue
        if loaded.isdisjoint(also_as(module, each.key)):
            continue
        if is_saved(module, each.call) and _beside_a_model(module, each.call) and not _never_runs(module, each.call):
            yield each


def _is_called_scaler(value: ir.Value) -> bool:
    """`accelerator.scaler`, or the name in `getattr(accelerator, "scaler")`."""
    return (isinstance(value, ir.Attribute) and value.attr == "scaler") or (
        isinstance(value, ir.Constant) and value.value == "scaler"
    )


def _of_one(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The findings of one scaler."""
    if usage.unseen or not _is_used(module, usage):
        yield from [*_loaded_and_missing(module, usage)] or _of_unseen(module, usage)
        return
    if (
        usage.methods & _BY_HAND
        or _keeps_its_scale(module, usage)
        or _scale_is_saved(module, usage)
        or _is_made_again(module, usage)
        or _scales_no_float16(module, usage)
        or _others_save_setting(module, usage)
    ):
        return
    saved = _own_states(module, usage, "state_dict")
    loaded = _own_states(module, usage, "load_state_dict")
    if states_unclear(module, usage):
        yield from [*_of_wrapper(module, usage, saved)] or _wrapped_and_never_loaded(module, saved)
    elif not _is_taken(module, usage):
        if "load_state_dict" not in usage.methods or _reads_a_file(module, loaded):
            yield from [*_not_saved(module, usage, loaded)] or _handed_out(module, usage, loaded)
            yield from _of_optimizers_wrapper(module, usage)
            yield from _beside_accelerate(module, usage)
    elif any(is_saved(module, each.call) for each in saved):
        if "load_state_dict" not in usage.methods:
            yield from [*_of_wrapper(module, usage, saved)] or _not_loaded(module, usage, saved)
        elif not _may_be_loaded(module, usage):
            yield from _never_loaded(module, usage, loaded)
        elif _reads_a_file(module, loaded):
            yield from _loaded_by_another_key(module, saved, loaded)


def _wrapped_and_never_loaded(module: Module, saved: list[State]) -> Iterator[Finding]:
    """The saved state of an object that gives its scaler's, and can load it, where only the optimizer's is loaded."""
    classes = {_gives_state(each.call) for each in saved}
    cls = classes.pop() if len(classes) == 1 else None
    if cls is None or method(module, cls, "load_state_dict") is None or not surely_lack(module.source.filename, _LOADS):
        return
    loads = [each for each in module.whole.called("load_state_dict") if not _is_of(cls, each)]
    known = objects(module)
    of_optimizers = [each for each in loads if known.is_optimizer(ir.called_on(each, "load_state_dict") or each)]
    if not any((read := loaded_by(each)) and from_file(module, read) for each in of_optimizers):
        return
    if any(_may_be_scaler(module, ir.called_on(each, "load_state_dict")) for each in loads):
        return
    for call in module.whole.called("state_dict"):
        base = ir.called_on(call, "state_dict")
        if base is None or _is_of(cls, call) or not is_saved(module, call):
            continue
        made = constructions(module, base)
        is_one = bool(made) and all(local_class(module, each.func) is cls for each in made)
        if is_one or (parameter_read(module, base) is not None and "scaler" in ir.last_name(base).lower()):
            yield rule.finding(
                module.span(call),
                "the saved state of this scaler is never loaded: a resumed run starts at the initial scale and may "
                f"skip steps; call `{module.text(base)}.load_state_dict()` where the optimizer's state is loaded",
                withheld="amplint can't tell under which condition to load the state",
                confidence=Confidence.LIKELY,
            )


def _is_of(cls: ir.Class, node: ir.Node) -> bool:
    """Whether code is in a method of a class."""
    function = ir.function_of(node)
    return function is not None and function.cls is cls


def _may_be_scaler(module: Module, value: ir.Value | None) -> bool:
    """Whether what loads a state may be a scaler: by its name, or because a loop goes through several things."""
    if not isinstance(value, (ir.Name, ir.Attribute)) or "scal" in ir.last_name(value).lower():
        return True
    root = ir.root(value)
    bindings = module.names.bindings(root) if isinstance(root, ir.Name) else ()
    return any(ir.loop_of_target(ir.node_of(each)) is not None for each in bindings)


def _loaded_and_missing(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The load of a scaler's state under a key that the program's checkpoint doesn't have, whatever else is done with
    the scaler.
    """
    for each in _own_states(module, usage, "load_state_dict"):
        lacking = lacks_what_is_read(module, each.call)
        if lacking is None or not module.is_own(each.call):
            continue
        key, whole = lacking
        yield rule.finding(
            module.span(each.call),
            f'the checkpoint saved on {module.line(whole)} has no "{key}": a resumed run raises KeyError; save the '
            f'scaler\'s `state_dict()` as "{key}"',
            withheld="amplint can't follow every use of the scaler; save the state by hand",
            confidence=Confidence.LIKELY,
        )


def _of_unseen(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The checkpoint beside a scaler that code out of sight uses, where no file of the program takes its state."""
    if not usage.unseen or usage.methods & _BY_HAND or _is_made_again(module, usage):
        return
    if len(scaler_usages(module)) > 1 or _scales_no_float16(module, usage) or not is_saved_nowhere(module):
        return
    saved = [each for each in _not_saved(module, usage, []) if each.severity is not Severity.NOTE]
    for each in saved or _resumed_alone(module, usage):
        yield each.as_likely()._replace(
            fix=None, withheld="amplint can't follow every use of the scaler; save and load the state by hand"
        )


def _resumed_alone(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The load of the optimizer's state where nothing in sight saves it."""
    if any(is_of_optimizer(module, each) and is_saved(module, each.call) for each in states(module, "state_dict")):
        return
    for state, place in _placed_loads(module, usage):
        shown = next((each for each in (state.call, place) if module.is_own(each)), None)
        if shown is not None:
            yield rule.finding(
                module.span(shown),
                "this line loads the optimizer's state, but no file of the program saves the scaler's: a resumed run "
                "starts at the initial scale and may skip steps; save and load the scaler's state too",
            )
            return


def _others_save_setting(module: Module, usage: ScalerUsage) -> bool:
    """Whether another file saves the scaler, which is one of the program's settings: `args.scaler`."""
    is_setting = usage.keeper is None and isinstance(usage.target, ir.Attribute)
    return is_setting and used_by_others(module, usage.scaler, "state_dict")


def _is_taken(module: Module, usage: ScalerUsage) -> bool:
    """Whether the scaler's state is taken for more than to print or log it."""
    return not all(call is not None and is_only_shown(module, call) for call in _calls_of(module, usage, "state_dict"))


def _may_be_loaded(module: Module, usage: ScalerUsage) -> bool:
    """Whether a state is loaded into the scaler, and not only under a test that is never true."""
    return not all(
        call is not None and _never_runs(module, call) for call in _calls_of(module, usage, "load_state_dict")
    )


def _never_runs(module: Module, node: ir.Node) -> bool:
    """Whether no path leads to a node, by the tests around it."""
    return contradict(decided(module).inside(node))


def _calls_of(module: Module, usage: ScalerUsage, name: str) -> Iterator[ir.Call | None]:
    """The calls of a method of the scaler; None for what else is done with that method."""
    known = objects(module)
    for each in near_kept(module, usage.keys).values if name in usage.methods else ():
        if isinstance(each, ir.Attribute) and each.attr == name and known.key(each.base) in usage.keys:
            yield each.parent if isinstance(each.parent, ir.Call) and each.parent.func is each else None


def _is_made_again(module: Module, usage: ScalerUsage) -> bool:
    """Whether the scaler is made again for the same training: by a loop (one over folds has an optimizer for each,
    too), or for each step or epoch, which AMP408 says; a run that isn't interrupted loses the scale there, too.
    """
    loop = loop_of(usage.made.call)
    if loop is not None and not starts_anew(module, loop):
        return True
    return any(each.made.call is one.call for each in made_anew(module) for one in usage.makes)


def _beside_accelerate(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The states that accelerate saves and loads, which has a scaler of its own alone."""
    known = accelerators(module)
    calls = {name: [*module.whole.called(name)] for name in ("save_state", "load_state")}
    owned = {name: [each for each in of if _is_method_of(known, each)] for name, of in calls.items()}
    if not all(owned.values()):
        return
    line = module.line(usage.made.call)
    for each in owned["save_state"]:
        yield rule.finding(
            module.span(each),
            f"accelerate's checkpoint lacks the state of the scaler created on {line}: a resumed run starts at the "
            "initial scale and may skip steps; pass the scaler to `register_for_checkpointing()`",
            withheld="amplint can't tell whether accelerate should scale instead",
            confidence=Confidence.LIKELY,
        )


def _is_method_of(known: Accelerators, call: ir.Call) -> bool:
    return isinstance(call.func, ir.Attribute) and known.owns(call.func.base)


def _of_wrapper(module: Module, usage: ScalerUsage, saved: list[State]) -> Iterator[Finding]:
    """The states of objects of a class that gives its scaler's state, and has no method to load it."""
    classes = {_gives_state(each.call) for each in saved}
    cls = classes.pop() if len(classes) == 1 else None
    if cls is None or cls.bases or any(method(module, cls, each) for each in ("load_state_dict", "__getattr__")):
        return
    if "load_state_dict" in usage.methods or used_by_others(module, usage.scaler, "load_state_dict"):
        return
    loads = [ir.called_on(each, "load_state_dict") for each in module.whole.called("load_state_dict")]
    if not any(each is not None and objects(module).is_optimizer(each) for each in loads):
        return
    for call in module.whole.called("state_dict"):
        base = ir.called_on(call, "state_dict")
        made = constructions(module, base) if base is not None else ()
        if made and all(local_class(module, each.func) is cls for each in made) and is_saved(module, call):
            yield rule.finding(
                module.span(call),
                f"the scaler's state is saved, but `{cls.name}` has no `load_state_dict()`: a resumed run starts at "
                "the initial scale and may skip steps; add that method, and call it after the optimizer's",
                withheld="amplint can't write the method and its call",
                confidence=Confidence.LIKELY,
            )


def _of_optimizers_wrapper(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The state of an object that steps an optimizer with its scaler, where that is the optimizer's alone."""
    if used_by_others(module, usage.scaler, "state_dict"):
        return
    loaded = {ir.function_of(state.call) for state, _ in _of_its_optimizers(module, usage, "load_state_dict")}
    for state, _ in _of_its_optimizers(module, usage, "state_dict"):
        cls = _gives_state(state.call, in_dict=True)
        if cls is None or cls is not usage.keeper or method(module, cls, "load_state_dict") not in loaded:
            continue
        yield rule.finding(
            module.span(state.call),
            f"`{cls.name}.state_dict()` has the optimizer's state but not its scaler's: a resumed run starts at the "
            "initial scale and may skip steps; return and load the scaler's state too",
            withheld="older checkpoints have only the optimizer's state, and `load_state_dict()` has to accept both",
            confidence=Confidence.LIKELY,
        )


def _gives_state(call: ir.Call, *, in_dict: bool = False) -> ir.Class | None:
    """The class whose `state_dict` returns just what a call gives; or, with `in_dict`, a dict that has it."""
    function, up = ir.function_of(call), call.parent
    if in_dict and isinstance(up, ir.Mapping):
        up = up.parent
    returns = isinstance(up, ir.Return) and function is not None and function.name == "state_dict"
    return function.cls if returns and function is not None else None


def _reads_a_file(module: Module, loaded: list[State]) -> bool:
    """Whether all that the scaler loads comes from files, under keys that are in sight."""
    read = [list(entries_read(module, each.call)) for each in loaded]
    return bool(read) and all(each and all(from_file(module, one.checkpoint) for one in each) for each in read)


def _never_loaded(module: Module, usage: ScalerUsage, loaded: list[State]) -> Iterator[Finding]:
    """The load of the scaler's state under a test that is never true, where an optimizer's state can be loaded."""
    resumed = (state.call for state, _ in _of_its_optimizers(module, usage, "load_state_dict"))
    for each in loaded if not all(_never_runs(module, call) for call in resumed) else ():
        tests = (test for test, holds in conditions_round(each.call) if holds is True)
        why = next((test for test in tests if contradict(decided(module).of(test))), None)
        said = f", as `{module.on_one_line(why)}` is never true" if why is not None else ""
        yield rule.finding(
            module.span(each.call),
            f"this load never runs{said}: a resumed run starts at the initial scale and may skip steps; correct the "
            "condition",
            withheld="amplint can't tell which condition is meant",
            confidence=Confidence.LIKELY,
        )


def _loaded_by_another_key(module: Module, saved: list[State], loaded: list[State]) -> Iterator[Finding]:
    """The load of a key under which nothing is saved, where what is saved has a key that nobody reads."""
    slots = [slot_of(module, each.call) for each in saved]
    written = {slot.key: slot for slot in slots if slot is not None}
    read = {each.key for one in loaded for each in entries_read(module, one.call)}
    if None in slots or written.keys() & read or any(_is_read_elsewhere(module, slot) for slot in slots if slot):
        return
    key, slot = next(iter(written.items()))
    call, other = loaded[0].call, next(each.key for each in entries_read(module, loaded[0].call))
    yield rule.finding(
        module.span(call),
        f'the scaler\'s state is saved as "{key}" on {module.line(slot.value)} but loaded as '
        f'"{other}": a resumed run starts at the initial scale, or raises KeyError; use the same key',
        withheld="amplint can't tell which key is right",
        confidence=Confidence.LIKELY,
    )


def _is_read_elsewhere(module: Module, slot: Slot) -> bool:
    """Whether the key of an entry is written anywhere but in entries of that name."""
    return any(
        isinstance(each, ir.Constant) and each.value == slot.key and not _is_key(each)
        for each in module.whole.near(slot.key).values
    )


def _is_key(value: ir.Constant) -> bool:
    """Whether a text is the key of an entry that is made."""
    up = value.parent
    if isinstance(up, ir.Subscript):
        return ir.is_target(up)
    return isinstance(up, ir.Mapping) and any(key is value for key, _ in up.items)


def _keeps_its_scale(module: Module, usage: ScalerUsage) -> bool:
    """Whether a scaler scales, and nothing ever calls `update()`: the scale is what the constructor makes it."""
    scales = "scale" in usage.methods and "update" not in usage.methods
    return scales and not used_by_others(module, usage.scaler, "update")


def _scales_no_float16(module: Module, usage: ScalerUsage) -> bool:
    """Whether a scaler is never on, or each loss that it scales in sight is from a region that is off, or bfloat16."""
    if usage.made.enabled is not None and possible(decided(module).of(usage.made.enabled)) is None:
        return True
    scaled = scaled_by(module, usage.made.call)
    if not scaled or used_by_others(module, usage.scaler, "scale"):
        return False
    on = decided(module).of(usage.made.enabled)

    def is_apart(entered: Open) -> bool:
        """Whether the scaler is off wherever a region runs in float16: AMP210 says that."""
        if is_false(entered.region.enabled) or is_bfloat16(module, entered.region):
            return True
        if _goes_on_as_before(module, entered.region):
            return True
        region = runs_in(module, entered, "float16")
        return not is_vague(region) and possible(on, region) is None

    return all(each.entered and not each.unseen and all(map(is_apart, each.entered)) for each in scaled)


def _goes_on_as_before(module: Module, region: Region) -> bool:
    """Whether a region is only on where autocast is on already: `enabled=torch.is_autocast_enabled()`."""
    enabled = region.enabled
    return isinstance(enabled, ir.Call) and module.names.of(enabled.func) == {"torch.is_autocast_enabled"}


def _is_used(module: Module, usage: ScalerUsage) -> bool:
    """Whether the scaler scales or steps in sight, or another file may have it do so: else its state is never asked
    for.
    """
    if usage.methods & set(OF_SCALER):
        return True
    if usage.keeper is None and ir.function_of(usage.made.call) is None:
        return is_imported(module.source.filename)
    attr = usage.scaler.rpartition(".")[2]
    return any(used_by_others(module, usage.scaler, each) for each in OF_SCALER) or any(
        isinstance(value, ir.Attribute) and value.attr in OF_SCALER and ir.last_name(value.base) == attr
        for value in module.whole.near(attr).values  # of a class that inherits it
    )


def _scale_is_saved(module: Module, usage: ScalerUsage) -> bool:
    return any(is_saved(module, each.call) for each in _own_states(module, usage, "get_scale"))


def _own_states(module: Module, usage: ScalerUsage, method: str) -> list[State]:
    return [each for each in states(module, method) if each.key in usage.keys]


def _of_its_optimizers(module: Module, usage: ScalerUsage, method: str) -> list[tuple[State, ir.Node]]:
    """The states of the scaler's optimizers, each with a place at which the scaler can be reached."""
    found = []
    for state in states(module, method):
        for optimizer, place in optimizer_at(module, state):
            together = usage.unseen and (in_reach(module, usage, place) or _is_given_both(usage, optimizer))
            if together or (linked(module, usage, optimizer) and in_reach(module, usage, place)):
                if _is_another(module, usage, optimizer, place):
                    continue
                found.append((state, place))
                break
    return found


def _is_given_both(usage: ScalerUsage, optimizer: str) -> bool:
    """Whether an optimizer is an attribute of a parameter that is called as the one that gets the scaler as another."""
    owner = usage.target.base if isinstance(usage.target, ir.Attribute) else None
    root = variable_parts(root_of(optimizer))
    return isinstance(owner, ir.Name) and root is not None and root[1] == owner.name and "." in optimizer


def _is_another(module: Module, usage: ScalerUsage, optimizer: str, place: ir.Node) -> bool:
    """Whether the name stands for another optimizer at a place: one that it is given behind the scaler's last step."""
    known = objects(module)
    steps = [
        call.id
        for call in near_kept(module, usage.keys).calls
        if isinstance(call.func, ir.Attribute)
        and known.key(call.func.base) in usage.keys
        and optimizer in [known.key(arg.value) for arg in call.args]
    ]
    return bool(steps) and any(
        max(steps) < each.id < place.id
        for each in near_kept(module, {optimizer}).statements
        if isinstance(each, ir.Assign)
        and isinstance(each.parent, (ir.Function, ir.Program))  # under an `if` it need not be given one
        and ir.function_of(each) is ir.function_of(place)
        and any(known.key(target) == optimizer for target in each.targets)
    )


def _not_saved(module: Module, usage: ScalerUsage, loaded: list[State]) -> Iterator[Finding]:
    """The save of an optimizer's state without the scaler's; `loaded`: where that is loaded all the same."""
    # What is loaded again is for a run that goes on, whatever is beside it.
    loads = _loads(module, usage)
    is_loaded = bool(loaded or loads)
    entries = [
        (state, place)
        for state, place in _of_its_optimizers(module, usage, "state_dict")
        if not asks(module, usage, state.call)
        and not any(_never_runs(module, each) for each in (state.call, place))
        and is_saved(module, state.call)
        and (is_loaded or any(_beside_a_model(module, each) for each in (state.call, place)))
    ]
    if not entries:
        return
    # What else is saved, for a display or of the model alone, is not what a run is resumed from.
    entries = [(state, place) for state, place in entries if _holds_a_model(module, state.call)] or entries
    resumed = bool(loaded) or _resumes(module, usage, entries)
    offered_only = not resumed and offered_loader_of_optimizers(module.source.filename) is not None
    resumed = resumed or offered_only
    if not resumed and all(is_last_of_all(module, state.call, place) for state, place in entries):
        return
    entries.sort(key=lambda each: _rank(module, each[0].call))
    first = ir.function_of(entries[0][0].call)
    whole = _together(module, entries[0][0].call)
    last = [
        state
        for state, _ in entries
        if ir.function_of(state.call) is first and (whole is None or _together(module, state.call) is whole)
    ][-1]
    place = next(place for state, place in entries if state is last)
    offered, withheld = _fix(module, usage, entries, resumed, loaded)
    without, to_do = "", "save and load the scaler's state too"
    if loaded:
        without, to_do = f", which is loaded on {module.line(loaded[0].call)}", "save the scaler's state too"
    by_name = _is_by_name(module, entries)
    under = _only_in_a_dtype(module, usage) or _only_if_set(module, usage)
    half = "in float16, " if not under and _may_be_bfloat16(module, usage) else ""
    resumes = f"a run resumed on {module.line(loads[0].call)}" if loads else "a resumed run"
    said = f"{under}{half}{resumes} starts at the initial scale and may skip steps"
    if loaded:
        said = "a resumed run raises KeyError or starts at the initial scale"
    elif not resumed:
        said = "amplint sees no code that resumes; a run that did would start at the initial scale and may skip steps"
    shown = next((each for each in (last.call, place, usage.made.call) if module.is_own(each)), None)
    if shown is None:
        return
    there = "" if shown is not usage.made.call else f" saved on {module.line(last.call)}"
    also = _same_on(module, [state.call for state, _ in entries], last.call)
    what = f"but not {_whose(module, usage)}{without}{also}"
    yield rule.finding(
        module.span(shown),
        f"the checkpoint{there} has the optimizer's state {what}: {said}; {to_do}",
        fix=offered,
        withheld=withheld,
        severity=None if resumed else Severity.NOTE,
        confidence=_confidence(
            resumed=resumed, doubtful=bool(loaded or (resumed and (under or by_name or offered_only)))
        ),
    )


def _same_on(module: Module, saved: list[ir.Call], marked: ir.Call) -> str:
    """The lines of other checkpoints that lack the same, in words."""
    whole = _together(module, marked)
    others = (each for each in saved if whole is None or _together(module, each) is not whole)
    lines = dict.fromkeys(map(module.line, others))
    lines.pop(module.line(marked), None)
    return f" (the same on {', '.join(lines)})" if lines else ""


def _is_by_name(module: Module, entries: list[tuple[State, ir.Node]]) -> bool:
    """Whether it is only by its name that a call is one of the function that saves or loads."""
    return all(is_by_name(module, at, ir.function_of(state.call)) for state, at in entries)


def _whose(module: Module, usage: ScalerUsage) -> str:
    """Of which scaler a state is, in words: its name, where the file has several."""
    name = last_name(usage.scaler)
    several = len({last_name(each.scaler) for each in scaler_usages(module)}) > 1
    return f"that of `{name}`" if several and name.isidentifier() else "the scaler's"


def _confidence(*, resumed: bool, doubtful: bool) -> Confidence:
    """How sure it is that a run is resumed without its scaler's state."""
    if doubtful:
        return Confidence.LIKELY
    return Confidence.CERTAIN if resumed else Confidence.SUSPICION


def _may_be_bfloat16(module: Module, usage: ScalerUsage) -> bool:
    """Whether a loss that the scaler is seen to scale comes from a region that can run in bfloat16, too."""
    entered = [one.region for each in scaled_by(module, usage.made.call) for one in each.entered]
    names = {each.name for region in entered for each in decided(module).region_dtypes(region)}
    return {"float16", "bfloat16"} <= names


def _only_in_a_dtype(module: Module, usage: ScalerUsage) -> str:
    """The comparison by which a scaler is on in one dtype only, in words; where that is another there is no state."""
    enabled = scaler_arguments(module, usage.made.call).get("enabled")
    leaves = values_of(module, enabled).leaves if enabled is not None else ()
    tests = [module.on_one_line(each.value) for each in leaves if isinstance(each.value, ir.Compare)]
    return f"if `{tests[0]}`, " if tests and len(tests) == len(leaves) and all(map(_DTYPE.search, tests)) else ""


def _only_if_set(module: Module, usage: ScalerUsage) -> str:
    """The setting that is off by default, or whose default is out of sight, and without which the scaler scales
    nothing, in words.
    """
    if only := only_if_enabled(module, usage.made.call):
        return only
    scales = [each.event.call for each in scaled_by(module, usage.made.call)]
    off = [off_by_default(module, each) for each in scales]
    made = off_by_default(module, usage.made.call)
    first = made or (off[0] if off and all(off) else None)
    return only_if(module, *first) if first is not None else ""


# --- checkpoints that are made out of sight --------------------------------------------------------------------------


def _handed_out(module: Module, usage: ScalerUsage, loaded: list[State]) -> Iterator[Finding]:
    """The call of code out of sight that by its name saves a checkpoint, and is given an optimizer, not the scaler."""
    if loaded or _is_reached_by_others(module, usage):
        return
    calls = [call for call in module.own.near(_SAVING_TEXT).calls if _hands_out(module, usage, call)]
    if not calls:
        return
    call = calls[0]
    resumed = is_resumed(module) or any(_resumes_by_itself(module, each) for each in calls)
    if not resumed and all(is_last_of_all(module, each, each) for each in calls):
        return
    said = "a resumed run" if resumed else "amplint sees no code that resumes; a run that did"
    yield rule.finding(
        module.span(call),
        f"`{module.on_one_line(call.func)}` gets the optimizer but not the scaler: {said} "
        f"{'starts' if resumed else 'would start'} at the initial scale and may skip steps; pass the scaler too, and "
        "save and load its `state_dict()`",
        withheld=f"amplint can't see what `{module.on_one_line(call.func)}` saves",
        severity=None if resumed else Severity.NOTE,
        confidence=Confidence.LIKELY if resumed else Confidence.SUSPICION,
    )


def _is_reached_by_others(module: Module, usage: ScalerUsage) -> bool:
    """Whether code of other files may take the scaler's state by itself."""
    if usage.keeper is not None:
        return is_given_away(module, usage.keeper) or used_by_others(module, usage.scaler, "state_dict")
    return ir.function_of(usage.made.call) is None and is_imported(module.source.filename)


def _hands_out(module: Module, usage: ScalerUsage, call: ir.Call) -> bool:
    """Whether a call may save an optimizer of the scaler beside a model, where the scaler could be given to it too."""
    name = ir.last_name(call.func)
    if local_class(module, call.func) is not None or function_named(module, name) is not None:
        return False
    keys = _given_to_save(module, call)
    if not keys or not in_reach(module, usage, call) or asks(module, usage, call):
        return False
    return any(linked(module, usage, key) for key in keys)


def _given_to_save(module: Module, call: ir.Call) -> list[str]:
    """The keys of the optimizers that a call gets beside a model, where it saves by its name."""
    name = ir.last_name(call.func)
    if not _SAVING.search(name) or _LOADING.search(name):
        return []
    if any(each.startswith("torch.") for each in module.names.of(call.func)):
        return []  # what that is given, it writes
    known, handed = objects(module), [*_handed(module, call), *_added(module, call)]
    if not any(_is_called_model(name) for name, _ in handed):
        return []
    keys = [known.key(value) for _, value in handed if known.is_optimizer(value) is not None]
    return [key for key in keys if key is not None]


def _handed(module: Module, call: ir.Call) -> Iterator[tuple[str, ir.Value]]:
    """What a call is given, those in a dict too, each with its name; nothing where some of it is out of sight."""
    positional, keywords = arguments_of(module, call) or ((), {})
    for keyword, given in (*((None, each) for each in positional), *keywords.items()):
        bound = module.names.bound_once(given) if isinstance(given, ir.Name) else None
        items = bound.value if bound is not None else given
        if isinstance(items, ir.Mapping):
            for key, value in items.items:
                named = key.value if isinstance(key, ir.Constant) else None
                yield named if isinstance(named, str) else ir.last_name(value), value
        else:
            yield keyword or ir.last_name(given), given


def _added(module: Module, made: ir.Call) -> Iterator[tuple[str, ir.Value]]:
    """What a Checkpointer of fvcore's kind is given later: `checkpointer.add_checkpointable("scaler", scaler)`."""
    known, kept = objects(module), set(objects(module).assigned_to(made))
    for call in module.whole.called("add_checkpointable"):
        base, given = ir.called_on(call, "add_checkpointable"), (*call.positional, *call.keywords.values())
        if base is not None and known.key(base) in kept and given:
            yield ir.last_name(given[-1]), given[-1]


def _resumes_by_itself(module: Module, call: ir.Call) -> bool:
    """Whether an object that is made to save checkpoints is asked to load one, and not only the model's part of it."""
    kept = set(objects(module).assigned_to(call))
    return any(
        isinstance(each.func, ir.Attribute)
        and _LOADING.search(each.func.attr)
        and objects(module).key(each.func.base) in kept
        and not is_false(each.keyword("resume"))
        and each.keyword("checkpointables") is None
        for each in near_kept(module, kept).calls
    )


def _resumes(module: Module, usage: ScalerUsage, entries: list[tuple[State, ir.Node]]) -> bool:
    """Whether something may resume from a checkpoint: not what loads another optimizer, under a key that it lacks."""
    loads = loads_in_sight(module)
    if not is_resumed(module) or not loads or handed_over(module) or loaded_elsewhere(module):
        return is_resumed(module)
    slots = [slot_of(module, state.call) for state, _ in entries]
    keys = {slot.key if slot is not None else None for slot in slots}
    written = [_keys_of(slot.whole) for slot in slots if slot is not None]
    return None in keys or any(
        not _is_of_others(module, usage, each, keys) and not (written and all(_lacks(each, held) for held in written))
        for each in loads
    )


def _keys_of(whole: ir.Node) -> set[str] | None:
    """The keys of a checkpoint that is written out; None where it may have others."""
    if not isinstance(whole, ir.Mapping) or not isinstance(whole.parent, ir.Call):
        return None
    keys = [key.value if isinstance(key, ir.Constant) else None for key, _ in whole.items]
    return {str(key) for key in keys} if None not in keys else None


def _lacks(load: ir.Call, keys: set[str] | None) -> bool:
    """Whether what loads an optimizer's state reads an entry first that a checkpoint doesn't have: it raises."""
    given = load.args[0].value if load.args else None
    if keys is None or not isinstance(given, ir.Subscript) or not isinstance(given.base, ir.Name):
        return False
    last = ir.statement_of(load)
    read = (
        value.index.value
        for statement in last.block.statements
        if statement.id < last.id and not any(True for _ in statement.blocks())
        for root in statement.values()
        for value in ir.walk_values(root)
        if isinstance(value, ir.Subscript)
        and isinstance(value.base, ir.Name)
        and value.base.name == given.base.name
        and isinstance(value.index, ir.Constant)
    )
    return any(isinstance(key, str) and key not in keys for key in read)


def _is_of_others(module: Module, usage: ScalerUsage, load: ir.Call, keys: set[str | None]) -> bool:
    """Whether a load gives its state to optimizers that the scaler doesn't step, and reads none of the keys."""
    known = objects(module)
    owner = ir.called_on(load, "load_state_dict")
    key = known.key(owner) if owner is not None else None
    optimizers = {each for each, _ in optimizer_at(module, State(load, key, owner))} if key and owner else set()
    if not optimizers or any(each not in known.constructed or linked(module, usage, each) for each in optimizers):
        return False
    read = {each.key for each in entries_read(module, load)}
    return bool(read) and not read & keys


def _rank(module: Module, call: ir.Call) -> tuple[bool, bool, bool, bool]:
    slot = slot_of(module, call)
    return usual_first(module, slot.key if slot is not None else None, call)


def _not_loaded(module: Module, usage: ScalerUsage, saved: list[State]) -> Iterator[Finding]:
    loads = _loads(module, usage)
    if not loads:
        yield from _loaded_by_callers(module, usage)
        return
    first = ir.function_of(loads[0].call)
    last = [state for state in loads if ir.function_of(state.call) is first][-1]
    slot = slot_of(module, saved[0].call)
    edits: list[Edit] | str = (
        "amplint can't tell the key under which the scaler's state is saved; load the state by hand"
    )
    if slot is not None:
        edits = _load_edits(module, usage, loads, slot.key, None)
    offered, withheld = None, None
    if isinstance(edits, str):
        withheld = edits
    else:
        offered = Fix(Applicability.UNSAFE, "Load the scaler's `state_dict()`", tuple(edits))
    placed = _placed_loads(module, usage)
    place = next(at for state, at in placed if state.call is last.call)
    # No path in sight leads to what runs by its name: the finding is where it is called.
    by_name = is_by_name(module, place, ir.function_of(last.call)) and not module.is_own(last.call)
    yield rule.finding(
        module.span(place if by_name else last.call),
        "the scaler's state is saved but never loaded: a resumed run starts at the initial "
        "scale and may skip steps; load the scaler's state after the optimizer's",
        fix=offered,
        withheld=withheld,
        confidence=Confidence.LIKELY if _is_by_name(module, placed) else None,
    )


def _loaded_by_callers(module: Module, usage: ScalerUsage) -> Iterator[Finding]:
    """The first load of its optimizer's state in a caller of the function that creates the scaler, and keeps it."""
    stepped = [
        event.optimizer
        for call in module.whole.called("step")
        if (event := events(module).of(call)) is not None and event.scaler == usage.scaler and event.optimizer
    ]
    optimizers = {key for each in stepped for key in also_as(module, each)}
    for load in module.own.called("load_state_dict"):
        optimizer, read = ir.called_on(load, "load_state_dict"), loaded_by(load)
        if optimizer is None or read is None or not from_file(module, read) or goes_back(module, load):
            continue
        if objects(module).key(optimizer) in optimizers:
            yield rule.finding(
                module.span(load),
                f"the state of the scaler from {module.line(usage.made.call)} is saved but never loaded: a resumed "
                "run starts at the initial scale and may skip steps; create the scaler before this load, and load its "
                "state too",
                withheld="another function creates the scaler; create the scaler before this load by hand",
                confidence=Confidence.LIKELY,
            )
            return


def _loads(module: Module, usage: ScalerUsage) -> list[State]:
    """The loads of its optimizers' states from files, where the scaler can be reached."""
    return [state for state, _ in _placed_loads(module, usage)]


def _placed_loads(module: Module, usage: ScalerUsage) -> list[tuple[State, ir.Node]]:
    """The same, each with the place where the scaler can be reached."""
    found = _of_its_optimizers(module, usage, "load_state_dict")
    return [
        each
        for each in found
        if (value := loaded_by(each[0].call)) and from_file(module, value) and not goes_back(module, each[0].call)
    ]


def _beside_a_model(module: Module, call: ir.Node) -> bool:
    """Whether a model's state is taken in the same function or one that it calls, or an entry is called like one.

    What torch gives of an optimizer and its model together is for both.
    """
    if isinstance(call, ir.Call) and module.names.of(call.func) & GETS_STATES:
        return True
    function = ir.function_of(call)
    own = [each for each in module.whole.within(function).calls if ir.function_of(each) is function]
    places = {function, *(local_function(module, each.func) for each in own)} - ({None} if function else set())
    return any(
        _is_of_a_model(value)
        for place in places
        for value in module.whole.within(place).values
        if ir.function_of(value) in places
    )


def _is_of_a_model(value: ir.Value) -> bool:
    """`model.state_dict`, or a dict with an entry that is called like a model."""
    if isinstance(value, ir.Attribute) and value.attr in ("state_dict", "save_pretrained"):
        words = [ir.last_name(each) for each in ir.walk_values(value.base)]
        return bool(words) and not any(_OTHERS.search(word) for word in words)
    keys = (
        [key.value for key, _ in value.items if isinstance(key, ir.Constant)] if isinstance(value, ir.Mapping) else []
    )
    return any(isinstance(key, str) and _is_called_model(key) for key in keys)


def _together(module: Module, call: ir.Call) -> ir.Mapping | ir.Call | None:
    """What a state is saved in with others: a dict that is written out, or the call of a function that gets them."""
    slot = slot_of(module, call)
    if slot is not None and not isinstance(slot.whole, ir.Assign):
        return slot.whole
    return call.parent if isinstance(call.parent, ir.Call) else None


def _holds_a_model(module: Module, call: ir.Call) -> bool:
    """Whether a model's state stands in the same dict, or goes into it entry by entry."""
    slot = slot_of(module, call)
    if slot is None:
        return False
    if not isinstance(slot.whole, ir.Assign):
        named = isinstance(slot.whole, ir.Call) and any(_is_called_model(arg.keyword) for arg in slot.whole.args)
        return named or any(map(_is_of_a_model, ir.walk_values(slot.whole)))
    return _beside_a_model(module, call)


def _is_called_model(name: str | None) -> bool:
    return name is not None and bool(_MODEL.search(name)) and not _OTHERS.search(name)


# --- the fix ---------------------------------------------------------------------------------------------------------


def _fix(
    module: Module,
    usage: ScalerUsage,
    entries: list[tuple[State, ir.Node]],
    resumed: bool,
    loaded: list[State],
) -> tuple[Fix | None, str | None]:
    """An entry in each dict, behind the last optimizer's, and the loads."""
    slots: dict[int, Slot] = {}  # the last of each dict
    keys = set()
    for state, place in entries:
        slot = slot_of(module, state.call)
        if place is not state.call:
            there = f"the function that saves on {module.line(state.call)}"
            if isinstance(state.of, ir.Attribute) and owner_class(state.of) is not None:
                return None, f"{there} can't reach the scaler; keep the scaler in an attribute, and save its state"
            if isinstance(state.of, ir.Attribute):
                return (
                    None,
                    f"{there} gets the object that holds the scaler; save and load the scaler's `state_dict()` by hand",
                )
            return None, f"{there} doesn't get the scaler; pass the scaler too, and save and load its state"
        if slot is None:
            return None, why_no_slot(module, state.call)
        why = why_not_at(module, usage, state.call)
        if why is not None:
            return (
                None,
                f"the checkpoint is saved on {module.line(state.call)}{why}; save the scaler's `state_dict()` by hand",
            )
        slots[slot.whole.id] = slot
        keys.add(slot.key)
    own = usage.scaler.rpartition(".")[2].rpartition(":")[2].strip("_")
    read = sorted({each.key for one in loaded for each in entries_read(module, one.call)})
    if len(read) > 1:
        return (
            None,
            f"the scaler's state is loaded under several keys ({' and '.join(read)}); save the state under one key",
        )
    own = read[0] if read else own
    edits: list[Edit] = []
    for slot in slots.values():
        edit = _entry(module, slot, own, str(text_at(module, usage, slot.value)))
        if edit is None:
            return None, f"amplint can't add an entry \"{own}\" to this checkpoint; save the scaler's state by hand"
        edits += edit
    loads = _loads(module, usage) if not loaded else []
    loading = _load_edits(module, usage, loads, own, keys)
    if not loading and not loaded:
        why = _why_no_load(module, usage, resumed)
        loading = f"{why}; save `{own}.state_dict()` too, and load it where the run is resumed"
    if isinstance(loading, str):
        return None, loading
    title = "Save the scaler's `state_dict()`" if loaded else "Save the scaler's `state_dict()`, and load it"
    return Fix(Applicability.UNSAFE, title, tuple(sorted((*edits, *loading)))), None


def _why_no_load(module: Module, usage: ScalerUsage, resumed: bool) -> str:
    """Why no load of an optimizer's state is one behind which the scaler's can be loaded."""
    calls = [] if not resumed else sorted(loads_in_sight(module), key=lambda call: not module.is_own(call))
    if calls:
        why = why_not_at(module, usage, calls[0])
        loaded = f"an optimizer's state is loaded on {module.line(calls[0])}"
        return f"{loaded}{why or ' from what may be another checkpoint'}"
    call = handed_over(module)
    if call is not None:
        return (
            f"`{module.text(call.func)}` on {module.line(call)} may load the checkpoint in code that amplint can't see"
        )
    other = loaded_elsewhere(module)
    if other is not None:
        return f"nothing in this file loads the optimizer's state, but {other} may"
    return "amplint sees nothing that loads the optimizer's state"


def _entry(module: Module, slot: Slot, own: str, scaler: str) -> list[Edit] | None:
    """One more entry for the scaler, behind another one and in its layout, and under its condition."""
    (start, end), (first, last) = module.layout.outer(slot.value), module.layout.outer(slot.state)
    before, behind = module.source.text[start:first], module.source.text[last:end]
    saved = f"{before}{scaler}.state_dict(){behind}" if "\n" not in f"{before}{behind}" else f"{scaler}.state_dict()"
    if isinstance(slot.whole, ir.Call):
        if any(arg.keyword == own for arg in slot.whole.args):
            return None
        return [insert(module.layout.outer(slot.value)[1], f", {own}={saved}")]
    assert slot.name is not None
    quote = module.text(slot.name)[0]
    if quote not in ('"', "'"):
        return None
    if isinstance(slot.whole, ir.Assign):
        target = slot.whole.targets[0]
        assert isinstance(target, ir.Subscript)
        code = f"{module.text(target.base)}[{quote}{own}{quote}] = {saved}"
        edit = line_behind(module, slot.whole, code)
        return [edit] if edit is not None else None
    if any(isinstance(key, ir.Constant) and key.value == own for key, _ in slot.whole.items):
        return None
    return _item(module, slot, f"{quote}{own}{quote}: {saved}")


def _item(module: Module, slot: Slot, item: str) -> list[Edit]:
    """An item of a display: on the next line where each has its own, else behind the other on its line."""
    assert slot.name is not None
    text, newline = module.source.text, module.source.newline
    end = module.layout.outer(slot.value)[1]
    start = module.span(slot.name)[0]
    line = module.source.line(module.row(slot.name))
    indent = line[: len(line) - len(line.lstrip())]
    below = line_end(module, end)
    behind = text[end:below].strip()
    alone = text[:start].endswith(f"\n{indent}") and behind.removeprefix(",").strip()[:1] in ("", "#")
    if not alone:
        return [insert(end, f", {item}")]
    if behind.startswith(","):
        return [insert(below, f"{indent}{item},{newline}")]
    return [insert(end, ","), insert(below, f"{indent}{item}{newline}")]


def _load_edits(
    module: Module, usage: ScalerUsage, loads: list[State], own: str, keys: set[str] | None
) -> list[Edit] | str:
    """The scaler's state loaded after the last of its optimizers' in each function; why not, where that isn't plain.

    `keys`: those under which the optimizers' states are saved.
    """
    last = {id(ir.function_of(state.call)): state.call for state in loads}
    edits: list[Edit] = []
    for call in last.values():
        statement, given = own_statement(call), loaded_by(call)
        where = f"the checkpoint is loaded on {module.line(call)}"
        why, scaler = why_not_at(module, usage, call), text_at(module, usage, call)
        if why is not None or scaler is None:
            todo = "create the scaler first, and load its `state_dict()` after the optimizer's"
            elsewhere = "load the scaler's `state_dict()` where the scaler is accessible"
            return f"{where}{why or ''}; {todo if in_reach(module, usage, call) else elsewhere}"
        plain = f"{where} in a form that amplint can't extend; load the scaler's `state_dict()` by hand"
        if statement is None or indentation(module, statement) is None:
            return plain
        if not (isinstance(given, ir.Subscript) and isinstance(given.base, ir.Name)):
            return plain
        if not isinstance(given.index, ir.Constant):
            return plain
        if keys is not None and given.index.value not in keys:
            return (
                f"{where} with a key, {module.text(given.index)}, that this file doesn't save; load the "
                "scaler's state by hand"
            )
        state, quote = module.text(given.base), module.text(given.index)[0]
        below = f"{module.source.newline}{indentation(module, statement)}{unit(module, statement)}"
        key = f"{quote}{own}{quote}"
        # One that was switched off saves an empty state, and older checkpoints have none.
        code = f"if {state}.get({key}):{below}{scaler}.load_state_dict({state}[{key}])"
        edit = line_behind(module, statement, code)
        if edit is None:
            return plain
        edits.append(edit)
    return edits
