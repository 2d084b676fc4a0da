"""Of what type a value evidently is: literals, what builtins return, options of a command line.

Only what the file shows counts. `kinds` names every type that a value can be seen to have, and `OPEN` where it can be
something else as well.
"""

from __future__ import annotations

from operator import truediv
from typing import TYPE_CHECKING

from amplint.model.inference.values import Doubt, Leaf, asked, option_read, parameter_read, values_of
from amplint.model.syntax import ir
from amplint.model.syntax.arguments import argument
from amplint.model.syntax.operators import COMPUTES
from amplint.model.torch_facts.names import SCALER, SCALERS
from amplint.model.torch_facts.op_spellings import DTYPES

if TYPE_CHECKING:
    from amplint.model import Module

    Kinds = frozenset[str]

OPEN = "?"
DTYPE = "torch.dtype"
_UNKNOWN = frozenset((OPEN,))
_NONE = frozenset(("None",))
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
    **dict.fromkeys(("torch.cuda.device_count", "torch.cuda.current_device"), frozenset(("int",))),
    **dict.fromkeys(("torch.distributed.get_rank", "torch.distributed.get_world_size"), frozenset(("int",))),
    **dict.fromkeys(
        [f"numpy.{name}" for name in ("bool_", "bool", "all", "any", "logical_and", "logical_or", "logical_not")],
        frozenset(("numpy.bool",)),
    ),
    **dict.fromkeys(SCALERS, frozenset((SCALER,))),
}
_NUMBERS = {"bool", "int", "float"}
# What lies beyond isn't worked out.
_LARGEST, _BASE, _HIGHEST = 2.0**64, 2.0**10, 64


def kinds(module: Module, value: ir.Value) -> Kinds:
    """The types that a value can be seen to have; never empty."""
    return asked(module, _kinds, value, _UNKNOWN)


def is_bool(module: Module, value: ir.Value) -> bool:
    """Whether a value is evidently a bool: whatever it is seen to be is one, its default at least."""
    found = [each for each in values_of(module, value).leaves if not each.is_open]
    unknown = [each.value for each in values_of(module, value).leaves if each.is_open]
    by_default = all(each.doubt is Doubt.DEFAULT for each in found)
    return all(_of_leaf(module, each) == {"bool"} for each in found) and all(
        _of_open(module, each) == {"bool"} or (bool(found) and by_default) for each in unknown
    )


def _kinds(module: Module, value: ir.Value) -> Kinds:
    leaves = values_of(module, value).leaves
    found = {each: _of_leaf(module, each) for each in leaves if not _is_said_otherwise(module, each, leaves)}
    if any(each.doubt is Doubt.REPLACED for each in leaves) and len({*found.values()}) > 1:
        return _UNKNOWN
    return frozenset().union(*found.values())


def _is_said_otherwise(module: Module, leaf: Leaf, leaves: tuple[Leaf, ...]) -> bool:
    """Whether a leaf is the default None of a parameter whose annotation says what is given for it."""
    others = (each.value for each in leaves if each.is_open)
    read = [found[1] for each in others if (found := parameter_read(module, each)) is not None]
    by_default = leaf.doubt is Doubt.DEFAULT and ir.is_none(leaf.value)
    return by_default and any(each.default is leaf.value and OPEN not in _annotated(module, each) for each in read)


def _of_leaf(module: Module, leaf: Leaf) -> Kinds:
    value = leaf.value
    if leaf.doubt is Doubt.GUESSED:
        return _UNKNOWN
    if leaf.is_open:
        return _of_open(module, value)
    if isinstance(value, ir.Constant):
        return _NONE if value.value is None else frozenset((type(value.value).__name__,))
    if isinstance(value, ir.Compare):
        return frozenset(("bool",))
    if isinstance(value, ir.Unary):
        return frozenset(("bool",)) if value.op == "Not" else _arithmetic(kinds(module, value.operand))
    if isinstance(value, ir.Binary):
        return _computed(value, kinds(module, value.left), kinds(module, value.right))
    if isinstance(value, ir.FString):
        return frozenset(("str",))
    if isinstance(value, ir.Sequence):
        return frozenset((value.kind,))
    if isinstance(value, ir.Subscript):
        return frozenset(("str",)) if module.names.of(value.base) == {"os.environ"} else _UNKNOWN
    if isinstance(value, ir.Call):
        return _CALLS.get(module.names.only(value.func) or "", _UNKNOWN)
    return _of_name(module, value)


def _of_name(module: Module, value: ir.Value) -> Kinds:
    """What a qualified name stands for: of torch's dtypes each is one."""
    return frozenset((DTYPE,)) if (module.names.only(value) or "") in DTYPES else _UNKNOWN


def _of_open(module: Module, value: ir.Value) -> Kinds:
    """What is known of a value out of sight: by its annotation, its option, its look-up."""
    if isinstance(value, ir.Name):
        read = parameter_read(module, value)
        return _annotated(module, read[1]) if read is not None else _UNKNOWN
    if isinstance(value, ir.Attribute):
        declared = option_read(module, value)
        if declared is not None and declared.unset and declared.stores is None and declared.default is None:
            return _UNKNOWN
        return _option(module, declared.call) if declared is not None else _of_name(module, value)
    if isinstance(value, ir.Call):
        found = _CALLS.get(module.names.only(value.func) or "", _UNKNOWN)
        given = argument(value, "os.getenv", "default")
        return found | (_NONE if given is None and found != _UNKNOWN else frozenset())
    return _UNKNOWN


def _annotated(module: Module, param: ir.Param) -> Kinds:
    names = module.names.of(param.annotation) if param.annotation is not None else frozenset()
    noted = {each.removeprefix("builtins.") for each in names if each.startswith("builtins.")}
    if param.kind not in ("*", "**") and noted and len(noted) == len(names) and noted <= {*_NUMBERS, "str"}:
        return frozenset(noted)
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
    made = kinds(module, default)
    return found if made == {"str"} else found | made  # a default that is a string goes through `type`


def numbers_of(module: Module, value: ir.Value | None) -> tuple[float | None, ...]:
    """The numbers that a value can be, made of literals; a bool is none. None among them: something else."""
    return asked(module, _numbers, value, (None,)) if value is not None else (None,)


def numbers_shown(module: Module, value: ir.Value) -> tuple[float | None, ...]:
    """The same without what is out of sight: of a parameter with a default, that one."""
    leaves = (each for each in values_of(module, value).leaves if not each.is_open)
    return tuple(dict.fromkeys(_number(module, each) for each in leaves))


def number(module: Module, value: ir.Value | None) -> float | None:
    """The one number that a value surely is."""
    sure = value is not None and all(each.doubt is Doubt.NONE for each in values_of(module, value).leaves)
    found = set(numbers_of(module, value))
    return found.pop() if sure and len(found) == 1 else None


def _numbers(module: Module, value: ir.Value) -> tuple[float | None, ...]:
    return tuple(dict.fromkeys(_number(module, each) for each in values_of(module, value).leaves))


def _number(module: Module, leaf: Leaf) -> float | None:
    value = leaf.value
    if leaf.is_open:
        return None
    if isinstance(value, ir.Constant):
        return value.value if type(value.value) in (int, float) else None
    if isinstance(value, ir.Unary) and value.op == "Minus":
        operand = number(module, value.operand)
        return -operand if operand is not None else None
    if isinstance(value, ir.Binary):
        left, right = number(module, value.left), number(module, value.right)
        return _result(value.op, left, right) if left is not None and right is not None else None
    if isinstance(value, ir.Call) and module.names.of(value.func) <= {"builtins.float", "builtins.int"}:
        return number(module, value.positional[0]) if len(value.args) == len(value.positional) == 1 else None
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
