"""The values of the intermediate representation: expressions as trees. Read as part of `amplint.model.syntax.ir`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import dataclass, field

    from amplint.model.syntax.ir import Function
    from amplint.model.syntax.scopes import Scope
else:
    from amplint.model.syntax.fast_dataclass import dataclass, field


@dataclass(eq=False, slots=True)
class Node:
    """What all nodes have. Equality is identity."""

    id: int
    node: Any = field(repr=False)
    parent: Node | None = field(repr=False)


@dataclass(eq=False, slots=True)
class Value(Node):
    """An expression."""

    def children(self) -> Iterator[Value]:
        """The operands, in the order in which Python evaluates them."""
        return iter(())


@dataclass(eq=False, slots=True)
class Constant(Value):
    """A literal: number, string, bytes, bool, None or Ellipsis."""

    value: Any


@dataclass(eq=False, slots=True)
class Name(Value):
    """A variable; `bound` where the name is a target."""

    name: str
    scope: Scope = field(repr=False)
    bound: bool = False


@dataclass(eq=False, slots=True)
class Attribute(Value):
    """`base.attr`."""

    base: Value
    attr: str

    def children(self) -> Iterator[Value]:
        yield self.base


@dataclass(eq=False, slots=True)
class Subscript(Value):
    """`base[index]`; several indices are one `Sequence`."""

    base: Value
    index: Value

    def children(self) -> Iterator[Value]:
        yield self.base
        yield self.index


@dataclass(eq=False, slots=True)
class Slice(Value):
    """`lower:upper:step` inside a subscript."""

    parts: tuple[Value, ...]

    def children(self) -> Iterator[Value]:
        yield from self.parts


@dataclass(eq=False, slots=True)
class Arg:
    """One argument of a call: `value`, `keyword=value`, `*value` or `**value` (`star` is "", "*" or "**")."""

    value: Value
    keyword: str | None
    star: str
    node: Any = field(repr=False)


@dataclass(eq=False, slots=True)
class Call(Value):
    """`func(args)`."""

    func: Value
    args: tuple[Arg, ...]

    def children(self) -> Iterator[Value]:
        yield self.func
        for arg in self.args:
            yield arg.value

    def keyword(self, name: str) -> Value | None:
        """The value given for keyword `name`."""
        return next((arg.value for arg in self.args if arg.keyword == name), None)

    @property
    def positional(self) -> tuple[Value, ...]:
        """The positional arguments before the first `*`."""
        found = []
        for arg in self.args:
            if arg.star == "*":
                break
            if not arg.star and arg.keyword is None:
                found.append(arg.value)
        return tuple(found)

    def unpacks(self, star: str) -> bool:
        """Whether some argument is unpacked with `star` ("*" or "**")."""
        return any(arg.star == star for arg in self.args)


@dataclass(eq=False, slots=True)
class Unary(Value):
    """`op operand`: not, -, +, ~."""

    op: str
    operand: Value

    def children(self) -> Iterator[Value]:
        yield self.operand


@dataclass(eq=False, slots=True)
class Binary(Value):
    """`left op right`, arithmetic or bitwise."""

    op: str
    left: Value
    right: Value

    def children(self) -> Iterator[Value]:
        yield self.left
        yield self.right


@dataclass(eq=False, slots=True)
class Bool(Value):
    """`a and b` or `a or b`; the second operand may not be evaluated."""

    op: str
    left: Value
    right: Value

    def children(self) -> Iterator[Value]:
        yield self.left
        yield self.right


@dataclass(eq=False, slots=True)
class Compare(Value):
    """`left op right op right ...`."""

    left: Value
    ops: tuple[str, ...]
    rights: tuple[Value, ...]

    def children(self) -> Iterator[Value]:
        yield self.left
        yield from self.rights


@dataclass(eq=False, slots=True)
class Conditional(Value):
    """`then if test else other`."""

    test: Value
    then: Value
    other: Value

    def children(self) -> Iterator[Value]:
        yield self.test
        yield self.then
        yield self.other


@dataclass(eq=False, slots=True)
class Sequence(Value):
    """A tuple, list or set display; as a target, unpacking."""

    kind: str
    items: tuple[Value, ...]

    def children(self) -> Iterator[Value]:
        yield from self.items


@dataclass(eq=False, slots=True)
class Mapping(Value):
    """A dict display; an unpacked `**other` has the key None."""

    items: tuple[tuple[Value | None, Value], ...]

    def children(self) -> Iterator[Value]:
        for key, value in self.items:
            if key is not None:
                yield key
            yield value


@dataclass(eq=False, slots=True)
class Starred(Value):
    """`*value` in a display or a target."""

    value: Value

    def children(self) -> Iterator[Value]:
        yield self.value


@dataclass(eq=False, slots=True)
class Clause:
    """`for target in iter if conditions` of a comprehension."""

    target: Value
    iter: Value
    conditions: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class Comprehension(Value):
    """A list, set, dict or generator comprehension; a dict's elements are key and value."""

    kind: str
    elements: tuple[Value, ...]
    clauses: tuple[Clause, ...]

    def children(self) -> Iterator[Value]:
        for clause in self.clauses:
            yield clause.iter
            yield clause.target
            yield from clause.conditions
        yield from self.elements


@dataclass(eq=False, slots=True)
class Lambda(Value):
    """A lambda; its body is a function whose only statement returns."""

    function: Function

    def children(self) -> Iterator[Value]:
        for param in self.function.params:
            if param.default is not None:
                yield param.default


@dataclass(eq=False, slots=True)
class FString(Value):
    """An f-string (or template string): text in pieces, and the values between them."""

    parts: tuple[Value, ...]

    def children(self) -> Iterator[Value]:
        yield from self.parts


@dataclass(eq=False, slots=True)
class Suspend(Value):
    """`await value`, `yield value` or `yield from value` (`kind`)."""

    kind: str
    value: Value | None

    def children(self) -> Iterator[Value]:
        if self.value is not None:
            yield self.value


@dataclass(eq=False, slots=True)
class Walrus(Value):
    """`target := value`."""

    target: Name
    value: Value

    def children(self) -> Iterator[Value]:
        yield self.value
        yield self.target


@dataclass(eq=False, slots=True)
class Quoted(Value):
    """An annotation written as a string, with what it says."""

    text: str
    value: Value

    def children(self) -> Iterator[Value]:
        yield self.value


def walk_values(value: Value) -> Iterator[Value]:
    """`value` and everything below it, operands before what uses them. Bodies of lambdas are left out."""
    found, todo = [], [value]
    while todo:
        each = todo.pop()
        found.append(each)
        todo.extend(each.children())
    return reversed(found)


def last_name(value: Value) -> str:
    """The last word of a name or dotted name; "" for anything else."""
    return value.attr if isinstance(value, Attribute) else value.name if isinstance(value, Name) else ""
