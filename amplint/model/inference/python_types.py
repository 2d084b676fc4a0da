"""Of what type a value evidently is: literals, what builtins return, options of a command line.

Only what the file shows counts. `kinds` names every type that a value can be seen to have, and `OPEN` where it can be
something else as well.
"""

from __future__ import annotations

from operator import truediv
from typing import TYPE_CHECKING

from amplint.model.inference.argparse_options import Options
from amplint.model.inference.value_sets import decided
from amplint.model.names.reaching_definitions import only_assignment, reaching
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned, Other
from amplint.model.syntax.operators import COMPUTES
from amplint.model.syntax.scopes import owner_class
from amplint.model.torch_facts.names import SCALER, SCALERS

if TYPE_CHECKING:
    from amplint.model import Module

    Kinds = frozenset[str]

OPEN = "?"
_UNKNOWN = frozenset((OPEN,))
_NONE = frozenset(("None",))
_FOLLOW = 6
_RETURNS = {
    **dict.fromkeys(("bool", "isinstance", "issubclass", "hasattr", "callable", "any", "all"), "bool"),
    **{name: name for name in ("int", "float", "str", "list", "tuple", "dict", "set")},
    **dict.fromkeys(("len", "ord", "hash", "id"), "int"),
}
_CALLS = {
    **{f"builtins.{name}": frozenset((kind,)) for name, kind in _RETURNS.items()},
    **dict.fromkeys(("os.getenv", "os.environ.get"), frozenset(("str",))),
    **dict.fromkeys(("distutils.util.strtobool", "setuptools._distutils.util.strtobool"), frozenset(("int",))),
    **dict.fromkeys(("torch.cuda.is_available", "torch.cuda.is_bf16_supported"), frozenset(("bool",))),
    "torch.cuda.device_count": frozenset(("int",)),
    **dict.fromkeys(
        [f"numpy.{name}" for name in ("bool_", "bool", "all", "any", "logical_and", "logical_or", "logical_not")],
        frozenset(("numpy.bool",)),
    ),
    **dict.fromkeys(SCALERS, frozenset((SCALER,))),
}
_NUMBERS = {"bool", "int", "float"}
_TRUTHY = {SCALER}
# What lies beyond isn't worked out.
_LARGEST, _BASE, _HIGHEST = 2.0**64, 2.0**10, 64


def kinds(module: Module, value: ir.Value, depth: int = _FOLLOW) -> Kinds:
    """The types that a value can be seen to have; never empty."""
    if not depth:
        return _UNKNOWN
    if isinstance(value, ir.Constant):
        return _NONE if value.value is None else frozenset((type(value.value).__name__,))
    if isinstance(value, ir.Compare) or (isinstance(value, ir.Unary) and value.op == "Not"):
        return frozenset(("bool",))
    if isinstance(value, ir.Bool):
        # What decides without the right operand is the result.
        left = kinds(module, value.left, depth) - (_TRUTHY if value.op == "and" else _NONE)
        return left | kinds(module, value.right, depth)
    if isinstance(value, ir.Conditional):
        return kinds(module, value.then, depth) | kinds(module, value.other, depth)
    if isinstance(value, ir.Unary):
        return _arithmetic(kinds(module, value.operand, depth))
    if isinstance(value, ir.Binary):
        return _computed(value, kinds(module, value.left, depth), kinds(module, value.right, depth))
    if isinstance(value, ir.FString):
        return frozenset(("str",))
    if isinstance(value, ir.Sequence):
        return frozenset((value.kind,))
    if isinstance(value, ir.Subscript):
        return frozenset(("str",)) if module.names.of(value.base) == {"os.environ"} else _UNKNOWN
    if isinstance(value, ir.Call):
        return _returned(module, value, depth)
    if isinstance(value, ir.Name):
        return _named(module, value, depth)
    if isinstance(value, ir.Attribute):
        return _attribute(module, value, depth)
    return _UNKNOWN


def _arithmetic(*operands: Kinds) -> Kinds:
    held = frozenset().union(*operands)
    if not held <= _NUMBERS:
        return _UNKNOWN
    return frozenset(("float",)) if "float" in held else frozenset(("int",))


def _computed(value: ir.Binary, left: Kinds, right: Kinds) -> Kinds:
    if left == right == {"bool"} and value.op.startswith("Bit"):
        return left
    found = _arithmetic(left, right)
    if value.op == "Divide" and found == {"int"}:
        return frozenset(("float",))
    return found


def _returned(module: Module, call: ir.Call, depth: int) -> Kinds:
    name = module.names.only(call.func)
    found = _CALLS.get(name or "")
    if found is None:
        return _UNKNOWN
    if name in ("os.getenv", "os.environ.get"):
        given = call.keyword("default") or next(iter(call.positional[1:]), None)
        return found | (kinds(module, given, depth - 1) if given is not None else _NONE)
    return found


def _named(module: Module, name: ir.Name, depth: int) -> Kinds:
    bindings = reaching(module.names, name)
    if not bindings:
        return _UNKNOWN
    found = {_bound(module, each, name.name, depth) for each in bindings}
    # Which of several it is may hang on what they are: `if not isinstance(x, bool): x = bool(x)`.
    return found.pop() if len(found) == 1 else _UNKNOWN


def _bound(module: Module, binding: object, name: str, depth: int) -> Kinds:
    if isinstance(binding, Assigned):
        return kinds(module, binding.value, depth - 1)
    if isinstance(binding, Other) and isinstance(binding.node, ir.Function):
        param = binding.node.param(name)
        if param is None or param.kind in ("*", "**"):
            return _UNKNOWN
        if param.annotation is not None:
            names = module.names.of(param.annotation)
            noted = {each.removeprefix("builtins.") for each in names if each.startswith("builtins.")}
            if noted and len(noted) == len(names) and noted <= {*_NUMBERS, "str"}:
                return frozenset(noted)
            return _UNKNOWN
        if param.default is not None:
            return kinds(module, param.default, depth - 1) | _UNKNOWN
    return _UNKNOWN


def _attribute(module: Module, value: ir.Attribute, depth: int) -> Kinds:
    if owner_class(value) is not None:
        stored = list(module.names.stored(value))
        found = [kinds(module, each, depth - 1) if each is not None else _UNKNOWN for each in stored]
        return found[0] if found and len(set(found)) == 1 else _UNKNOWN
    if isinstance(value.base, ir.Name):
        options = module.once(Options)
        if not options.is_changed(value.attr) and _is_parsed(module, value.base):
            made = {_option(module, each) for each in options.declared.get(value.attr, ())}
            return made.pop() if len(made) == 1 else _UNKNOWN
    return _UNKNOWN


def _is_parsed(module: Module, base: ir.Name) -> bool:
    """Whether a variable is seen to hold what the command line gave, and nothing made of it."""
    return all(
        isinstance(each.value, ir.Call) and ir.last_name(each.value.func) == "parse_args"
        for each in decided(module).alternatives(base)
    )


def _option(module: Module, call: ir.Call) -> Kinds:
    """What the option is that a call of `add_argument` declares."""
    action, given, default = call.keyword("action"), call.keyword("type"), call.keyword("default")
    if call.unpacks("**") or call.keyword("nargs") is not None:
        return _UNKNOWN
    if action is not None:
        flag = isinstance(action, ir.Constant) and action.value in ("store_true", "store_false")
        return frozenset(("bool",)) if flag and default is None else _UNKNOWN
    found = _CALLS.get(module.names.only(given) or "", _UNKNOWN) if given is not None else frozenset(("str",))
    first, required = call.positional[0], call.keyword("required")
    if isinstance(first, ir.Constant) and not str(first.value).startswith("-"):
        return found  # a positional argument is always there
    if default is None:
        return found if isinstance(required, ir.Constant) and required.value is True else found | _NONE
    made = kinds(module, default, 2)
    return found if made == {"str"} else found | made  # a default that is a string goes through `type`


def number(module: Module, value: ir.Value | None, depth: int = _FOLLOW) -> float | None:
    """What a number is, where it is a literal, or made of literals; a bool is none."""
    if not depth or value is None:
        return None
    if isinstance(value, ir.Constant):
        return value.value if type(value.value) in (int, float) else None
    if isinstance(value, ir.Unary) and value.op == "Minus":
        operand = number(module, value.operand, depth - 1)
        return -operand if operand is not None else None
    if isinstance(value, ir.Binary):
        left, right = number(module, value.left, depth - 1), number(module, value.right, depth - 1)
        return _result(value.op, left, right) if left is not None and right is not None else None
    if isinstance(value, ir.Name):
        only = only_assignment(module.names, value)
        return number(module, only.value, depth - 1) if only is not None else None
    if isinstance(value, ir.Call) and module.names.of(value.func) <= {"builtins.float", "builtins.int"}:
        return number(module, value.positional[0], depth - 1) if len(value.args) == len(value.positional) == 1 else None
    return None


def _result(op: str, left: float, right: float) -> float | None:
    if max(abs(left), abs(right)) > _LARGEST:
        return None
    if op == "Power":
        return float(left) ** right if 1 / _BASE <= left <= _BASE and abs(right) <= _HIGHEST else None
    if op in ("Divide", "Modulo") and not right:
        return None
    compute = truediv if op == "Divide" else COMPUTES.get(op)
    return compute(left, right) if compute is not None else None
