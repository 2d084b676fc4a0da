"""Options of the command line: what `args.device` is by the `add_argument` that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model import ir
from amplint.model.scopes import owner_class

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
    return _option(module, declared[0], value.attr in options.changed) if len(declared) == 1 else None


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
        self.declared: dict[str, list[ir.Call]] = {}
        self.changed: set[str] = set()
        for call in module.whole.calls:
            name = ir.last_name(call.func)
            if name == "add_argument" and (attr := _attribute(call)) is not None:
                self.declared.setdefault(attr, []).append(call)
            elif name in ("setattr", "set_defaults", "Namespace"):
                self.changed |= {str(arg.value.value) for arg in call.args if isinstance(arg.value, ir.Constant)}
                self.changed |= {arg.keyword for arg in call.args if arg.keyword is not None}
        for statement in module.whole.statements if self.declared else ():
            if isinstance(statement, (ir.Assign, ir.AugAssign)):
                self._read(statement)

    def _read(self, statement: ir.Assign | ir.AugAssign) -> None:
        for target in statement.targets if isinstance(statement, ir.Assign) else (statement.target,):
            if isinstance(target, ir.Attribute) and owner_class(target) is None:
                self.changed.add(target.attr)
            elif isinstance(target, ir.Subscript) and isinstance(target.index, ir.Constant):
                self.changed.add(str(target.index.value))  # `vars(args)["amp"] = ...`


def _attribute(call: ir.Call) -> str | None:
    """The attribute that an option is kept in; None where its names aren't in sight."""
    flags = [each.value for each in call.positional if isinstance(each, ir.Constant) and isinstance(each.value, str)]
    if not flags or len(flags) < len(call.positional) or call.unpacks("*"):
        return None
    dest = call.keyword("dest")
    if isinstance(dest, ir.Constant):
        return str(dest.value)
    return next((each for each in flags if each.startswith("--")), flags[0]).lstrip("-").replace("-", "_")
