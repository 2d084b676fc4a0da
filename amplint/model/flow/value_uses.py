"""What becomes of a number: followed from where it is made, through arithmetic, variables and containers.

What can't be followed adds nothing: a rule asks for what is surely done with a number, never for what is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.model.calls.call_graph import CallGraph
from amplint.model.calls.events import is_grad
from amplint.model.calls.external_calls import local_function
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.access_paths import word_of
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.call_context import CallContext
from amplint.model.syntax import ir
from amplint.model.syntax.ir import node_of

if TYPE_CHECKING:
    from amplint.model import Module

# Methods and functions whose result grows with what they are given, and is infinite where that is.
PASSING = {
    "abs", "add", "add_", "amax", "amin", "array", "as_tensor", "asarray", "average", "cast", "cat", "clone", "concat",
    "contiguous", "copy", "cpu", "cuda", "detach", "detach_", "dict", "div", "div_", "double", "enumerate", "fabs",
    "flatten", "float", "fsum", "get", "hypot", "int", "item", "items", "list", "log", "log10", "log2", "max",
    "maximum", "mean", "median", "min", "minimum", "mul", "mul_", "nanmean", "norm", "numpy", "pow", "pow_", "repr",
    "reshape", "reversed", "round", "sorted", "sqrt", "sqrt_", "square", "squeeze", "stack", "std", "str", "sub",
    "sum", "tensor", "to", "tolist", "tuple", "type_as", "unsqueeze", "values", "vector_norm", "view", "zip",
}  # fmt: skip
# Functions and methods that report what they are given.
LOGS = {
    "add_histogram", "add_scalar", "add_scalars", "critical", "debug", "error", "format", "info", "log", "log_dict",
    "log_metric", "log_metrics", "log_scalar", "log_value", "logkv", "pprint", "print", "push", "record",
    "report_scalar", "set_description", "set_postfix", "set_postfix_str", "track", "update", "warn", "warning",
    "write", "writerow",
}  # fmt: skip
# Those of them that can do nothing else, whoever has them.
TALKS = LOGS - {"format", "push", "record", "track", "update"}
COMPUTING = ("builtins.", "math.", "numpy.", "torch.")
# Methods that put what they are given into their object.
_COLLECTS = {"append", "appendleft", "extend", "insert", *(name for name in PASSING if name.endswith("_"))}
# In-place methods that multiply a tensor by what they are given.
RESCALES = {"copy_", "div_", "divide_", "mul_", "multiply_", "true_divide_"}
INFINITE = {"math.inf", "math.nan", "numpy.inf", "numpy.nan", "torch.inf", "torch.nan"}
# What a bound on gradients is called.
_BOUND = re.compile(r"(?i)max|min|clip|thr|limit|bound|tol|eps")
_MANY = 200


class ValueUses:
    """What becomes of one value. `found` holds the words of what was seen:

    logged, compared (with a bound that is no gradient), stored (in an attribute or in what is given from elsewhere),
    returned; divisor (something is divided by it), rescales (gradients are multiplied by it), compensated (it meets a
    scale), backward (backward starts from it); lost (there is too much to follow).
    """

    def __init__(self, module: Module, value: ir.Value) -> None:
        self._module = module
        self._objects = objects(module)
        self._seen: set[str] = set()
        self._steps = 0
        self.found: set[str] = set()
        self.bounds: list[ir.Value] = []  # what it is compared with
        self._quotients: list[ir.Binary] = []  # with the value in the denominator
        with self._objects.within(CallContext()):  # the same for whoever asks
            self._up(value)
            for each in self._quotients:
                self._quotient(each)

    # --- expressions ------------------------------------------------------------------------------------------------

    def _up(self, value: ir.Value) -> None:
        """Go on with what uses a value."""
        self._steps += 1
        parent = value.parent
        if self._steps > _MANY:
            self.found.add("lost")
            return
        if isinstance(parent, ir.Attribute):
            self._attribute(parent)
        elif isinstance(parent, ir.Call):
            self._argument(parent, value)
        elif isinstance(parent, ir.Binary):
            self._arithmetic(parent, value)
        elif isinstance(parent, ir.Compare):
            self._compare(parent, value)
        elif isinstance(parent, ir.FString):
            self.found.add("logged")
        elif isinstance(parent, ir.Comprehension):
            self._comprehension(parent, value)
        elif isinstance(parent, ir.Walrus):
            self._variable(parent.target)
            self._up(parent)
        elif isinstance(parent, ir.Statement):
            self._statement(parent, value)
        elif isinstance(parent, ir.Value) and self._keeps(parent, value):
            self._up(parent)

    def _keeps(self, parent: ir.Value, value: ir.Value) -> bool:
        """Whether a display or a choice has the value in it, and not only its truth."""
        if isinstance(parent, ir.Conditional):
            return value is not parent.test
        if isinstance(parent, ir.Subscript):
            return value is parent.base and isinstance(value, (ir.Name, ir.Attribute))  # `max((norm, name), ...)[1]`
        if isinstance(parent, ir.Unary):
            return parent.op != "Not"
        if isinstance(parent, ir.Mapping):
            return any(value is each for _, each in parent.items)
        return isinstance(parent, (ir.Sequence, ir.Starred, ir.Bool))

    def _attribute(self, parent: ir.Attribute) -> None:
        call = parent.parent
        if isinstance(call, ir.Call) and call.func is parent:
            if parent.attr == "backward":
                self.found.add("backward")
            elif parent.attr in PASSING:
                if any(meets_scale(arg.value) for arg in call.args):
                    self.found.add("compensated")
                if parent.attr.endswith("_") and isinstance(parent.base, ir.Name):
                    self._variable(parent.base)
                self._up(call)
        elif parent.attr in ("data", "T"):
            self._up(parent)

    def _argument(self, call: ir.Call, value: ir.Value) -> None:
        name, names = ir.last_name(call.func), self._module.names.of(call.func)
        base = call.func.base if isinstance(call.func, ir.Attribute) else None
        computes = all(each.startswith(COMPUTING) for each in names)
        if any(meets_scale(arg.value) for arg in call.args if arg.value is not value):
            self.found.add("compensated")
        if base is not None and is_grad(base):
            if name in RESCALES:
                self.found.add("rescales")
        elif names & {"torch.autograd.backward"}:
            self.found.add("backward")
        elif computes and name in PASSING:
            if name in ("div", "true_divide") and call.positional[:1] != (value,):
                self.found.add("divisor")
            else:
                self._up(call)
        else:
            self._taken(name, base)
            self._parameter(call, value)

    def _parameter(self, call: ir.Call, value: ir.Value) -> None:
        """A function of this file takes the value: the reads of its parameter."""
        calls = self._module.once(CallGraph)
        callee = calls.find(call)
        given = calls.arguments(call, callee) if callee is not None else None
        if callee is None or given is None or not self._module.is_own(callee.function):
            return
        for name in [name for name, each in given.items() if each is value]:
            key = self._objects.variable(callee.function.scope, name)
            if f"given {key}" not in self._seen:
                self._seen.add(f"given {key}")
                for read in reads_of(self._module, key):
                    self._read(read)

    def _taken(self, name: str, base: ir.Value | None) -> None:
        """A call that takes the value, by its name; `base`: whose method it is."""
        if base is not None and name in _COLLECTS:
            self._container(base)  # `norms.append(norm)`, `total.add_(norm)`
        elif name in LOGS:
            self.found.add("logged")
            if base is not None and name == "update":
                self._container(base)

    def _arithmetic(self, parent: ir.Binary, value: ir.Value) -> None:
        other = parent.left if value is parent.right else parent.right
        if meets_scale(other):
            self.found.add("compensated")
        elif parent.op == "Modulo" and isinstance(parent.left, ir.Constant) and isinstance(parent.left.value, str):
            self.found.add("logged")
        elif parent.op in ("Divide", "FloorDivide") and value is parent.right:
            self._quotients.append(parent)
        elif parent.op != "Divide" or not mentions_gradients(self._module, other):  # a ratio of two has no scale
            self._up(parent)

    def _quotient(self, quotient: ir.Binary) -> None:
        """Something is divided by the value: a ratio of the value of this step to that of another one has no scale.

        `grad / grad.norm()` is no such ratio, but a direction.
        """
        key = self._objects.own_key(quotient.left) if isinstance(quotient.left, ir.Name) else None
        names = (each for each in ir.walk_values(quotient.right) if isinstance(each, ir.Name))
        is_direction = any(self._objects.own_key(each) == key for each in names)
        if key is None or is_direction or not any(each.partition(" ")[0] == key for each in self._seen):
            self.found.add("divisor")
        elif "rescales" in ValueUses(self._module, quotient).found:
            self.found.add("rescales")

    def _compare(self, parent: ir.Compare, value: ir.Value) -> None:
        if any(op in ("Is", "IsNot", "In", "NotIn") for op in parent.ops):
            return
        others = [each for each in (parent.left, *parent.rights) if each is not value]
        if any(meets_scale(each) for each in others):
            self.found.add("compensated")
        if all(is_bound(self._module, each) for each in others):
            self.found.add("compared")
            self.bounds += others

    def _comprehension(self, parent: ir.Comprehension, value: ir.Value) -> None:
        if any(value is each for each in parent.elements):
            self._up(parent)
        for clause in parent.clauses:
            if clause.iter is value:
                self._targets(clause.target)

    # --- statements -------------------------------------------------------------------------------------------------

    def _statement(self, statement: ir.Statement, value: ir.Value) -> None:
        if isinstance(statement, ir.Return):
            self.found.add("returned")
        elif isinstance(statement, ir.For) and statement.iter is value:
            self._targets(statement.target)
        elif isinstance(statement, ir.AugAssign) and statement.value is value:
            if is_grad(statement.target):
                if statement.op in ("Multiply", "Divide"):
                    self.found.add("rescales")
            elif statement.op in ("Divide", "FloorDivide"):
                self.found.add("divisor")
            else:
                self._container(statement.target)
        elif isinstance(statement, ir.Assign) and statement.value is value:
            for target in statement.targets:
                if isinstance(target, ir.Name):
                    self._variable(target)
                elif isinstance(target, ir.Sequence):
                    if not isinstance(value, ir.Sequence):
                        self._targets(target)
                else:
                    self._container(target)

    def _targets(self, target: ir.Value) -> None:
        """A loop's targets: each takes something of what is looped over."""
        for each in ir.walk_values(target):
            if isinstance(each, ir.Name):
                self._variable(each)

    def _variable(self, target: ir.Name) -> None:
        """Each read of a variable that can see what was put there."""
        key = self._objects.own_key(target)
        if key in self._seen or f"{key} {target.id}" in self._seen:
            return
        self._seen.add(f"{key} {target.id}")
        for read in reads_of(self._module, key):
            reached = reaching(self._module.names, read) if isinstance(read, ir.Name) else []
            if not target.bound or any(node_of(each) is target for each in reached):
                self._read(read)

    def _container(self, target: ir.Value) -> None:
        """A list, a dict, an attribute or a sum takes the value up."""
        while (inner := _container_of(target)) is not None:
            target = inner
        if is_grad(target):
            return
        key = self._objects.own_key(target)
        if key is None or key in self._seen:
            return
        self._seen.add(key)
        reads = reads_of(self._module, key)
        if not isinstance(target, ir.Name) or self._is_given(target):
            self.found.add("stored")
        for read in reads:
            self._read(read)

    def _is_given(self, name: ir.Name) -> bool:
        """Whether a variable is a parameter: what is put into it, the caller sees."""
        return any(isinstance(node_of(each), ir.Function) for each in self._objects.bindings(name))

    def _read(self, read: ir.Value) -> None:
        if isinstance(read.parent, ir.AugAssign) and read.parent.target is read:
            if read.parent.op in ("Multiply", "Divide") and meets_scale(read.parent.value):
                self.found.add("compensated")
            return
        self._up(read)


def _container_of(value: ir.Value) -> ir.Value | None:
    """What an item is taken from: of `norms[name]` and `norms.setdefault(name, [])`, `norms`."""
    return value.base if isinstance(value, ir.Subscript) else ir.called_on(value, "setdefault", "get")


def reads_of(module: Module, key: str) -> list[ir.Value]:
    """The reads of a variable or attribute, by its key."""
    return module.once(_reads, key)


def _reads(module: Module, key: str) -> list[ir.Value]:
    known, word, found = objects(module), word_of(key), list[ir.Value]()
    properties = {each.name for each in module.whole.near(word).functions if each.cls is not None and each.decorators}
    for value in module.whole.near(word, *sorted(properties)).values:
        if isinstance(value, ir.Name):
            is_read = not (value.bound and isinstance(value.parent, ir.Assign))
            if is_read and value.name == word and known.own_key(value) == key:
                found.append(value)
        elif isinstance(value, ir.Attribute) and not isinstance(value.parent, ir.Assign):
            if (value.attr == word or value.attr in properties) and known.key(value) == key:
                found.append(value)
    return found


def meets_scale(value: ir.Value) -> bool:
    """Whether a value is the loss scale or made of it, going by the names in it."""
    return any(map(named_after_scale, ir.walk_values(value)))


def named_after_scale(value: ir.Value) -> bool:
    """Whether a value's own name is that of the loss scale, or of something made of it."""
    return _is_scale(ir.last_name(value).lower())


def _is_scale(name: str) -> bool:
    if "scale" in name:
        return "scaler" not in name and name != "unscale_" and "grayscale" not in name
    return name.startswith("inv_") or name in ("inv", "found_inf")


def is_bound(module: Module, value: ir.Value) -> bool:
    """Whether a comparison with a value asks for a size: it is neither zero, infinite, NaN nor itself a gradient's."""
    if isinstance(value, ir.Unary):
        return is_bound(module, value.operand)
    if isinstance(value, ir.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool) and value.value != 0
    if isinstance(value, ir.Call) and module.names.of(value.func) == {"builtins.float"}:
        return not all(isinstance(each, ir.Constant) for each in value.positional)
    if module.names.of(value) & INFINITE:
        return False
    return not mentions_gradients(module, value)


def mentions_gradients(module: Module, value: ir.Value) -> bool:
    """Whether gradients may be in a value, its variables followed."""
    todo, seen = [value], set[str]()
    while todo and len(seen) < _MANY:
        for each in ir.walk_values(todo.pop()):
            if takes_gradients(module, each):
                return True
            if isinstance(each, ir.Name) and (key := objects(module).own_key(each)) not in seen:
                seen.add(key)
                sources = list(_sources(module, each))
                if not sources and "grad" in each.name.lower() and not _BOUND.search(each.name):
                    return True
                todo += sources
    return bool(todo)


def takes_gradients(module: Module, value: ir.Value) -> bool:
    """Whether a value itself is `p.grad`, or a call that reads gradients."""
    if isinstance(value, ir.Attribute):
        return value.attr == "grad"
    return isinstance(value, ir.Call) and _returns_gradients(module, value)


def _returns_gradients(module: Module, call: ir.Call) -> bool:
    """Whether a call is one for gradients, or runs a function of the file that reads some."""
    if ir.last_name(call.func) in ("grad", "get_total_norm"):
        return True
    function = local_function(module, call.func)
    return function is not None and any(is_grad(each) for each in ir.values_below(function.body))


def _sources(module: Module, name: ir.Name) -> Iterator[ir.Value]:
    """What a variable is made of: what is assigned to it, unpacked into it, or looped over."""
    for binding in objects(module).bindings(name):
        up = node_of(binding)
        while isinstance(up, (ir.Name, ir.Sequence, ir.Starred)):
            up = up.parent
        if isinstance(up, (ir.Assign, ir.AugAssign)) and up.value is not None:
            yield up.value
        elif isinstance(up, ir.For):
            yield up.iter
