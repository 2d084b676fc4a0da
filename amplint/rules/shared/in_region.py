"""What AMP301 and AMP302 share: events inside an open autocast region, and the fix that ends it before them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base.findings import Confidence, Fix
from amplint.fixes.movable import is_movable
from amplint.fixes.region_end import Refused, enclosing_with, end_region, top_statement
from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.external_calls import local_class, local_function
from amplint.model.flow.analysis import flows
from amplint.model.flow.state import Opened
from amplint.model.half.analysis import half
from amplint.model.inference.formulas import both, contradict
from amplint.model.inference.value_sets import decided
from amplint.model.inference.values import held
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.objects.event import Event
from amplint.model.regions.framework_regions import framework_region, is_framework_backward, is_library_scaler_call
from amplint.model.regions.openers import opens
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.model.syntax.ir import Defined
from amplint.model.syntax.nesting import exclusive, is_within, loops_round
from amplint.model.syntax.queries import is_false
from amplint.model.syntax.scopes import UNKNOWN, owner_class
from amplint.model.torch_facts.op_spellings import PRODUCTS
from amplint.model.usage.frozen_models import frozen_at
from amplint.model.usage.module_casts import casts
from amplint.rules.shared.loop_rounds import comes_later
from amplint.rules.shared.rehearsal import is_check, is_demo, is_measured, is_probe, is_profiled

if TYPE_CHECKING:
    from amplint.model import Module

AUTOGRAD_FUNCTIONS = {"torch.autograd.Function", "torch.autograd.function.Function"}
HALF = ("float16", "bfloat16")
BACKWARD = ("backward",)
STEPS = ("step", "optimizer_step")
# torch.optim's optimizers whose step is elementwise: autocast changes nothing in it (measured; Adafactor uses matmul).
ELEMENTWISE = {
    f"torch.optim.{name}"
    for name in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD")
}

_HOOKS = {
    "register_hook", "register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook",
    "register_module_full_backward_hook", "register_multi_grad_hook", "register_post_accumulate_grad_hook",
}  # fmt: skip
# What a tensor doesn't have, and a model has.
_OF_MODELS = ("parameters", "named_parameters", "train", "eval", "state_dict", "load_state_dict")
# Methods that change a tensor, on a parameter or its `data`.
_IN_PLACE = {"add_", "sub_", "mul_", "div_", "copy_", "lerp_", "addcmul_", "addcdiv_", "normal_", "uniform_"}
# What isn't a model by its name.
_LOSS = re.compile(r"(?i)loss|crit|metric|objective")


# Methods of the context that torch gives a Function.
_OF_CONTEXT = {
    "save_for_backward", "save_for_forward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads",
}  # fmt: skip


class Inside(NamedTuple):
    """An event that some path reaches with a region open."""

    event: Event
    region: Opened


def inside(module: Module, kinds: tuple[str, ...]) -> Iterator[Inside]:
    """The events of some kinds that run inside a region, in the order of the text."""
    for each in module.once(_all_inside):
        if each.event.kind in kinds:
            yield each


def _all_inside(module: Module) -> list[Inside]:
    found: dict[int, Inside] = {}
    for flow in flows(module):
        for number, reached in flow.event_states.items():
            event = reached.event
            if is_framework_backward(module, event.call):
                event = event._replace(kind="backward")
            if event.kind in (*BACKWARD, *STEPS) and (number not in found or flow.contains(event.call)):
                found_open = (flow.regions.innermost(state, flow.conditions) for state in reached.states)
                opened = next((each for each in found_open if each is not None), None)
                if opened is not None and not _is_of_other_branch(module, opened, event):
                    found[number] = Inside(event, opened)
    return [found[number] for number in sorted(found)]


def _is_of_other_branch(module: Module, opened: Opened, event: Event) -> bool:
    """Whether an event only runs where the flag of a region is off, by all values that the flag can have."""
    made = module.value(opened.call)
    region = region_of(module, made) if isinstance(made, ir.Call) else None
    if region is None or region.enabled is None:
        return False
    known = decided(module)
    return contradict(both(known.of(region.enabled), known.inside(event.call)))


def confidence_in(module: Module, found: Inside) -> Confidence | None:
    """How sure it is that an event in a region is a misuse: not sure where it is only timed, compared or shown.

    Nor where the region is a framework's whose precision the file doesn't choose.
    """
    if any(each(module, found.event.call) for each in (is_measured, is_check, is_demo, is_probe, is_profiled)):
        return Confidence.SUSPICION
    made = module.value(found.region.call)
    frameworks = framework_region(module, made) if isinstance(made, ir.Call) else None
    return Confidence.LIKELY if frameworks is not None and not frameworks.is_given else None


def cause(region: Opened) -> str:
    """What all findings share that are mended by ending this region earlier."""
    return f"region {region.at}"


def region_line(module: Module, region: Opened) -> str:
    """The line of the place where the region is entered."""
    return module.line(module.value(region.at))


class Stale(NamedTuple):
    """A model that runs before and behind a change of weights in one region, and the call behind it.

    `change`: the optimizer's step, or what writes to parameters by hand. `surely`: they are seen to be the model's.
    """

    change: ir.Node
    call: ir.Call
    surely: bool
    is_step: bool

    def said(self, module: Module) -> str:
        """What the change does to that call, as a clause."""
        model, again, change = (module.text(self.call.func), *map(module.line, (self.call, self.change)))
        what = "the step" if self.is_step else f"the change on {change}"
        if_stepped = "" if self.surely else f"if {change} steps `{model}`, "
        return f"{if_stepped}`{model}` on {again} still uses the weights from before {what}, which autocast caches"


def stale(module: Module, region: Opened) -> Stale | None:
    """The first forward in a region that uses weights from before a step in it, kept in half precision."""
    opened, holder = module.value(region.at), ir.statement_of(module.value(region.at))
    made = region_of(module, opened) if isinstance(opened, ir.Call) else None
    if made is None or made.cache_enabled is not None or not isinstance(holder, (ir.With, ir.Function)):
        return None
    calls = list(ir.calls_below(holder.body))
    if any("torch.clear_autocast_cache" in module.names.of(each.func) for each in calls):
        return None
    changes = [*_steps(module, region, calls)]
    changes += [each for statement in ir.walk_statements(holder.body) for each in _changes_by_hand(module, statement)]
    found = (_runs_again(module, each, calls, holder) for each in changes)
    return next((each for each in found if each is not None), None)


class _Change(NamedTuple):
    """What changes weights, and the models whose weights these are; None where that isn't in sight."""

    at: ir.Value
    models: Collection[str] | None
    is_step: bool


def _steps(module: Module, region: Opened, calls: list[ir.Call]) -> Iterator[_Change]:
    """The steps of optimizers among some calls in a region."""
    for found in inside(module, STEPS):
        if found.region.at == region.at and found.event.call in calls:
            yield _Change(found.event.call, objects(module).owns.get(str(found.event.optimizer)), is_step=True)


def _changes_by_hand(module: Module, loop: ir.Statement) -> Iterator[_Change]:
    """What a loop over a model's parameters writes to them: `p.data += ...`, `p.add_(...)`."""
    if not isinstance(loop, ir.For) or not (models := objects(module).parameters_roots(loop.iter)):
        return
    names = {each.name for each in ir.walk_values(loop.target) if isinstance(each, ir.Name)}
    for each in ir.walk_statements(loop.body):
        if isinstance(each, ir.AugAssign) and _is_of_parameter(each.target, names):
            yield _Change(each.target, models, is_step=False)
        elif isinstance(each, ir.Assign):
            yield from (_Change(target, models, is_step=False) for target in each.targets if _is_data(target, names))
    for call in ir.calls_below(loop.body):
        func = call.func
        if isinstance(func, ir.Attribute) and func.attr in _IN_PLACE and _is_of_parameter(func.base, names):
            yield _Change(call, models, is_step=False)


def _is_of_parameter(value: ir.Value, names: set[str]) -> bool:
    """Whether a value is one of some variables, or its `data`."""
    return _is_data(value, names) or (isinstance(value, ir.Name) and value.name in names)


def _is_data(value: ir.Value, names: set[str]) -> bool:
    """Whether a value is `p.data` of one of some variables."""
    base = value.base if isinstance(value, ir.Attribute) and value.attr == "data" else None
    return isinstance(base, ir.Name) and base.name in names


def _runs_again(module: Module, change: _Change, calls: list[ir.Call], holder: ir.Statement) -> Stale | None:
    """What of some calls, in the statement that opens their region, runs a model behind a change that one has run
    before it.
    """
    known = objects(module)
    before = {known.key(each.func) for each in calls if each.id < change.at.id and not exclusive(each, change.at)}
    for call in calls:
        key = known.key(call.func)
        if key is None or key not in before:
            continue
        if is_cast_to_half(module, key) or key in frozen_at(module, call):
            continue  # autocast keeps no copies of these weights
        behind = call.id > change.at.id and not exclusive(call, change.at)
        if change.models is None:
            if behind and _may_be_model(module, call.func):
                return Stale(change.at, call, surely=False, is_step=change.is_step)
        elif key in change.models and (behind or _runs_in_a_later_round(module, change.at, call, key, holder)):
            return Stale(change.at, call, surely=True, is_step=change.is_step)
    return None


def _may_be_model(module: Module, func: ir.Value) -> bool:
    """Whether what is called may be a model that is given, and isn't a loss by its name, or a method of this file."""
    if local_function(module, func) is not None:
        return False
    return module.names.of(func) == {UNKNOWN} and _is_held(func) and not _LOSS.search(ir.last_name(func))


def _is_held(func: ir.Value) -> bool:
    """Whether what is called can be a model that is given: a variable, or an attribute of the object itself.

    What is called on another object is a method, of which nothing is seen: `net.reset_state` runs no forward.
    """
    return isinstance(func, ir.Name) or (isinstance(func, ir.Attribute) and owner_class(func) is not None)


def is_cast_to_half(module: Module, key: str) -> bool:
    """Whether the last cast of a model, or of one that holds it, is to a half type: autocast keeps no copies of it."""
    last = [each for each in casts(module) if f"{key}.".startswith(f"{each.key}.")]
    return bool(last) and last[-1].dtype in HALF


def casts_a_model_to_half(module: Module) -> bool:
    """Whether the file casts something to a half type that is a model, by its methods or by an optimizer's."""
    known = objects(module)
    models = {key for keys in known.owns.values() for key in keys}
    for call in module.whole.near(*_OF_MODELS).calls:
        if isinstance(call.func, ir.Attribute) and call.func.attr in _OF_MODELS:
            models.add(known.key(call.func.base) or "")
    last = {each.key: each.dtype for each in casts(module)}
    return any(
        dtype in HALF and any(f"{model}.".startswith(f"{key}.") for model in models) for key, dtype in last.items()
    )


def _runs_in_a_later_round(module: Module, step: ir.Node, call: ir.Call, key: str, holder: ir.Statement) -> bool:
    """Whether a call of a model comes again behind a step, in a loop inside of `holder`, for the same model."""
    shared = [each for each in loops_round(step) if each in loops_round(call) and each.id > holder.id]
    anew = {name for each in shared for name in objects(module).assigned_in(each)}
    return key not in anew and any(comes_later(module, each, step, call) for each in shared)


def fix(module: Module, found: Inside) -> tuple[Fix | None, str | None]:
    """The fix that ends the region before its first backward or step, or why there is none."""
    within = [each for each in module.once(_all_inside) if each.region.at == found.region.at]
    place = ir.function_of(module.value(found.region.at))
    if any(ir.function_of(each.event.call) is not place for each in within):
        return None, "the region and this call are in different functions; end the region by hand"
    holder = enclosing_with(found.event.call, lambda item: item.context.id == found.region.at)
    if holder is None:
        decorates = isinstance(ir.statement_of(module.value(found.region.at)), ir.Function)
        how = "a decorator" if decorates else "entered without a `with`"
        return None, f"the region is {how}; use a `with` around the forward pass and the loss only"
    region, item = holder
    ending = _ending(within, region)
    if ending is None:
        return None, "the call is part of the `with` line itself; move the call after the `with` by hand"
    multiplying = module.once(multiplying_in_backward)
    if multiplying is not None and any(each.event.kind in BACKWARD for each in within):
        function, line = ir.function_of(multiplying), module.line(multiplying)
        if function is not None and function.cls is not None and function.name == "backward":
            where = f"without `custom_bwd`, {line} (in `{function.cls.name}.backward`)"
        else:
            where = f"{line}, which runs in the backward pass,"
        return None, f"{where} may multiply tensors of two dtypes outside the region, and raise"
    doubt = _doubt(module, within)
    result = end_region(module, region, item, ending, safe=doubt is None)
    if isinstance(result, Refused):
        return None, result.reason
    if doubt is not None:
        return result._replace(message=f"{result.message} ({doubt} then runs without autocast)"), None
    return result, None


def _ending(within: list[Inside], region: ir.With) -> list[ir.Statement] | None:
    """The statements of a region's own suite that hold some events; None where one stands in the region's header."""
    found: dict[int, ir.Statement] = {}
    for each in within:
        top = top_statement(each.event.call, region)
        if top is None:
            return None
        found[top.id] = top
    return [found[number] for number in sorted(found)]


def _doubt(module: Module, within: list[Inside]) -> str | None:
    """What may need the region beyond the forward; None where nothing in sight does."""
    bare = next(bare_functions(module), None)
    if bare is not None:
        return f"`{bare.name}.backward`"
    if module.once(_has_computing_hook):
        return "a hook on gradients"
    if not all(_is_safe_step(module, each.event) for each in within):
        return "the optimizer"
    return None


def _is_safe_step(module: Module, event: Event) -> bool:
    """A step without a closure, by an optimizer whose arithmetic no region changes."""
    assert isinstance(event.call, ir.Call)
    if event.kind not in STEPS:
        return not is_library_scaler_call(module, event.call)
    if len(event.call.args) > (1 if event.kind == "step" else 0) or event.optimizer is None:
        return False
    made = objects(module).classes(event.optimizer)
    return bool(made) and made <= ELEMENTWISE


def multiplying_in_backward(module: Module) -> ir.Value | None:
    """A product of matrices in the backward of a bare Function or in a hook, or a forward that it runs again, as
    checkpoints do: outside, two dtypes may meet there.
    """
    backwards = [
        each
        for cls in bare_functions(module)
        for each in cls.body.statements
        if isinstance(each, ir.Function) and each.name == "backward"
    ]
    for function in (*backwards, *(each for hook in _hooks(module) for each in _in_sight(module, hook))):
        for statement in ir.walk_statements(function.body):
            for root in statement.values():
                for value in ir.walk_values(root):
                    if is_product(value) or _runs_forward_again(function, value):
                        return value
    return None


def _runs_forward_again(function: ir.Function, value: ir.Value) -> bool:
    """Whether a backward calls what its forward has kept in `ctx`: `ctx.run_function(*inputs)`."""
    if not isinstance(value, ir.Call) or not isinstance(value.func, ir.Attribute) or not function.params:
        return False
    base = value.func.base
    return isinstance(base, ir.Name) and base.name == function.params[0].name and value.func.attr not in _OF_CONTEXT


def _has_computing_hook(module: Module) -> bool:
    """Whether a function is registered that computes during backward, with gradients of the region's dtype."""
    return not all(
        functions and all(is_movable(module, statement) for each in functions for statement in each.body.statements)
        for functions in (_in_sight(module, hook) for hook in _hooks(module))
    )


def _hooks(module: Module) -> Iterator[ir.Value]:
    """What is registered to run in backward."""
    for call in module.whole.near("register_").calls:
        if isinstance(call.func, ir.Attribute) and call.func.attr in _HOOKS and call.args:
            yield call.args[-1].value


def _in_sight(module: Module, hook: ir.Value) -> list[ir.Function]:
    """The functions that a hook can be; none where it is not in sight."""
    if isinstance(hook, ir.Lambda):
        return [hook.function]
    bindings = module.names.bindings(hook) if isinstance(hook, ir.Name) else []
    found = [each.what for each in bindings if isinstance(each, Defined) and isinstance(each.what, ir.Function)]
    return found if len(found) == len(bindings) else []


def is_product(value: ir.Value) -> bool:
    """Whether a value is a product of matrices."""
    if isinstance(value, ir.Binary):
        return value.op == "MatrixMultiply"
    if not isinstance(value, ir.Call):
        return False
    name = ir.last_name(value.func)
    return name in PRODUCTS


def bare_functions(module: Module) -> Iterator[ir.Class]:
    """The file's `torch.autograd.Function`s that custom_fwd and custom_bwd don't decorate."""
    for statement in module.whole.near(*module.words(*AUTOGRAD_FUNCTIONS)).statements:
        if isinstance(statement, ir.Class) and any(
            module.names.of(base.value) & AUTOGRAD_FUNCTIONS for base in statement.bases
        ):
            decorators = [
                name
                for method in statement.body.statements
                if isinstance(method, ir.Function)
                for value in method.decorators
                for name in module.names.of(value.func if isinstance(value, ir.Call) else value)
            ]
            if not any(name.endswith(("custom_fwd", "custom_bwd")) for name in decorators):
                yield statement


def differs(module: Module, found: Inside) -> str | None:
    """A part of what surely runs in the region whose gradients change with the place of backward, in words.

    That is a custom Function of the file, or a part that is switched off and computes a product. Both may stand in a
    function or the forward of a model that is called there; in one that is called elsewhere they change nothing.
    """
    opened = module.value(found.region.at)
    holder = enclosing_with(found.event.call, lambda item: item.context.id == found.region.at)
    decorated = ir.statement_of(opened)
    if holder is not None:
        start: ir.Block = holder[0].body
    elif isinstance(decorated, (ir.Function, ir.With)):
        start = decorated.body
    else:
        function = ir.function_of(found.event.call)
        start = function.body if function is not None else module.program.body
    bare = {each.id for each in bare_functions(module)}
    return next(filter(None, (_special(module, block, bare) for block in _run_in(module, start))), None)


def _run_in(module: Module, start: ir.Block) -> Iterator[ir.Block]:
    """A suite, and those of all functions that surely run in it."""
    calls, blocks, seen = module.once(CallGraph), [start], set[int]()
    while blocks:
        block = blocks.pop()
        yield block
        for call in ir.calls_below(block):
            function = calls.run_by(call) if not conditions_round(call, block.owner) else None
            if function is not None and function.id not in seen:
                seen.add(function.id)
                blocks.append(function.body)


def _special(module: Module, block: ir.Block, bare: set[int]) -> str | None:
    for call in ir.calls_below(block) if bare else ():
        func = held(module, call.func)
        if isinstance(func, ir.Attribute) and func.attr == "apply" and not conditions_round(call, block.owner):
            cls = local_class(module, func.base)
            if cls is not None and cls.id in bare:
                return f"the custom Function `{cls.name}`"
    return next(
        (
            f"the `enabled=False` part on {module.line(item.context)}"
            for statement in ir.walk_statements(block, into=False)
            if isinstance(statement, ir.With) and not conditions_round(statement, block.owner)
            for item in statement.items
            for opening in opens(module, item.context).regions
            if is_false(opening.region.enabled) and _multiplies(module, statement)
        ),
        None,
    )


def _multiplies(module: Module, part: ir.With) -> bool:
    """Whether a product is computed in a part: only of products autocast would cast the backward pass."""
    calls = {each.id for each in ir.calls_below(part.body)}
    return any(
        each.spelling in PRODUCTS and (is_within(each.node, part) or not calls.isdisjoint(each.sites))
        for each in half(module)
    )
