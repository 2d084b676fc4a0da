"""What settings are declared with: dataclasses' fields, options of click, typer and absl. Any of them may be set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.model.syntax import ir

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
    marked = [each.func if isinstance(each, ir.Call) else each for each in cls.decorators]
    bases = [each.value for each in cls.bases]
    if not any(ir.last_name(each) in _FIELDS for each in marked) and not any(
        ir.last_name(each) in _MODELS for each in bases
    ):
        return False, None
    for statement in cls.body.statements:
        if isinstance(statement, ir.Assign) and statement.annotation is not None:
            if [ir.last_name(each) for each in statement.targets] == [name]:
                return True, statement.value
    return False, None
