"""The intermediate representation: what Python code says, without how it is written.

Statements keep their structure (branches, loops, with, try), expressions are trees of `Value`s. Every node has an `id`
that is unique in its module and grows in the order of the text, a `parent`, and an opaque `node`: a handle with which
`amplint.model.syntax.positions` finds the place in the text. A scope has the bindings of its names. Nothing here knows
libcst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import dataclass, field
    from typing import TypeGuard
else:
    from amplint.model.syntax.fast_dataclass import dataclass, field

__all__ = [
    "Alias", "Arg", "Assert", "Assign", "Assigned", "Attribute", "AugAssign", "Binary", "Binding", "Block", "Bool",
    "Call", "Case", "Class", "Clause", "Compare", "Comprehension", "Conditional", "Constant", "Declare", "Defined",
    "Delete", "Expr", "FString", "FoldedClass", "FoldedFunction", "For", "Function", "Handler", "If", "Import",
    "Imported", "Item", "Jump", "Lambda", "Mapping", "Match", "Name", "Node", "Other", "Param", "Program", "Quoted",
    "Raise", "Return", "Scope", "Sequence", "Slice", "Starred", "Statement", "Subscript", "Suspend", "Try", "Unary",
    "Value", "Walrus", "While", "With", "called_on", "function_of", "is_variable", "last_name", "node_of",
    "parameter_of", "statement_of", "values_below", "walk_statements", "walk_values",
]  # fmt: skip


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

    @property
    def keywords(self) -> dict[str, Value]:
        """The arguments that are given by keyword."""
        return {arg.keyword: arg.value for arg in self.args if arg.keyword is not None}

    def unpacks(self, star: str | None = None) -> bool:
        """Whether some argument is unpacked, with `star` ("*" or "**") if that is given."""
        return any(arg.star == star if star is not None else arg.star for arg in self.args)


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

    def unpacks(self) -> bool:
        """Whether some item is unpacked."""
        return any(isinstance(each, Starred) for each in self.items)


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


def is_variable(value: Value | None, name: str) -> TypeGuard[Name]:
    """Whether a value reads or binds a variable of this name."""
    return isinstance(value, Name) and value.name == name


def dotted(value: Value) -> str:
    """The text of a name or dotted name, `a.b.c`; "" for anything else."""
    if isinstance(value, Attribute):
        base = dotted(value.base)
        return f"{base}.{value.attr}" if base else ""
    return value.name if isinstance(value, Name) else ""


def root(value: Value) -> Value:
    """What a dotted name begins with, `a` of `a.b.c`; the value itself where it is no attribute."""
    while isinstance(value, Attribute):
        value = value.base
    return value


def called_on(value: Value | None, *methods: str) -> Value | None:
    """What a method of one of some names is called on; None for a value that is not such a call."""
    func = value.func if isinstance(value, Call) else None
    return func.base if isinstance(func, Attribute) and func.attr in methods else None


def only_argument(call: Call) -> Value | None:
    """What a call with one argument is given, by position or by keyword; None if it is unpacked."""
    return call.args[0].value if len(call.args) == 1 and not call.args[0].star else None


def before_calls(value: Value | None, *methods: str) -> Value | None:
    """A value before methods of some names are called on it: `net` of `net.to(device).eval()` for `to` and `eval`."""
    while (base := called_on(value, *methods)) is not None:
        value = base
    return value


@dataclass(eq=False, slots=True)
class Block:
    """A suite. `owner` is the node whose suite it is; `role` says which of its suites."""

    owner: Node
    role: str
    statements: list[Statement] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Statement(Node):
    """A statement; `block` is the suite it stands in."""

    block: Block = field(repr=False)

    def values(self) -> Iterator[Value]:
        """The expressions of the statement itself, not of its suites, in the order of evaluation."""
        return iter(())

    def blocks(self) -> Iterator[Block]:
        """The suites of a compound statement, in the order of the text."""
        return iter(())


@dataclass(eq=False, slots=True)
class Expr(Statement):
    """An expression on its own."""

    value: Value

    def values(self) -> Iterator[Value]:
        yield self.value


@dataclass(eq=False, slots=True)
class Assign(Statement):
    """`targets = value`; an annotated assignment has an `annotation` and may lack the value."""

    targets: tuple[Value, ...]
    value: Value | None
    annotation: Value | None = None

    def values(self) -> Iterator[Value]:
        if self.value is not None:
            yield self.value
        if self.annotation is not None:
            yield self.annotation
        yield from self.targets


@dataclass(eq=False, slots=True)
class AugAssign(Statement):
    """`target op= value`."""

    target: Value
    op: str
    value: Value

    def values(self) -> Iterator[Value]:
        yield self.target
        yield self.value


@dataclass(eq=False, slots=True)
class Delete(Statement):
    """`del targets`."""

    targets: tuple[Value, ...]

    def values(self) -> Iterator[Value]:
        yield from self.targets


@dataclass(eq=False, slots=True)
class Return(Statement):
    """`return value`."""

    value: Value | None

    def values(self) -> Iterator[Value]:
        if self.value is not None:
            yield self.value


@dataclass(eq=False, slots=True)
class Raise(Statement):
    """`raise exception from cause`."""

    parts: tuple[Value, ...]

    def values(self) -> Iterator[Value]:
        yield from self.parts


@dataclass(eq=False, slots=True)
class Assert(Statement):
    """`assert test, message`."""

    test: Value
    message: Value | None

    def values(self) -> Iterator[Value]:
        yield self.test
        if self.message is not None:
            yield self.message


@dataclass(eq=False, slots=True)
class Jump(Statement):
    """`break`, `continue` or `pass` (`kind`)."""

    kind: str


@dataclass(eq=False, slots=True)
class Alias:
    """One name of an import: the dotted `name`, and what it is bound as."""

    id: int
    name: str
    asname: str | None
    node: Any = field(repr=False)

    @property
    def bound(self) -> str:
        """The local name that the alias binds."""
        return self.asname or self.name.partition(".")[0]


@dataclass(eq=False, slots=True)
class Import(Statement):
    """`import aliases`, or `from module import aliases` (`module` has its leading dots; one alias `*` for a star)."""

    module: str | None
    aliases: tuple[Alias, ...]


@dataclass(eq=False, slots=True)
class Declare(Statement):
    """`global names` or `nonlocal names` (`kind`)."""

    kind: str
    names: tuple[str, ...]


@dataclass(eq=False, slots=True)
class If(Statement):
    """`if test: then else: orelse`; an elif is an `If` alone in `orelse`, with `elif_` set."""

    test: Value = None  # type: ignore[assignment]
    then: Block = None  # type: ignore[assignment]
    orelse: Block | None = None
    elif_: bool = False

    def values(self) -> Iterator[Value]:
        yield self.test

    def blocks(self) -> Iterator[Block]:
        yield self.then
        if self.orelse is not None:
            yield self.orelse


@dataclass(eq=False, slots=True)
class For(Statement):
    """`for target in iter: body else: orelse`."""

    target: Value = None  # type: ignore[assignment]
    iter: Value = None  # type: ignore[assignment]
    body: Block = None  # type: ignore[assignment]
    orelse: Block | None = None

    def values(self) -> Iterator[Value]:
        yield self.iter
        yield self.target

    def blocks(self) -> Iterator[Block]:
        yield self.body
        if self.orelse is not None:
            yield self.orelse


@dataclass(eq=False, slots=True)
class While(Statement):
    """`while test: body else: orelse`."""

    test: Value = None  # type: ignore[assignment]
    body: Block = None  # type: ignore[assignment]
    orelse: Block | None = None

    def values(self) -> Iterator[Value]:
        yield self.test

    def blocks(self) -> Iterator[Block]:
        yield self.body
        if self.orelse is not None:
            yield self.orelse


@dataclass(eq=False, slots=True)
class Item:
    """`context as target` of a with statement."""

    context: Value
    target: Value | None
    node: Any = field(repr=False)


@dataclass(eq=False, slots=True)
class With(Statement):
    """`with items: body`."""

    items: tuple[Item, ...] = ()
    body: Block = None  # type: ignore[assignment]
    is_async: bool = False

    def values(self) -> Iterator[Value]:
        for item in self.items:
            yield item.context
            if item.target is not None:
                yield item.target

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(eq=False, slots=True)
class Handler:
    """`except type as name: body`."""

    type: Value | None
    name: str | None
    body: Block


@dataclass(eq=False, slots=True)
class Try(Statement):
    """`try: body except ...: ... else: orelse finally: final`."""

    body: Block = None  # type: ignore[assignment]
    handlers: tuple[Handler, ...] = ()
    orelse: Block | None = None
    final: Block | None = None

    def values(self) -> Iterator[Value]:
        for handler in self.handlers:
            if handler.type is not None:
                yield handler.type

    def blocks(self) -> Iterator[Block]:
        yield self.body
        for handler in self.handlers:
            yield handler.body
        if self.orelse is not None:
            yield self.orelse
        if self.final is not None:
            yield self.final


@dataclass(eq=False, slots=True)
class Case:
    """`case pattern if guard: body`: the values that the pattern compares with and the names it binds.

    `equals` is the value where the pattern is nothing but one.
    """

    pattern: tuple[Value, ...]
    binds: tuple[str, ...]
    irrefutable: bool
    equals: Value | None
    guard: Value | None
    body: Block


@dataclass(eq=False, slots=True)
class Match(Statement):
    """`match subject: cases`."""

    subject: Value = None  # type: ignore[assignment]
    cases: tuple[Case, ...] = ()

    def values(self) -> Iterator[Value]:
        yield self.subject
        for case in self.cases:
            yield from case.pattern
            if case.guard is not None:
                yield case.guard

    def blocks(self) -> Iterator[Block]:
        for case in self.cases:
            yield case.body


@dataclass(eq=False, slots=True)
class Param:
    """A parameter; `kind` is "positional", "keyword" (keyword-only), "*" or "**"."""

    name: str
    kind: str
    default: Value | None
    annotation: Value | None


@dataclass(eq=False, slots=True)
class Function(Statement):
    """A function or lambda. `cls` is the class whose method it is; `outer` the function it is nested in."""

    name: str = ""
    params: tuple[Param, ...] = ()
    decorators: tuple[Value, ...] = ()
    returns: Value | None = None
    body: Block = None  # type: ignore[assignment]
    scope: Scope = field(default=None, repr=False)  # type: ignore[assignment]
    cls: Class | None = None
    outer: Function | None = None
    is_async: bool = False
    is_generator: bool = False

    def param(self, name: str) -> Param | None:
        """The parameter of that name."""
        return next((each for each in self.params if each.name == name), None)

    def values(self) -> Iterator[Value]:
        yield from self.decorators
        for param in self.params:
            if param.default is not None:
                yield param.default
            if param.annotation is not None:
                yield param.annotation
        if self.returns is not None:
            yield self.returns

    def blocks(self) -> Iterator[Block]:
        yield self.body


@dataclass(eq=False, slots=True)
class Class(Statement):
    """A class; `attributes` are the values that methods which were lowered store in an attribute of its instances.

    Each with the id of the target; None is not a plain assignment.
    """

    name: str = ""
    bases: tuple[Arg, ...] = ()
    decorators: tuple[Value, ...] = ()
    body: Block = None  # type: ignore[assignment]
    scope: Scope = field(default=None, repr=False)  # type: ignore[assignment]
    attributes: dict[str, list[tuple[int, Value | None]]] = field(default_factory=dict, repr=False)

    def values(self) -> Iterator[Value]:
        yield from self.decorators
        for base in self.bases:
            yield base.value

    def stored(self, attribute: str) -> list[Value | None]:
        """What the methods store in an attribute of instances, in the order of the text."""
        self._unfold(attribute)
        return [value for _, value in self.attributes.get(attribute, ())]

    def stores(self) -> Iterator[tuple[str, list[Value | None]]]:
        """The attributes of instances that the methods store to, and what."""
        self._unfold("")
        for attribute, stored in self.attributes.items():
            yield attribute, [value for _, value in stored]

    def _unfold(self, word: str) -> None:
        for statement in self.body.statements:
            if isinstance(statement, FoldedFunction) and word in statement.node.text:
                statement.node.unfold()

    def blocks(self) -> Iterator[Block]:
        yield self.body


def _on_demand(name: str) -> property:
    def get(self: Function | Class) -> Any:
        self.node.unfold()  # makes a Function or Class of it
        return getattr(self, name)

    return property(get)


class FoldedFunction(Function):
    """A function of which only the name is known until something else is asked for
    (`amplint.model.syntax.lazy_lowering`)."""

    __slots__ = ()
    params = _on_demand("params")
    decorators = _on_demand("decorators")
    returns = _on_demand("returns")
    body = _on_demand("body")
    scope = _on_demand("scope")
    is_generator = _on_demand("is_generator")


class FoldedClass(Class):
    """A class of which only the name is known until something else is asked for."""

    __slots__ = ()
    bases = _on_demand("bases")
    decorators = _on_demand("decorators")
    body = _on_demand("body")
    scope = _on_demand("scope")
    attributes = _on_demand("attributes")


@dataclass(eq=False, slots=True)
class Program(Node):
    """The module itself."""

    body: Block = None  # type: ignore[assignment]
    scope: Scope = field(default=None, repr=False)  # type: ignore[assignment]


def walk_statements(block: Block, into: bool = True) -> Iterator[Statement]:
    """Every statement below `block`, in the order of the text; `into`: functions' and classes' bodies too."""
    for statement in block.statements:
        yield statement
        if into or not isinstance(statement, (Function, Class)):
            for inner in statement.blocks():
                yield from walk_statements(inner, into)


def pairs(target: Value, value: Value) -> list[tuple[Value, Value]]:
    """An assignment's target and value; one by one where both are written as sequences: `a, b = c, d`."""
    if not isinstance(target, Sequence) or not isinstance(value, Sequence) or len(target.items) != len(value.items):
        return [(target, value)]
    if target.unpacks() or value.unpacks():
        return [(target, value)]
    return [pair for one, other in zip(target.items, value.items, strict=True) for pair in pairs(one, other)]


def values_below(block: Block, into: bool = False) -> Iterator[Value]:
    """Every value below `block`; `into`: in nested functions and classes too."""
    for statement in walk_statements(block, into):
        for root in statement.values():
            yield from walk_values(root)


def calls_below(block: Block) -> Iterator[Call]:
    """Every call below `block`, nested functions and classes left out."""
    return (each for each in values_below(block) if isinstance(each, Call))


def is_none(value: Value | None) -> bool:
    """Whether a value is the literal None."""
    return isinstance(value, Constant) and value.value is None


def is_target(value: Value) -> bool:
    """Whether a value is what an assignment assigns to, as a whole."""
    return isinstance(value.parent, Assign) and value in value.parent.targets


def is_docstring(statement: Statement) -> bool:
    """Whether a statement is a constant alone, as a docstring or `...` is."""
    return isinstance(statement, Expr) and isinstance(statement.value, Constant)


def statement_of(node: Node) -> Statement:
    """The statement that `node` belongs to (itself, if it is one).

    Raises:
        LookupError: the node is the module.
    """
    while not isinstance(node, Statement):
        if node.parent is None:
            raise LookupError("the module is in no statement")
        node = node.parent
    return node


def function_of(node: Node) -> Function | None:
    """The innermost function around `node`, itself excluded; None at module or class level."""
    up = node.parent
    while up is not None and not isinstance(up, Function):
        up = up.parent
    return up


@dataclass(eq=False, slots=True)
class Imported:
    """Bound by an import to the qualified name.

    Of another file of the project: `what` is the function, class or constant that it is, `members` are those of a
    module that are asked for (`amplint.model.project.link`). `passed_on`: the qualified names that the other file
    itself imports under that name; `passes_on`: those that a module imports under each of some names. `by_star`: a
    star import binds it, so its alias is the star.
    """

    name: str
    statement: Import
    alias: Alias
    what: Function | Class | Assigned | None = None
    members: dict[str, Function | Class | Assigned] = field(default_factory=dict)
    passed_on: frozenset[str] = frozenset()
    passes_on: dict[str, frozenset[str]] = field(default_factory=dict)
    by_star: bool = False


@dataclass(eq=False, slots=True)
class Assigned:
    """Bound by `name = value`."""

    value: Value
    target: Name


@dataclass(eq=False, slots=True)
class Defined:
    """Bound by def or class."""

    what: Function | Class


@dataclass(eq=False, slots=True)
class Other:
    """Bound in a way that isn't followed: a parameter, a loop's target, unpacking, del ... `why` says which."""

    why: str
    node: Node | None


Binding: TypeAlias = Imported | Assigned | Defined | Other


def loop_of_target(target: Node | None) -> For | None:
    """The loop of whose target a name is a part: `for name, (a, b) in items`."""
    while isinstance(target, (Name, Sequence, Starred)) and not isinstance(target.parent, For):
        target = target.parent
    loop = target.parent if target is not None else None
    return loop if isinstance(loop, For) and loop.target is target else None


def parameter_of(binding: Binding | None) -> Function | None:
    """The function whose parameter a binding is."""
    return binding.node if isinstance(binding, Other) and isinstance(binding.node, Function) else None


def node_of(binding: Binding) -> Node | None:
    """Where a binding stands; a parameter's is its function."""
    if isinstance(binding, Assigned):
        return binding.target
    if isinstance(binding, Imported):
        return binding.statement
    return binding.what if isinstance(binding, Defined) else binding.node


@dataclass(eq=False, slots=True)
class Scope:
    """A scope of Python: module, class, function (lambdas too) or comprehension."""

    kind: str
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)  # name -> "global" or "nonlocal"
    stars: list[Import] = field(default_factory=list)

    @property
    def module(self) -> Scope:
        """The module's scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bind(self, name: str, binding: Binding) -> None:
        """Record that `name` is bound here, or where a global or nonlocal statement puts it."""
        home = self
        if name in self.outside:
            home = self._outer(name)
        home.bindings.setdefault(name, []).append(binding)

    def _outer(self, name: str) -> Scope:
        if self.outside[name] == "global":
            return self.module
        functions = [scope for scope in self._above() if scope.kind == "function"]
        # The function may bind it further down than the one nested in it.
        return next((scope for scope in functions if name in scope.bindings), (*functions, self.module)[0])

    def _above(self) -> Iterator[Scope]:
        scope = self.parent
        while scope is not None:
            yield scope
            scope = scope.parent

    def home(self, name: str) -> Scope | None:
        """The scope that a read of `name` from here finds it in; None: in none (a builtin, or unbound)."""
        scope: Scope | None = self._outer(name) if name in self.outside else self
        first = True
        while scope is not None:
            if name in scope.bindings and (first or scope.kind != "class"):
                return scope
            # A comprehension in a class body sees the class only through its first iterable; being lenient is harmless.
            first = scope.kind == "comprehension"
            scope = scope.parent
        return None
