"""Options of the command line: what `args.device` is by the `add_argument` that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model.syntax import ir
from amplint.model.syntax.scopes import owner_class

if TYPE_CHECKING:
    from amplint.model import Module

_SETTINGS = ("args", "opt", "opts", "options", "config", "cfg", "hparams", "flags", "FLAGS", "conf")


class Option(NamedTuple):
    """One option: the call that declares it, its default, and all that it can be where that is limited.

    `changed`: the file sets it otherwise too.
    """

    call: ir.Call
    default: ir.Value | None
    choices: tuple[ir.Constant, ...]
    changed: bool

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
    return _option(module, declared[0], options.is_changed(name)) if len(declared) == 1 else None


def _option(module: Module, call: ir.Call, changed: bool) -> Option:
    default, choices, made = call.keyword("default"), call.keyword("choices"), call.keyword("type")
    is_text = made is None or module.names.of(made) == {"builtins.str"}
    if isinstance(default, ir.Constant) and isinstance(default.value, str) and not is_text:
        default = None  # it goes through `type`
    items = choices.items if isinstance(choices, ir.Sequence) and call.keyword("action") is None else ()
    known = tuple(each for each in items if isinstance(each, ir.Constant))
    return Option(call, default, known if len(known) == len(items) else (), changed)


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
