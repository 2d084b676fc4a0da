"""Modules that are cast as a whole: `model.half()`, `model = Net().to(torch.bfloat16)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.dtypes import HALF, dtypes
from amplint.model.inference.values import held
from amplint.model.names.tables import put_at
from amplint.model.objects.amp_objects import objects
from amplint.model.objects.loop_sources import loop_source
from amplint.model.syntax import ir
from amplint.model.syntax.nesting import ifs_round, loop_of
from amplint.model.torch_facts.modules import CASTS, RETURNS_ITSELF
from amplint.model.torch_facts.op_spellings import CASTS as OF_TENSORS
from amplint.model.usage.mentions_of import near_kept
from amplint.model.usage.whole_models import unwrapped

if TYPE_CHECKING:
    from amplint.model import Module

_METHODS = {name: OF_TENSORS[name] for name in CASTS}
LOADS = ("from_pretrained", "from_config")
# What gives the parts of a module, all of which have its parameters.
_PARTS = ("modules", "named_modules", "children", "named_children")

# What only modules have, and not tensors.
_OF_MODULES = ("state_dict", "parameters", "named_parameters", "save_pretrained")


class Cast(NamedTuple):
    """A call that casts the module kept at `key` to a dtype ("float16"); None: which can't be told.

    `inner`: which part of it alone is cast, as the end of a key (".encoder").
    """

    call: ir.Call
    key: str
    dtype: str | None
    inner: str = ""


def casts(module: Module) -> list[Cast]:
    """The casts of modules that have a key, in the order of the text; the last one of a chain of calls."""
    return module.once(_casts)


def _casts(module: Module) -> list[Cast]:
    known = objects(module)
    found = []
    for statement in module.whole.calling("to", "type", *_METHODS, *LOADS).statements:
        if isinstance(statement, (ir.Expr, ir.Assign)) and isinstance(statement.value, ir.Call):
            call, root = _last_cast(module, statement.value)
            for kept in statement.targets if isinstance(statement, ir.Assign) else (root,):
                if call is not None:
                    keys = _each_of(module, kept, root) or [_whole_of(module, kept, root) or known.key(kept)]
                    found += [Cast(call, key, cast_to(module, call)) for key in keys if key is not None]
        found += _asked_of(module, statement)
    return found


def _asked_of(module: Module, statement: ir.Statement) -> list[Cast]:
    """The casts to half precision on the way of a statement, which stay: `save(model.half().state_dict())`."""
    found = []
    for value in statement.values():
        for each in ir.walk_values(value):
            base = ir.called_on(each, *_OF_MODULES)
            call, root = _last_cast(module, base) if base is not None else (None, value)
            key = objects(module).key(root) if call is not None else None
            dtype = cast_to(module, call) if call is not None else None
            if call is not None and key is not None and dtype not in ("float32", "float64"):
                found.append(Cast(call, key, dtype))
    return found


def casts_handed_on(module: Module) -> list[Cast]:
    """The casts to what may be a half dtype of what is handed to a call at once: `validate(model.half())`."""
    return module.once(_casts_handed_on)


def _casts_handed_on(module: Module) -> list[Cast]:
    found = []
    for call in module.whole.calling("to", "half", "bfloat16").calls:
        arms = (each for arg in call.args for each in _arms(arg.value))
        for value in arms:
            cast, root = _last_cast(module, value)
            key = objects(module).key(unwrapped(module, root)) if cast is not None else None
            dtype = cast_to(module, cast) if cast is not None else None
            if cast is not None and key is not None and dtype not in ("float32", "float64"):
                found.append(Cast(cast, key, dtype))
    return found


def _arms(value: ir.Value) -> list[ir.Value]:
    """A value, or the two of a choice."""
    return [*_arms(value.then), *_arms(value.other)] if isinstance(value, ir.Conditional) else [value]


def returned_casts(module: Module) -> list[tuple[ir.Call, str | None]]:
    """The calls that functions return and that cast a module, with the dtype: `return Net().half()`."""
    return module.once(_returned_casts)


def _returned_casts(module: Module) -> list[tuple[ir.Call, str | None]]:
    found = []
    for statement in module.whole.calling("to", "type", *_METHODS, *LOADS).statements:
        if isinstance(statement, ir.Return) and isinstance(statement.value, ir.Call):
            call, _ = _last_cast(module, statement.value)
            if call is not None:
                found.append((call, cast_to(module, call)))
    return found


def _each_of(module: Module, kept: ir.Value, root: ir.Value) -> list[str | None]:
    """The keys of several modules that a loop casts one after the other: `for each in (vae, unet): each.half()`."""
    source = loop_source(module, root) if kept is root and isinstance(root, ir.Name) else None
    items = held(module, source) if source is not None else None
    if not isinstance(items, ir.Sequence) or items.unpacks():
        return []
    return [objects(module).key(each) for each in items.items]


def _whole_of(module: Module, kept: ir.Value, root: ir.Value) -> str | None:
    """The key of the module of which a loop casts each part: `for part in model.modules(): part.half()`."""
    if not isinstance(kept, ir.Name) or not isinstance(root, ir.Name) or kept.name != root.name:
        return None
    loop = loop_of(kept)
    if not isinstance(loop, ir.For) or any(loop_of(each) is loop for each in ifs_round(kept)):
        return None
    named = {each.name for each in ir.walk_values(loop.target) if isinstance(each, ir.Name)}
    whole = ir.called_on(loop.iter, *_PARTS) if kept.name in named else None
    if whole is None:
        return None
    return objects(module).key(whole)


def _last_cast(module: Module, value: ir.Value) -> tuple[ir.Call | None, ir.Value]:
    """The last call of a chain that casts, and what the chain starts from."""
    found: ir.Call | None = None
    while isinstance(value, ir.Call):
        casting = cast_to(module, value) is not None or _gives_dtype(module, value)
        found = found or (value if casting else None)
        if not isinstance(value.func, ir.Attribute) or value.func.attr not in RETURNS_ITSELF:
            break
        value = value.func.base
    return found, value


def what_is_cast(cast: ir.Value) -> ir.Value:
    """What a chain of calls casts: `model` of `model.to(device).half()`."""
    while isinstance(cast, ir.Call) and isinstance(cast.func, ir.Attribute):
        cast = cast.func.base
    return cast


def is_cast_there(module: Module, cast: ir.Call, key: str) -> bool:
    """Whether a call that casts the module kept at `key` is one of its methods, or is given it, and doesn't make it."""
    known = objects(module)
    if known.key(what_is_cast(cast)) == key:
        return True
    return key not in known.assigned_to(cast) and any(known.key(arg.value) == key for arg in cast.args)


def _gives_dtype(module: Module, call: ir.Call) -> bool:
    """Whether a call is a `.to(...)`, or loads a model, and is given a dtype, known or not."""
    if not isinstance(call.func, ir.Attribute):
        return False
    if call.func.attr in LOADS:
        return dtype_of(module, call) is not None
    if call.func.attr != "to":
        return False
    if call.keyword("dtype") is not None or len(call.positional) > 1:
        return True
    found = dtypes(module, call.positional[0]) if call.positional else []
    return bool(found) and all(each.kind == "dtype" and each.name is not None for each in found)


def dtype_of(module: Module, call: ir.Call) -> ir.Value | None:
    """What a call of `to` is given as the dtype, by its keyword or alone, or one that loads a model, also in a dict
    that it unpacks.
    """
    if ir.last_name(call.func) in LOADS:
        return call.keyword("torch_dtype") or call.keyword("dtype") or _unpacked_dtype(module, call)
    if ir.last_name(call.func) != "to":
        return None
    return call.keyword("dtype") or (call.positional[-1] if call.positional else None)


def _unpacked_dtype(module: Module, call: ir.Call) -> ir.Value | None:
    """The dtype in the dict that a call unpacks; where that may have several, the only one that can be a half one."""
    tables = [arg.value for arg in call.args if arg.star == "**"]
    if len(tables) != 1:
        return None
    given = [each for key in ("torch_dtype", "dtype") for each in put_at(module, tables[0], key)]
    if len(given) > 1:
        given = [each for each in given if any(one.name in HALF for one in dtypes(module, each))]
    return given[0] if len(given) == 1 else None


def cast_to(module: Module, call: ir.Call) -> str | None:
    """The dtype to which a call surely casts the tensor or module whose method it is, or which it loads."""
    func = call.func
    if not isinstance(func, ir.Attribute):
        return None
    if func.attr in _METHODS and not call.args:
        return _METHODS[func.attr]
    given = [call.keyword("dtype"), call.keyword("torch_dtype")] if func.attr in (*LOADS, "to") else []
    given += call.positional if func.attr in ("to", "type") else ()
    if func.attr in LOADS and not any(given):
        return _dtype_in_dict(module, call)
    for value in given:
        found = dtypes(module, value) if value is not None else []
        if len({each.name for each in found}) == 1 and found[0].kind == "dtype":
            return found[0].name
    return None


def _dtype_in_dict(module: Module, call: ir.Call) -> str | None:
    """The dtype in the one dict that a call which loads a model unpacks, if nothing else may be put there."""
    given = _unpacked_dtype(module, call)
    tables = [arg.value for arg in call.args if arg.star == "**"]
    bound = module.names.bound_once(tables[0]) if len(tables) == 1 and isinstance(tables[0], ir.Name) else None
    table = bound.value if bound is not None else None
    if given is None or table is None or given.id not in {each.id for each in ir.walk_values(table)}:
        return None
    found = dtypes(module, given)
    return found[0].name if len({(each.kind, each.name) for each in found}) == 1 and found[0].kind == "dtype" else None


def is_made_in(module: Module, key: str, loop: ir.For | ir.While) -> bool:
    """Whether each iteration of a loop creates the module kept at `key`, or makes a copy of it, and casts that."""
    known = objects(module)
    inside = {each.id for each in ir.walk_statements(loop.body)}
    for each in near_kept(module, {key}).statements:
        if each.id in inside and isinstance(each, ir.Assign) and any(known.key(one) == key for one in each.targets):
            if each.value is None or known.key(what_is_cast(each.value)) != key:
                return True
    return False


def is_made_anew(module: Module, key: str, place: ir.Call, loop: ir.For | ir.While) -> bool:
    """Whether each iteration of a loop creates the module kept at `key`, or makes what the call at `place`, which leads
    to a cast of it, is given or is a method of.
    """
    known = objects(module)
    given = [each.value for each in place.args]
    given += [place.func.base] if isinstance(place.func, ir.Attribute) else []
    keys = {key, *(each for value in given if (each := known.key(value)) is not None)}
    return any(is_made_in(module, each, loop) for each in keys)
