"""Options of the command line: what `args.device` is by the `add_argument` that declares it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.model import ir

if TYPE_CHECKING:
    from amplint.model import Module

_SETTINGS = ("args", "opt", "opts", "options", "config", "cfg", "hparams", "flags", "FLAGS", "conf")


class Option(NamedTuple):
    """One option: its default, and all that it can be where that is limited. `is_text`: it is a str."""

    default: ir.Constant | None
    choices: tuple[ir.Constant, ...]
    is_text: bool

    def values(self) -> Iterator[ir.Constant]:
        """The values that the file itself names."""
        if self.default is not None:
            yield self.default
        yield from self.choices


def option(module: Module, value: ir.Attribute) -> Option | None:
    """The option that an attribute of the parsed arguments is, where the file declares one of that name."""
    if ir.last_name(value.base) not in _SETTINGS:
        return None
    return module.once(_options).get(value.attr)


def _options(module: Module) -> dict[str, Option]:
    found: dict[str, Option | None] = {}
    for call in module.whole.calls:
        if ir.last_name(call.func) == "add_argument" and (name := _name(call)):
            found[name] = None if name in found else _declared(module, call)
    return {name: each for name, each in found.items() if each is not None}


def _name(call: ir.Call) -> str:
    """The attribute that an option is kept in."""
    dest = call.keyword("dest")
    if isinstance(dest, ir.Constant):
        return str(dest.value)
    flags = [each.value for each in call.positional if isinstance(each, ir.Constant) and isinstance(each.value, str)]
    long = next((each for each in flags if each.startswith("--")), flags[0] if flags else "")
    return long.lstrip("-").replace("-", "_")


def _declared(module: Module, call: ir.Call) -> Option:
    default, choices, made = call.keyword("default"), call.keyword("choices"), call.keyword("type")
    items = choices.items if isinstance(choices, ir.Sequence) else ()
    known = tuple(each for each in items if isinstance(each, ir.Constant))
    is_text = call.keyword("action") is None and (made is None or module.names.of(made) == {"builtins.str"})
    return Option(
        default if isinstance(default, ir.Constant) else None, known if len(known) == len(items) else (), is_text
    )
