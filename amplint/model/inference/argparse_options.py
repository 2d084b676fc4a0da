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
    """One option: its default, and all that it can be where that is limited.

    `is_text`: it is a str. `changed`: the file sets it otherwise too.
    """

    default: ir.Constant | None
    choices: tuple[ir.Constant, ...]
    is_text: bool
    changed: bool

    def values(self) -> Iterator[ir.Constant]:
        """The values that the file itself names."""
        if self.default is not None:
            yield self.default
        yield from self.choices


def option(module: Module, value: ir.Attribute) -> Option | None:
    """The option that an attribute of the parsed arguments is, where the file declares one of that name."""
    if ir.last_name(value.base) not in _SETTINGS:
        return None
    options = module.once(Options)
    declared = options.declared.get(value.attr, [])
    return _option(module, declared[0], options.is_changed(value.attr)) if len(declared) == 1 else None


def _option(module: Module, call: ir.Call, changed: bool) -> Option:
    default, choices, made = call.keyword("default"), call.keyword("choices"), call.keyword("type")
    items = choices.items if isinstance(choices, ir.Sequence) else ()
    known = tuple(each for each in items if isinstance(each, ir.Constant))
    return Option(
        default if isinstance(default, ir.Constant) else None,
        known if len(known) == len(items) else (),
        call.keyword("action") is None and (made is None or module.names.of(made) == {"builtins.str"}),
        changed,
    )


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
