"""Settings and what declares them: options of the command line, fields of dataclasses, of click, typer and absl.

Any of them may be set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.syntax import ir
from amplint.model.syntax.queries import fields_of
from amplint.model.syntax.scopes import owner_class
from amplint.model.syntax.text_scan import code_of

if TYPE_CHECKING:
    from amplint.model import Module

# What is called where a default is declared, and the argument that is the default.
_DEFAULTS = {
    "typer.Option": "default",
    "typer.Argument": "default",
    "dataclasses.field": "default",
    "pydantic.Field": "default",
    "attr.ib": "default",
    "attrs.field": "default",
}
_DECORATORS = {"click.option", "click.argument", "rich_click.option", "asyncclick.option"}
_FIELDS = ("dataclass", "dataclasses", "define", "frozen", "attrs", "s")
_MODELS = ("BaseModel", "BaseSettings", "NamedTuple")
_FLAGS = "absl.flags."


def given_default(module: Module, call: ir.Call) -> ir.Value | None:
    """The default that a call declares: `typer.Option(1)`, `field(default=1)`."""
    names = module.names.of(call.func)
    if len(names) != 1 or next(iter(names)) not in _DEFAULTS:
        return None
    first = (
        call.positional[0]
        if call.positional and names <= {"typer.Option", "typer.Argument", "pydantic.Field"}
        else None
    )
    found = call.keyword("default") or first
    return found if not (isinstance(found, ir.Constant) and found.value is ...) else None


def decorated_default(module: Module, function: ir.Function, name: str) -> ir.Value | None:
    """The default of a parameter that `@click.option("--name", default=...)` declares."""
    for each in function.decorators:
        if isinstance(each, ir.Call) and module.names.of(each.func) <= _DECORATORS:
            texts = [
                arg.value for arg in each.positional if isinstance(arg, ir.Constant) and isinstance(arg.value, str)
            ]
            plain = [text for text in texts if not text.startswith("-")]
            long = [text for text in texts if text.startswith("--")]
            called = next(iter(plain or long), "").partition("/")[0].lstrip("-").replace("-", "_").lower()
            if called == name and each.keyword("type") is None:
                return each.keyword("default")
    return None


def declared_flag(module: Module, value: ir.Attribute) -> ir.Value | None:
    """The default of what `FLAGS.name` is, which `flags.DEFINE_string("name", default, help)` declares."""
    if ir.last_name(value.base) != "FLAGS" or "absl" not in module.source.text:
        return None
    found = []
    for call in module.whole.near("DEFINE_").calls:
        name = module.names.only(call.func) or ""
        given = call.positional
        if name.startswith(f"{_FLAGS}DEFINE_") and len(given) > 1 and isinstance(given[0], ir.Constant):
            if given[0].value == value.attr:
                found.append(given[1])
    return found[0] if len(found) == 1 else None


def field_of(cls: ir.Class, name: str) -> tuple[bool, ir.Value | None]:
    """Whether a class of settings declares a field of a name, and its default."""
    if not has_fields(cls) or name not in fields_of(cls):
        return False, None
    for statement in cls.body.statements:
        if isinstance(statement, ir.Assign) and [ir.last_name(each) for each in statement.targets] == [name]:
            return True, statement.value
    return True, None


def has_fields(cls: ir.Class) -> bool:
    """Whether the annotated names of a class are fields that its objects are made with."""
    marked = [each.func if isinstance(each, ir.Call) else each for each in cls.decorators]
    bases = [each.value for each in cls.bases]
    return any(ir.last_name(each) in _FIELDS for each in marked) or any(ir.last_name(each) in _MODELS for each in bases)


def is_frozen(cls: ir.Class) -> bool:
    """Whether the fields of a class's objects stay what they are made with: of a tuple, and of a frozen dataclass."""
    options = (each.keyword("frozen") for each in cls.decorators if isinstance(each, ir.Call))
    frozen = any(isinstance(each, ir.Constant) and each.value is True for each in options)
    return has_fields(cls) and (frozen or any(ir.last_name(each.value) == "NamedTuple" for each in cls.bases))


def fields_given(cls: ir.Class, call: ir.Call) -> dict[str, ir.Value] | None:
    """What a construction of a class of settings gives for its fields, by their names and places; None if that can't be
    told: of unpacked arguments, and of places in a class that may inherit fields, or has a constructor of its own.
    """
    if call.unpacks("*") or call.unpacks("**"):
        return None
    given = {arg.keyword: arg.value for arg in call.args if arg.keyword is not None}
    if not call.positional:
        return given
    names = fields_of(cls)
    own = any(isinstance(each, ir.Function) and each.name == "__init__" for each in cls.body.statements)
    inherits = any(ir.last_name(each.value) not in _MODELS for each in cls.bases)
    if own or inherits or len(call.positional) > len(names):
        return None
    return {**dict(zip(names, call.positional, strict=False)), **given}


_SETTINGS = ("args", "opt", "opts", "options", "config", "cfg", "hparams", "flags", "FLAGS", "conf")


PARSES = ("parse_args", "parse_known_args")
# What sets options whose names it computes.
_SETS_ANY = re.compile(r"\bsetattr\(|\b__dict__\b|\bvars\([^)]*\)\s*(?:\.|\[)|\bset_defaults\(\s*\*\*")
# What a flag puts into its option.
_STORES = {"store_true": True, "store_false": False}

_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Option(NamedTuple):
    """One option: the call that declares it, its default, and all that it can be where that is limited.

    `changed`: the file sets it otherwise too. `unset`: what is parsed is always empty, `parse_args([])`.
    """

    call: ir.Call
    default: ir.Value | None
    choices: tuple[ir.Constant, ...]
    changed: bool
    unset: bool

    @property
    def stores(self) -> bool | None:
        """What a flag is where it is on the command line: True of a `store_true`; None of what is no flag."""
        action = self.call.keyword("action")
        return _STORES.get(action.value) if isinstance(action, ir.Constant) else None

    @property
    def is_fixed(self) -> bool:
        """Whether the command line can't make it anything but its default: a `store_true` whose default is True."""
        if self.unset:
            return True
        given = self.default.value if isinstance(self.default, ir.Constant) else None
        return self.stores is not None and given is self.stores

    @property
    def without(self) -> bool | None:
        """What a flag is that isn't on the command line, and has no default: False of a `store_true`."""
        return None if self.stores is None or self.default is not None or self.changed else not self.stores

    def values(self) -> Iterator[ir.Value]:
        """The values that the file itself names."""
        if self.default is not None:
            yield self.default
        default = self.default.value if isinstance(self.default, ir.Constant) else self
        yield from (each for each in self.choices if each.value != default)


def is_settings(value: ir.Attribute) -> bool:
    """Whether an attribute is one of an object that is called as the parsed arguments mostly are."""
    return ir.last_name(value.base) in _SETTINGS


def option_named(module: Module, name: str) -> Option | None:
    """The option of a name, where the file declares one."""
    options = module.once(Options)
    declared = options.declared.get(name, [])
    if len(declared) != 1:
        return None
    return _option(module, declared[0], options.is_changed(name), options.are_unset)


def _option(module: Module, call: ir.Call, changed: bool, unset: bool) -> Option:
    default, choices, made = call.keyword("default"), call.keyword("choices"), call.keyword("type")
    is_text = made is None or module.names.of(made) == {"builtins.str"}
    if isinstance(default, ir.Constant) and isinstance(default.value, str) and not is_text:
        default = _converted(module, default, made)
    is_limited = isinstance(choices, ir.Sequence) and call.keyword("action") is None and not unset
    items = choices.items if isinstance(choices, ir.Sequence) and is_limited else ()
    known = tuple(each for each in items if isinstance(each, ir.Constant))
    return Option(call, default, known if len(known) == len(items) else (), changed, unset)


def _converted(module: Module, default: ir.Constant, made: ir.Value | None) -> ir.Constant | None:
    """A default that is a text, after `type` has made a bool of it; None where it makes something else of it.

    argparse gives such a default to `type` as it gives an argument; a function of the program reads the word.
    """
    names = module.names.of(made) if made is not None else frozenset()
    truth = bool(default.value) if names == {"builtins.bool"} else _TRUTHS.get(str(default.value).lower())
    if truth is None or any(each.startswith("builtins.") for each in names - {"builtins.bool"}):
        return None
    return ir.Constant(default.id, default.node, default.parent, truth)


class Options:
    """What the file's command line puts into `args`: the calls that declare an attribute, and what is set otherwise."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.declared: dict[str, list[ir.Call]] = {}
        self._changed: dict[str, bool] = {}
        for call in module.whole.called("add_argument"):
            if (attr := _attribute(call)) is not None:
                self.declared.setdefault(attr, []).append(call)
        for call in module.whole.called("setattr", "set_defaults", "Namespace"):
            self._changed |= {str(arg.value.value): True for arg in call.args if isinstance(arg.value, ir.Constant)}
            self._changed |= {arg.keyword: True for arg in call.args if arg.keyword is not None}

    @cached_property
    def are_unset(self) -> bool:
        """Whether nothing of a command line can arrive: all that is parsed is empty, and nothing is set by its name."""
        parsers = [each for each in self._module.whole.called(*PARSES) if isinstance(each.func, ir.Attribute)]
        return (
            bool(parsers)
            and all(map(_parses_nothing, parsers))
            and not any(_SETS_ANY.search(code_of(text)) for text in self._module.texts)
        )

    def is_changed(self, attr: str) -> bool:
        """Whether the file sets an attribute otherwise too."""
        if attr not in self._changed:
            near = self._module.whole.near(attr).statements if self.declared else ()
            self._changed[attr] = any(
                _sets(target, attr)
                for each in near
                if isinstance(each, (ir.Assign, ir.AugAssign))
                for target in (each.targets if isinstance(each, ir.Assign) else (each.target,))
            )
        return self._changed[attr]


def _parses_nothing(call: ir.Call) -> bool:
    """Whether a parser gets an empty list, or an empty text, in place of the command line."""
    given = call.positional[0] if call.positional else call.keyword("args")
    if call.unpacks() or len(call.args) != 1:
        return False  # with a `namespace`, what that has counts
    if isinstance(given, ir.Call):  # `"".split()`
        given = ir.called_on(given, "split")
    return (isinstance(given, ir.Sequence) and not given.items) or (
        isinstance(given, ir.Constant) and given.value == ""
    )


def _sets(target: ir.Value, attr: str) -> bool:
    if isinstance(target, ir.Attribute):
        return target.attr == attr and owner_class(target) is None
    index = target.index if isinstance(target, ir.Subscript) else None
    return isinstance(index, ir.Constant) and str(index.value) == attr  # `vars(args)["amp"] = ...`


def _attribute(call: ir.Call) -> str | None:
    """The attribute that an option is kept in; None where its names aren't in sight."""
    flags = [each.value for each in call.positional if isinstance(each, ir.Constant) and isinstance(each.value, str)]
    if not flags or len(flags) < len(call.positional) or call.unpacks("*"):
        return None
    dest = call.keyword("dest")
    if isinstance(dest, ir.Constant):
        return str(dest.value)
    return next((each for each in flags if each.startswith("--")), flags[0]).lstrip("-").replace("-", "_")
