"""Regions that hold only losses of a model that runs before them, where losses and model needn't be in sight."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.call_sites import callers
from amplint.model.calls.external_calls import local_function
from amplint.model.flow.state import Opened
from amplint.model.half.analysis import half
from amplint.model.half.autocast_context import Autocast, autocast_context
from amplint.model.half.layers import is_model, makes_layer, plain_weights
from amplint.model.inference.constructions import constructions
from amplint.model.names.grad_mode import GradMode, grad_mode, without_gradients
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.autocast_objects import region_of
from amplint.model.regions.openers import may_be_region, openers, opens
from amplint.model.regions.regions_at import regions_at
from amplint.model.regions.training_regions import trained
from amplint.model.syntax import ir
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, SCALERS
from amplint.model.torch_facts.op_spellings import LOSSES, PRODUCTS, SPELLINGS, spelled
from amplint.model.usage.frozen_models import frozen
from amplint.rules.shared.in_region import is_cast_to_half

if TYPE_CHECKING:
    from amplint.model import Module

# Calls that compute nothing in half precision, whatever they belong to.
HARMLESS = {
    "backward", "scale", "step", "update", "unscale_", "zero_grad", "item", "detach", "append", "print", "float",
    "mean", "sum", "size", "clip_grad_norm_", "get_scale", "view", "reshape", "flatten", "squeeze", "to", "cuda",
}  # fmt: skip
_OF_TENSORS = {"long", "dim", "type_as", "add_", "mul_", "div_", "cpu", "parameters", "max", "min", "fill_diagonal_"}
_MAKES = {"torch.tensor", "torch.arange", "torch.full", "torch.as_tensor"}
_SIMILAR = ("matmul", "mm", "bmm", "einsum")
# What a criterion is called, and one that has a network of its own.
_CRITERION = re.compile(r"(?i)loss|criterion|criteria")
_AMP = re.compile(r"(?i)(^|_)amp(_|$)|autocast|mixed|precision|(fp|bf|float)16|(^|_)half(_|$)")
_NETWORK = re.compile(r"(?i)percep|lpips|vgg|feature|content|style|dis|adv|gan|critic|teacher|model|net|embed|ident")
# Methods that run a model out of sight.
_RUNS = re.compile(r"(^|_)(forward|inference)($|_)")
# What gives the same tensor in another shape or dtype.
VIEWS = ("view", "reshape", "squeeze", "flatten", "float", "half", "bfloat16")
_FOLLOW = 3


class LossRegion(NamedTuple):
    """A region, and the call of a model before it whose result the loss in the region is computed from.

    `sure`: the layers of the model, and all that the region computes, are in sight.
    """

    region: ir.With
    forward: ir.Call
    sure: bool


def loss_regions(module: Module) -> list[LossRegion]:
    """The regions that hold only losses that backward is called on, while the model runs before them, in float32.

    Products of outputs, as those of a contrastive loss, belong to a loss.
    """
    return module.once(_loss_regions) if plain_weights(module) else []


def _loss_regions(module: Module) -> list[LossRegion]:
    found = []
    for made in module.calls_of(AUTOCAST, *OLD_AUTOCAST):
        region = ir.statement_of(made)
        if not isinstance(region, ir.With) or all(item.context is not made for item in region.items):
            continue
        if not _is_on(module, made):
            continue
        forward, content = _forward(module, region), _Content(module)
        if forward is not None and content.holds_only_losses(region.body) and _is_trained_in(module, region):
            found.append(LossRegion(region, forward, content.in_sight and multiplies(module, forward)))
    return found


def _is_trained_in(module: Module, region: ir.With) -> bool:
    """Whether a loss that backward is called on comes out of a region."""
    return any(entered.at is region for each in trained(module) for entered in each.entered)


def multiplies(module: Module, call: ir.Call) -> bool:
    """Whether a call's function or layer multiplies matrices outside of every region, and opens none."""
    inside = [each for each in half(module) if call.id in each.sites or each.node is call]
    return any(each.spelling in PRODUCTS for each in inside) and all(
        each.autocast.state == Autocast.OUTSIDE for each in inside
    )


def _is_on(module: Module, made: ir.Call) -> bool:
    """Whether a call makes a region that can be on, in half precision."""
    region, context = region_of(module, made), autocast_context(module, (Opened(made.id, None),))
    return region is not None and not is_false(region.enabled) and context.state == Autocast.ON and bool(context.low)


def is_arithmetic(module: Module, at: ir.Node) -> bool:
    """Whether a `with` holds sums, norms and the like alone: no region lets them run in half precision, unless their
    operands are half already.
    """
    return isinstance(at, ir.With) and _Content(module).holds_only_arithmetic(at.body)


class _Content:
    """Reads what a region computes, in functions of the file as well."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._criteria = {each.node.id for each in half(module) if each.spelling in LOSSES}
        self._losses = 0
        self.in_sight = True

    def holds_only_losses(self, block: ir.Block) -> bool:
        """Whether a suite computes losses, and nothing else that autocast could compute in half precision."""
        return self._is_fine(block, _FOLLOW) and self._losses > 0

    def holds_only_arithmetic(self, block: ir.Block) -> bool:
        """Whether a suite computes no loss, and nothing else that autocast could compute in half precision."""
        return self._is_fine(block, _FOLLOW) and not self._losses and self.in_sight

    def _is_fine(self, block: ir.Block, depth: int) -> bool:
        return all(
            self._call(value, depth) if isinstance(value, ir.Call) else self._binary(value)
            for value in ir.values_below(block)
            if isinstance(value, (ir.Call, ir.Binary))
        )

    def _binary(self, value: ir.Binary) -> bool:
        if value.op != "MatrixMultiply":
            return True
        self.in_sight = False
        return _is_output(value.left) and _is_output(value.right)

    def _call(self, call: ir.Call, depth: int) -> bool:
        if call.id in self._criteria:
            self._losses += 1
            return True
        name = self._module.names.only(call.func) or ""
        if name.startswith("torch."):
            return self._of_torch(call, name)
        if name.startswith("builtins."):
            return True
        function = local_function(self._module, call.func)
        if function is not None:
            self._losses += bool(_CRITERION.search(function.name))  # one that is written by hand
            return depth > 0 and self._is_fine(function.body, depth - 1)
        return self._out_of_sight(call)

    def _of_torch(self, call: ir.Call, name: str) -> bool:
        spelling = spelled(name)
        if spelling in _SIMILAR:
            self.in_sight = False
            return all(_is_output(each) for each in call.positional if not isinstance(each, ir.Constant))
        if spelling is not None:
            return spelling not in PRODUCTS
        return name in _MAKES or name in SCALERS or name.startswith("torch.distributed.")

    def _out_of_sight(self, call: ir.Call) -> bool:
        """A method, or a function of elsewhere: of a tensor, or a criterion by its name."""
        last = ir.last_name(call.func)
        if isinstance(call.func, ir.Attribute):
            if last in _SIMILAR:
                self.in_sight = False
                return _is_output(call.func.base) and all(map(_is_output, call.positional))
            if last in HARMLESS | _OF_TENSORS or (last in SPELLINGS and last not in PRODUCTS):
                return True
        if _CRITERION.search(last) and not _NETWORK.search(last) and call.args:
            self._losses, self.in_sight = self._losses + 1, False
            return True
        return False


def _is_output(value: ir.Value) -> bool:
    """Whether an operand of a product is computed from a variable, and no weight."""
    if isinstance(value, ir.Name):
        return value.name not in ("self", "torch")
    if isinstance(value, ir.Attribute):
        return value.attr not in ("weight", "prototypes", "queue") and _is_output(value.base)
    if isinstance(value, ir.Subscript):
        return _is_output(value.base)
    if isinstance(value, ir.Binary):
        return _is_output(value.left) or _is_output(value.right)
    if isinstance(value, ir.Call):
        base = value.func.base if isinstance(value.func, ir.Attribute) else None
        return any(_is_output(each) for each in (*([base] if base is not None else []), *value.positional))
    return False


# --- the forward ----------------------------------------------------------------------------------------------------


def _forward(module: Module, region: ir.With) -> ir.Call | None:
    """The nearest call of a model before a region whose result the region reads."""
    return _before(module, region, _read(ir.values_below(region.body)), _FOLLOW)


def _before(module: Module, at: ir.Statement, read: set[str], depth: int) -> ir.Call | None:
    """The nearest call of a model before a statement, in its suite or before what is around it, whose result some
    variables hold: an `if`, a loop, a `try` or a `with` that opens no region.

    Before a function's first statement come all calls of it, with what they give for its parameters.
    """
    suite = at.block.statements
    forward, read = _last_in(module, suite[: suite.index(at)], read)
    if forward is not None:
        return forward
    owner = at.block.owner
    if isinstance(owner, (ir.If, ir.For, ir.While, ir.Try, ir.With)):
        is_region = isinstance(owner, ir.With) and not _is_plain(module, owner)
        return _before(module, owner, read, depth) if read and not is_region else None
    function = ir.function_of(at)
    if function is None or at.block is not function.body or not depth:
        return None
    found = [_before_call(module, call, read, depth - 1) for call in callers(module, function)]
    return found[0] if found and None not in found else None


def _last_in(module: Module, suite: Sequence[ir.Statement], read: set[str]) -> tuple[ir.Call | None, set[str]]:
    """The last call of a model in some statements whose result some variables hold, and else the variables that those
    are computed from.

    What a region computes, or code without gradients, is no longer looked for.
    """
    for each in reversed(suite):
        if isinstance(each, ir.Assign):
            if each.value is None or not _names(each) & read:
                continue
            forward = _forward_in(module, each.value)
            if forward is not None:
                return forward, read
            read = (read - _names(each)) | _read(ir.walk_values(each.value))
        elif isinstance(each, ir.With) and not _is_plain(module, each):
            read = read - _names_in(each)
        elif isinstance(each, (ir.With, ir.Try)):
            forward, read = _last_in(module, each.body.statements, read)
            if forward is not None:
                return forward, read
        elif isinstance(each, ir.If) and (forward := _in_each_arm(module, each, read)) is not None:
            return forward, read
    return None, read


def _in_each_arm(module: Module, branch: ir.If, read: set[str]) -> ir.Call | None:
    """The call of a model in the arms of an `if` that set some variables, if all of these call one."""
    arms = [each for each in branch.blocks() if any(_names(one) & read for one in _assigned_in(each))]
    found = [_last_in(module, each.statements, read)[0] for each in arms]
    return found[0] if found and None not in found else None


def _assigned_in(block: ir.Block) -> Iterator[ir.Assign]:
    return (each for each in ir.walk_statements(block, into=False) if isinstance(each, ir.Assign))


def _names_in(region: ir.With) -> set[str]:
    return {name for each in _assigned_in(region.body) for name in _names(each)}


def _is_plain(module: Module, at: ir.With) -> bool:
    """Whether a `with` opens no region, and leaves gradients what they are."""
    return not any(
        (found := opens(module, item.context)).regions
        or any(may_be_region(module, each) for each in found.unseen)
        or grad_mode(module, item.context) in (GradMode.OFF, GradMode.EITHER)
        for item in at.items
    )


def _before_call(module: Module, call: ir.Call, read: set[str], depth: int) -> ir.Call | None:
    """The call of a model before a call of a function, for what that gives for some of its parameters."""
    calls = module.once(CallGraph)
    callee = calls.find(call)
    given = calls.arguments(call, callee) if callee is not None else None
    values = [value for name, value in (given or {}).items() if name in read and value is not None]
    inside = [each for value in values for each in ir.walk_values(value) if isinstance(each, ir.Call)]
    if (forward := next((each for each in inside if _is_forward(module, each)), None)) is not None:
        return forward
    names = {name for value in values for name in _read(ir.walk_values(value))}
    return _before(module, ir.statement_of(call), names, depth) if names else None


def _forward_in(module: Module, value: ir.Value) -> ir.Call | None:
    """The call of a model whose result a value is, perhaps in another shape or dtype, or from a function of the file
    that runs the model.
    """
    while (base := ir.called_on(value, *VIEWS, "to")) is not None:
        value = base
    if not isinstance(value, ir.Call):
        return None
    function = local_function(module, value.func)
    if function is None or function.is_generator:
        return value if _is_forward(module, value) else None
    calls = [each for each in ir.calls_below(function.body) if ir.function_of(each) is function]
    return value if any(_is_forward(module, each) for each in calls) else None


def _read(values: Iterable[ir.Value]) -> set[str]:
    return {each.name for each in values if isinstance(each, ir.Name) and not each.bound}


def _names(statement: ir.Assign) -> set[str]:
    return {name.name for target in statement.targets for name in ir.walk_values(target) if isinstance(name, ir.Name)}


def _is_forward(module: Module, call: ir.Call) -> bool:
    """Whether a call runs a model with gradients, and all calls of that model that have gradients run in no region."""
    func = _model(module, call)
    key = objects(module).key(func)
    if key is None or key in frozen(module) or is_cast_to_half(module, key) or without_gradients(module, call):
        return False
    in_sight = any(makes_layer(module, each) for each in constructions(module, func))
    if not (multiplies(module, call) if in_sight else is_model(module, func)):
        return False
    if not in_sight and _opens_its_own(module, func):
        return False
    near = module.whole.near(ir.last_name(func)).calls
    calls = [each for each in near if key in map(objects(module).key, (each.func, _model(module, each)))]
    return not any(_may_be_in_region(module, each) for each in calls if not without_gradients(module, each))


def _model(module: Module, call: ir.Call) -> ir.Value:
    """What a call runs, if it runs a model: what it calls, or what has the method (`network.initial_inference(x)`)."""
    func = call.func
    if isinstance(func, ir.Attribute) and _RUNS.search(func.attr) and local_function(module, func) is None:
        return func.base
    return func


def _opens_its_own(module: Module, model: ir.Value) -> bool:
    """Whether a model out of sight has a method or attribute that is named for AMP: `model.configure_amp(...)`."""
    name = ir.last_name(model)
    return any(
        isinstance(each, ir.Attribute) and ir.last_name(each.base) == name and _AMP.search(each.attr)
        for each in module.whole.near(name).values
    )


def _may_be_in_region(module: Module, call: ir.Call) -> bool:
    entered = openers(module).entered(call)
    unseen = any(may_be_region(module, value) for each in entered for value in each.opens.unseen)
    return unseen or bool(regions_at(module, call))
