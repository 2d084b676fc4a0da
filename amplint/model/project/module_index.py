"""What the files of a project define and mention, by their syntax alone: which of it can have to do with AMP.

Python's own parser reads a file ten times as fast as libcst, and most of what is imported says nothing about AMP.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property, lru_cache
from math import inf
from typing import NamedTuple

from amplint.base.paths import contents, question, remembered, version
from amplint.base.tree import of_project
from amplint.model.project.python_files import root_of
from amplint.model.project.resolve_import import module_file
from amplint.model.syntax.scopes import STAR_EXPORTS, UNKNOWN, canonical
from amplint.model.syntax.text_scan import MAY_BE_HANDED, Gap, handed_to, has, has_global, last_word, mentions
from amplint.sources.load import load
from amplint.sources.parsing import parsed, python_tree, too_deep
from amplint.sources.source import Source, SourceError, has_lone_backslash, lines_of

_LARGEST = 1 << 19  # bytes of a file that is read
_DEPTH = 5  # re-exports that are followed
# A function with none of these words does nothing to scaler, gradients or regions.
WORDS = re.compile(
    r"autocast|[sS]caler\b|backward\(|clip_grad|unscale|\.grad\b|zero_grad|optim\w*\.(step|state_dict)\(|BCELoss"
    r"|binary_cross_entropy\b|register_hook\(|accumulate_grad_hook\("
    r"|(conv|avg_pool)[123]d\(\s*\w+\s*(\*|\.pow\()"  # a mean of products
    r"|masked_fill_?\([^\n]*[-(,\s=]\d+(\.\d*)?e\+?\d"  # a number that float16 may not hold
    r"|\b1e-(?:[89]|1\d)\b"  # or that is 0 in float16
    r"|class \w+\((\w+\.)?(Seq2Seq)?Trainer\):"  # trains as a framework does
    r"|\.half\(\)|\.bfloat16\(\)|\bconvert_to_(fp|bf)16\("  # casts a model, or parameters
    r"|\btorch_dtype=|\bdtype=(torch|th)\.b?float16\b|\.to\((torch|th)\.b?float16\)"
)
# Each of the alternatives has one of these in it: to look for them first is quicker.
_ROOTS = ("autocast", "caler", "backward(", "clip_grad", "unscale", "grad", "optim", "BCELoss", "binary_cross_entropy",
          "_hook(", "conv1d(", "conv2d(", "conv3d(", "avg_pool", "masked_fill", "1e-", "Trainer", ".half()", "float16",
          "fp16(", "bf16(", "torch_dtype")  # fmt: skip
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Behind a name and a point: what may be an attribute that is set, alone or as one of several.
_SET = re.compile(r"\w+[ \t]*(?:=(?!=)|,)")
# What reads a part of a model's output.
_OF_OUTPUT = re.compile(r"""\.logits\b|["']logits["']""")
# What returns a variable.
_RETURNED = re.compile(r"\breturn[ \t]+([^\W\d]\w*)[ \t]*(?:#[^\r\n]*)?$", re.MULTILINE)
# What follows the word `import`: names in parentheses, with comments, or up to the end of the line. In a comment or a
# docstring that may hold the next import, so that it is only looked at.
_IMPORTED = re.compile(
    rb"import(?<!\wimport)(?!\w)"
    rb"(?=((?:[ \t\f]|\\\r?\n?)*(?:\((?:[^()#]|#[^\r\n]*)*|(?:[^\\\r\n]|\\\r?\n?)*)))"
)
_STAR = re.compile(rb"import[\s\\(]*\*")
_NAMES = re.compile(r"\w+")
_WORDS = re.compile(rb"[\w\x80-\xff]+")
_PARTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
# What a constant may be made of, and by what.
_COMPOSED = (ast.Dict, ast.List, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript)
_PLAIN_MAKERS = frozenset(("bool", "dict", "float", "int", "os", "str", "torch"))
# What is imported from these makes plain values, too: regions, and what stands for them where there is none.
_PLAIN_MODULES = ("torch", "contextlib", "functools")
# Of what fields mostly are, no class of a project.
_TYPES = {"Any", "Dict", "List", "Optional", "Path", "Tuple", "bool", "dict", "float", "int", "list", "str", "tuple"}
# The expressions in which names are assigned to without a walrus.
_TARGETS = (ast.Name, ast.Tuple, ast.List, ast.Starred)


class Unit:
    """A function or class at the top of a file: its lines, from 1, and the names of the file that it binds."""

    def __init__(self, node: Definition, lines: list[str]) -> None:
        self.name = node.name
        self.first, self.last = _rows(node)
        self.is_class = isinstance(node, ast.ClassDef)
        self._text = "\n".join(lines[self.first - 1 : self.last])
        globals_ = statements(node) if has_global(self._text) else ()
        self.binds = {name for each in globals_ if isinstance(each, ast.Global) for name in each.names}

    @cached_property
    def says(self) -> bool:
        """Whether one of the words stands in it."""
        return has(self._text, WORDS, _ROOTS)

    @cached_property
    def takes_apart(self) -> bool:
        """Whether it is a function that reads a part of a model's output."""
        return not self.is_class and "logits" in self._text and bool(_OF_OUTPUT.search(self._text))

    @cached_property
    def returns(self) -> frozenset[str]:
        """The variables that it returns, if it is a function."""
        return frozenset() if self.is_class else frozenset(_RETURNED.findall(self._text))

    @cached_property
    def mentions(self) -> frozenset[tuple[str, str]]:
        """The names and attributes in it: (name, attribute or "")."""
        return mentions(self._text)

    @cached_property
    def hands(self) -> frozenset[tuple[str, str]]:
        """Those of them that are called with an optimizer, a scaler or a loss."""
        return frozenset(handed_to(self.parsed()[0])) if MAY_BE_HANDED.search(self._text) else frozenset()

    @cached_property
    def is_settings(self) -> bool:
        """Whether it is a class whose body sets attributes to plain values."""
        body = self.parsed()[0].body if self.is_class else ()  # type: ignore[attr-defined]
        return any(
            isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None and _is_plain(each.value)
            for each in body
        )

    @cached_property
    def declares(self) -> frozenset[str]:
        """The names in the annotations of the fields of a class."""
        body = self.parsed()[0].body if self.is_class and ":" in self._text else ()  # type: ignore[attr-defined]
        notes = (each.annotation for each in body if isinstance(each, ast.AnnAssign))
        found = (part for note in notes for part in ast.walk(note))
        texts = (each.id if isinstance(each, ast.Name) else getattr(each, "value", None) for each in found)
        return frozenset(each for each in texts if isinstance(each, str))

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """What it imports itself: the names, and what each means."""
        inside = statements(self.parsed()[0]) if "import" in self._text else ()
        found = (pair for each in inside if isinstance(each, (ast.Import, ast.ImportFrom)) for pair in bound_by(each))
        return {name: meaning for name, meaning in found if meaning is not None}

    def parsed(self) -> list[ast.stmt]:
        """What Python makes of it."""
        return _parsed(self._text, self.first)


class Rest(NamedTuple):
    """Lines at the top of a file that are no unit: whether some of it imports or sets variables alone, and what binds
    the names of the file in what doesn't.
    """

    first: int
    last: int
    is_part: bool
    binds: frozenset[str]


class Bound(NamedTuple):
    """Something that binds a name of a file: the line of the statement (0: a part of one), whether it is one of the
    file's units, and what it means if it is an import.
    """

    row: int
    is_unit: bool
    meaning: tuple[str, str] | None


class Constant(NamedTuple):
    """A variable at the top of a file that is set to a plain value: the line, and the names that the value mentions."""

    row: int
    mentions: frozenset[str]


class Outline:
    """One file of a project. Its tree is not kept: it takes fifty times the memory of the text."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.imports: dict[str, tuple[str, str]] = {}  # bound name -> module, and the name in it ("": the module)
        self.stars: list[tuple[int, str]] = []  # the lines of star imports, and of what
        self.units: dict[str, Unit] = {}
        self.lines = lines_of(source.text)
        self.body: list[Unit | Rest] = []
        self.bound: dict[str, list[Bound]] = {}  # the names of the file, and what binds them
        self.constants: dict[str, Constant] = {}
        for statement in _imports(tree.body):
            for name, meaning in bound_by(statement):
                if meaning is not None and meaning[1] == "*":
                    self.stars.append((statement.lineno, meaning[0]))
                elif meaning is not None:
                    self.imports[name] = meaning
        plain = (name for name, (module, _) in self.imports.items() if module.partition(".")[0] in _PLAIN_MODULES)
        self._plain_makers = _PLAIN_MAKERS.union(plain)
        for node in tree.body:
            if isinstance(node, DEFINED):
                unit = self.units[node.name] = Unit(node, self.lines)
                self.body.append(unit)
                self._bind(node.name, Bound(node.lineno, True, None))
                for name in unit.binds:
                    self._bind(name, Bound(0, False, None))
            else:
                self._add(node)
        self._known: dict[str, float] = {}

    def _bind(self, name: str, bound: Bound) -> None:
        self.bound.setdefault(name, []).append(bound)

    def _makes_plain(self, name: str) -> bool:
        """Whether what has a name makes a plain value: torch and the like, or a class of settings of the file."""
        unit = self.units.get(name)
        return name in self._plain_makers or (unit is not None and unit.is_class and (unit.is_settings or unit.says))

    def _add(self, node: ast.stmt) -> None:
        """Other statements than functions and classes; those of one line together."""
        is_part = isinstance(node, _PARTS) or _only_parts(node)
        rows = _rows(node)
        self.constants.update(_constants(node, self._makes_plain))
        binds = list(_bound(node, any(":=" in line for line in self.lines[rows[0] - 1 : rows[1]])))
        for name, what in binds:
            self._bind(name, Bound(what.lineno if isinstance(what, ast.stmt) else 0, False, _meaning(what, name)))
        rest = Rest(*rows, is_part, frozenset() if is_part else frozenset(name for name, _ in binds))
        before = self.body[-1] if self.body else None
        if isinstance(before, Rest) and before.last >= rest.first:
            rest = Rest(before.first, rest.last, before.is_part or is_part, before.binds | rest.binds)
            self.body.pop()
        self.body.append(rest)

    def parsed(self, rest: Rest) -> list[ast.stmt]:
        """What Python makes of some lines."""
        return _parsed("\n".join(self.lines[rest.first - 1 : rest.last]), rest.first)

    def rows_of(self, constants: set[str]) -> set[int]:
        """The lines of some constants, and of what those are made of: other constants, imports."""
        rows, todo = set[int](), list(constants)
        for name in todo:  # grows
            found = self.constants.get(name)
            rows.update([found.row] if found is not None else (bound.row for bound in self.bound.get(name, ())))
            todo += [each for each in found.mentions if each not in todo] if found is not None else ()
        return rows

    def is_sure(self, name: str) -> bool:
        """Whether a name can stand for one thing only: the last of its functions and classes, or one import."""
        if name not in self._known:
            self._known[name] = self._known_from(name)
        after = self._known[name]
        return after < inf and not any(row > after and offers(self.source.filename, of, name) for row, of in self.stars)

    def _known_from(self, name: str) -> float:
        """The line from which on a name stands for one thing, star imports aside; beyond all where it never does."""
        bound = self.bound.get(name, [])
        meanings = {each.meaning for each in bound}
        if name in self.units and all(each.is_unit for each in bound):
            meanings = {("", "")}  # the last of them
        return max((each.row for each in bound), default=0) if len(meanings) == 1 and None not in meanings else inf


def _constants(node: ast.stmt, makes: Callable[[str], bool]) -> Iterator[tuple[str, Constant]]:
    """The variables that a statement sets to a plain value."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and _is_plain(node.value, makes):
        mentions = frozenset(each.id for each in ast.walk(node.value) if isinstance(each, ast.Name))
        yield from ((each.id, Constant(node.lineno, mentions)) for each in _targets(node) if isinstance(each, ast.Name))


def _rows(node: ast.stmt) -> tuple[int, int]:
    """The lines, from 1, of a statement with its decorators."""
    decorators = node.decorator_list if isinstance(node, DEFINED) else ()
    return min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno or node.lineno


def _parsed(text: str, row: int) -> list[ast.stmt]:
    """The statements in whole lines of a file, of which the first is on line `row`."""
    return parsed("\n" * (row - 1) + text).body  # quicker than to go through the tree for it


def _bound(node: ast.AST, by_walrus: bool) -> Iterator[tuple[str, ast.AST]]:
    """The names of a file that a statement at its top binds, and what binds each.

    Not those of `if __name__ == "__main__"`: who imports the file never gets there.
    """
    if isinstance(node, ast.If) and any(last_word(each) == "__name__" for each in ast.walk(node.test)):
        return
    if isinstance(node, DEFINED):
        yield node.name, node
        globals_ = (each for each in ast.walk(node) if isinstance(each, ast.Global))
        yield from ((name, each) for each in globals_ for name in each.names)
        return
    for name in _own_names(node):
        yield name, node
    for child in ast.iter_child_nodes(node):
        if by_walrus or not isinstance(child, ast.expr) or isinstance(child, _TARGETS):
            if not isinstance(child, (ast.Lambda, ast.comprehension)):
                yield from _bound(child, by_walrus)


def _own_names(node: ast.AST) -> list[str]:
    """The names that a node binds itself, and not what stands below it."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*"]
    if isinstance(node, ast.Name):
        return [node.id] if not isinstance(node.ctx, ast.Load) else []
    named = isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name
    return [named] if named else []


def _meaning(node: ast.AST, name: str) -> tuple[str, str] | None:
    """What an import makes of a name; None where that is something else."""
    return dict(bound_by(node)).get(name) if isinstance(node, (ast.Import, ast.ImportFrom)) else None


def bound_by(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str] | None]]:
    """The names that an import binds, and what each then means."""
    from_module = "." * statement.level + (statement.module or "") if isinstance(statement, ast.ImportFrom) else None
    for alias in statement.names:
        name = alias.asname or (alias.name if from_module is not None else alias.name.partition(".")[0])
        yield name, imported(from_module, alias.name, alias.asname)


def imported(module: str | None, name: str, asname: str | None) -> tuple[str, str] | None:
    """What `from module import name as asname` binds: a module, and the name in it ("": the module itself).

    Without a module that is `import name as asname`; None where it binds the package of what it names.
    """
    if module is not None:
        return module, name
    return (name, "") if asname is not None or "." not in name else None


def sets(text: str, names: Iterable[str], read: Callable[[str], str | None]) -> Iterator[Place]:
    """The attributes of modules of the project that a text sets or deletes; `read` says which module a name is."""
    modules = {name: path for name in names if _may_set(text, f"{name}.") and (path := read(name)) is not None}
    targets = (target for each in statements(parsed(text)) for target in _targets(each)) if modules else ()
    for each in (each for target in targets for each in ast.walk(target)):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and not isinstance(each.ctx, ast.Load):
            if each.value.id in modules:
                yield Place(modules[each.value.id], each.attr)


def _may_set(text: str, before: str) -> bool:
    at = text.find(before)
    while at >= 0:
        if _SET.match(text, at + len(before)):
            return True
        at = text.find(before, at + 1)
    return False


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements below a node, with the handlers and cases that hold some: expressions are most of a tree."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for each in getattr(node, name, ()):
            yield each
            yield from statements(each)


def _targets(statement: ast.AST) -> list[ast.expr]:
    """What a statement assigns to or deletes."""
    if isinstance(statement, (ast.Assign, ast.Delete)):
        return statement.targets
    if isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
        return [statement.target]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return []


def offers(filename: str, module: str, name: str) -> bool:
    """Whether a star import of a module of the project may bind a name."""
    path = module_file(filename, module)
    of = outline(path) if path is not None else None
    return of is not None and not name.startswith("_") and (name in of.bound or bool(of.stars))


def of_stars(path: str, tree: ast.Module, text: str) -> dict[str, str]:
    """What the star imports of a file bind of the names that its text has: names, and the module of each.

    Of modules of the project alone. Without what the file binds itself; the last import wins.
    """
    modules = [
        meaning[0]
        for statement in _imports(tree.body)
        for _, meaning in bound_by(statement)
        if meaning is not None and meaning[1] == "*"
    ]
    if not modules:
        return {}
    own = {name for statement in tree.body for name, _ in _bound(statement, by_walrus=True)}
    return _given_by(path, modules, own, text)


def of_own_stars(path: str) -> dict[str, str]:
    """The same of another file of the project."""
    of = outline(path)
    return _given_by(path, [module for _, module in of.stars], of.bound, of.source.text) if of and of.stars else {}


def _given_by(path: str, modules: list[str], own: Container[str], text: str) -> dict[str, str]:
    words = set(_NAMES.findall(text))
    offered = ((name, module) for module in modules for name in _offered_by(path, module, _DEPTH))
    return {name: module for name, module in offered if name in words and name not in own}


def _offered_by(filename: str, module: str, depth: int) -> frozenset[str]:
    """The names that a star import of a module of the project binds."""
    path = module_file(filename, module)
    return _offered(path, depth) if path is not None and depth else frozenset()


@question
def _offered(path: str, depth: int) -> frozenset[str]:
    of_project(root_of(os.path.dirname(path)))
    of = outline(path)
    if of is None:
        return frozenset()
    names = {name for name in of.bound if not name.startswith("_")}
    for _, module in of.stars:
        names |= _offered_by(path, module, depth - 1).union(STAR_EXPORTS.get(module, ()))
    if "__all__" in of.bound:
        names = {name for name in names if f'"{name}"' in of.source.text or f"'{name}'" in of.source.text}
    return frozenset(names)


def home(path: str, name: str, depth: int = 5) -> str | None:
    """The file of the project that makes what a module has as `name`: its own, or one from which it is passed on.

    None where that is in no file of the project.
    """
    of = outline(path)
    if of is None or not depth:
        return None
    if name in of.imports and name not in of.units:
        module, inner = of.imports[name]
        target = module_file(path, module)
        if not inner:
            return target
        made_in = home(target, inner, depth - 1) if target is not None else None
        return made_in or module_file(path, f"{module}{'' if module.endswith('.') else '.'}{inner}")
    if name in of.bound:
        return path
    stars = (module_file(path, module) for _, module in reversed(of.stars))
    may_have = (star for star in stars if star is not None and _may_have(star, name))
    return next((found for star in may_have if (found := home(star, name, depth - 1))), None)


def constant(filename: str, module: str, name: str) -> Place | None:
    """The variable that `from module import name` means: of the project, set to one plain value alone."""
    found = _constant(filename, module, name)
    return Place(*found) if found is not None else None


@question
def _constant(filename: str, module: str, name: str) -> tuple[str, str] | None:
    of_project(root_of(os.path.dirname(filename)))
    path = module_file(filename, module)
    at = home(path, name) if path is not None else None
    if at is None or at == filename or (of := outline(at)) is None or of.stars:
        return None
    return (at, name) if name in of.constants and len(of.bound[name]) == 1 else None


def class_named_by(constant: Place) -> Place | None:
    """The class of the same file that a constant is another name of, or that it is made of, and of nothing else."""
    of = outline(constant.path)
    mentions = of.constants[constant.name].mentions if of is not None else frozenset[str]()
    found = [Place(constant.path, name) for name in mentions if of is not None and name in of.units]
    return found[0] if len(mentions) == len(found) == 1 and is_class(found[0]) else None


def passed_on(filename: str, module: str, name: str) -> frozenset[str]:
    """The qualified names that `from module import name` can mean where a file of the project imports and passes it on.

    With `UNKNOWN` among them where it may be something else, too. Empty where nothing is passed on.
    """
    path = module_file(filename, module)
    return passed_on_by(path, name) if path is not None else frozenset()


def passed_on_by(path: str, name: str) -> frozenset[str]:
    """The same of a name of a file of the project."""
    names = _passed_on(path, name, _DEPTH)
    return names if names - {UNKNOWN} else frozenset()


@question
def _passed_on(path: str, name: str, depth: int) -> frozenset[str]:
    of_project(root_of(os.path.dirname(path)))
    of = outline(path)
    if of is None:
        return frozenset((UNKNOWN,))
    if not depth:  # files that import each other
        return frozenset()
    names = frozenset(each for bound in of.bound.get(name, ()) for each in _meant(path, bound.meaning, depth))
    if names or "__all__" in of.bound:
        return names
    given = (_given_by_star(path, module, name, depth) for _, module in reversed(of.stars))
    return next(filter(None, given), frozenset())


def _given_by_star(path: str, module: str, name: str, depth: int) -> frozenset[str]:
    """The qualified names that a name can mean by a star import of a module; none where the module doesn't bind it."""
    target = module_file(path, module)
    if target is not None:
        return _passed_on(target, name, depth - 1)
    return frozenset((canonical(f"{module}.{name}"),)) if name in STAR_EXPORTS.get(module, ()) else frozenset()


def _meant(path: str, meaning: tuple[str, str] | None, depth: int) -> frozenset[str]:
    """The qualified names that an import in a file can mean."""
    if meaning is None:
        return frozenset((UNKNOWN,))
    module, name = meaning
    target = module_file(path, module)
    if not name:
        return frozenset((canonical(module) if target is None else UNKNOWN,))
    if target is not None:
        return _passed_on(target, name, depth - 1)
    return frozenset((UNKNOWN if module.startswith(".") else canonical(f"{module}.{name}"),))


def _is_plain(node: ast.AST, makes: Callable[[str], bool] = _PLAIN_MAKERS.__contains__) -> bool:
    """Whether a value is made of literals and names, and by what `makes` plain values at most: torch, and the like."""
    if isinstance(node, ast.Call):
        root: ast.expr = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        given = (*node.args, *(each.value for each in node.keywords))
        return isinstance(root, ast.Name) and makes(root.id) and all(_is_plain(each, makes) for each in given)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Constant)):
        return True
    if not isinstance(node, _COMPOSED):
        return False
    return all(_is_plain(each, makes) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


def _imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports at the top of a file, those in `try` and `if` too."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If):
            yield from _imports(node.body)
            yield from _imports(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _imports(node.body)
            for handler in node.handlers:
                yield from _imports(handler.body)


@remembered
def outline(path: str) -> Outline | None:
    """A file of the project; None where it can't be read."""
    try:
        return _outline(path, version(path))
    except OSError:
        return None


@lru_cache(maxsize=1024)
def _outline(path: str, _version: tuple[int, int, int]) -> Outline | None:
    data = contents(path, _LARGEST)
    if b"\f" in data:
        return None
    try:
        source = load(data, path)
    except SourceError:
        return None
    if has_lone_backslash(source.text):
        return None
    tree = python_tree(source)
    return Outline(source, tree) if isinstance(tree, ast.Module) else None


class Place(NamedTuple):
    """A function or class of a file of the project."""

    path: str
    name: str


def find(
    filename: str, module: str, name: str, depth: int = _DEPTH, among: Container[str] | None = None
) -> Place | str | None:
    """What `from module import name` means in a file: a function or class of the project, or a module's path.

    With `among` the functions and classes of these files alone are of interest: others may not be found.
    """
    path = module_file(filename, module)
    if not name:
        return path
    inner = module_file(filename, f"{module}{'' if module.endswith('.') else '.'}{name}")
    if path is None:  # a folder without `__init__.py` has modules, and nothing else
        return inner
    # What hides a module of its name has to be known, wherever it stands.
    place = within(path, name, depth, among if inner is None else None)
    return place if place is not None else inner


def _is_its_own(path: str, name: str) -> bool:
    """Whether a name of a module, if it has it, is surely not imported there: it is quick to tell."""
    words = _imported_words(path)
    return words is not None and name.encode() not in words


def _may_have(path: str, name: str) -> bool:
    """Whether a module may bind a name, or pass on what others bind: it is quick to tell that it doesn't."""
    words = _own_words(path)
    return words is None or b"\n%s\n" % name.encode() in words


@remembered
def _own_words(path: str) -> bytes | None:
    """The words of a file, each on a line; None where it has those of others, too, or can't be read."""
    try:
        data = contents(path, _LARGEST)
    except OSError:
        return None
    return None if _STAR.search(data) else b"\n%s\n" % b"\n".join(set(_WORDS.findall(data)))


@remembered
def _imported_words(path: str) -> frozenset[bytes] | None:
    """The words in what may be a file's imports: what they bind is written in one.

    None where that can't be read, or a star import binds more.
    """
    try:
        data = contents(path, _LARGEST)
    except OSError:
        return None
    if _STAR.search(data):
        return None
    return frozenset(word for each in _IMPORTED.finditer(data) for word in _WORDS.findall(each[1]))


def within(path: str, name: str, depth: int = _DEPTH, among: Container[str] | None = None) -> Place | str | None:
    """What a name of a module stands for, if it is the project's own; `among` as for `find`."""
    if among is not None and path not in among and _is_its_own(path, name):
        return None
    of = outline(path)
    if of is not None and depth and of.stars and name not in of.bound:
        return _within_star(path, of, name, depth, among)
    if of is None or not of.is_sure(name):
        return None
    if name in of.units:
        return Place(path, name)
    if name in of.imports and depth:
        module, original = of.imports[name]
        return find(path, module, original, depth - 1, among)
    return None


def _within_star(path: str, of: Outline, name: str, depth: int, among: Container[str] | None) -> Place | str | None:
    """The same of a name that a star import may give: where one alone may, and its module is one of the project."""
    giving = [module for _, module in of.stars if offers(path, module, name)]
    star = module_file(path, giving[0]) if len(giving) == 1 else None
    return within(star, name, depth - 1, among) if star is not None else None


@remembered
def targets(place: Place) -> tuple[tuple[Place, tuple[str, str]], ...]:
    """The functions and classes of the project that a function or class mentions, and how."""
    return tuple(_targets_of(place))


def _targets_of(place: Place) -> Iterator[tuple[Place, tuple[str, str]]]:
    of = outline(place.path)
    for name, attribute in sorted(of.units[place.name].mentions) if of is not None else ():
        own = of.units[place.name].imports.get(name) if of is not None else None
        if own is not None:
            found = find(place.path, *own)
        else:
            found = within(place.path, name) if of is not None and name in of.bound else None
        if isinstance(found, str):
            found = within(found, attribute) if attribute else None
        if isinstance(found, Place) and found != place:
            yield found, (name, attribute)


def hands(place: Place, mention: tuple[str, str]) -> bool:
    """Whether a function or class calls what it mentions with an optimizer, a scaler or a loss."""
    of = outline(place.path)
    return of is not None and mention in of.units[place.name].hands


def changed(path: str) -> Iterator[Place]:
    """What a file sets of others: functions that it replaces, and variables."""
    of = outline(path)
    if of is not None:
        yield from sets(of.source.text, of.imports, lambda name: module_of(path, of.imports.get(name)))


def module_of(path: str, meaning: tuple[str, str] | None) -> str | None:
    """The path of the project's module that a name means in a file, if it means one."""
    found = find(path, *meaning) if meaning is not None else None
    return found if isinstance(found, str) else None


def is_class(place: Place) -> bool:
    """Whether a place is one of a class."""
    of = outline(place.path)
    return of is not None and of.units[place.name].is_class


def tells_settings(place: Place) -> bool:
    """Whether a place is one of a class of settings, or of a function that mentions one, which it may return."""
    return _tells_settings(*place)


@question
def _tells_settings(path: str, name: str) -> bool:
    of_project(root_of(os.path.dirname(path)))
    place = Place(path, name)
    of = outline(place.path)
    if of is None or of.units[place.name].is_class:
        return of is not None and of.units[place.name].is_settings
    return any(is_class(each) and tells_settings(each) for each, _ in targets(place))


def tells_choices(place: Place) -> bool:
    """Whether a place is one of a class that declares what a field of it is one of, or what is kept in it does."""
    return _tells_choices(*place, _DEPTH)


@question
def _tells_choices(path: str, name: str, depth: int) -> bool:
    of_project(root_of(os.path.dirname(path)))
    of = outline(path)
    if of is None or not depth or not of.units[name].declares:
        return False
    return "Literal" in of.units[name].declares or any(
        _tells_choices(*each, depth - 1) for each in kept_in(Place(path, name))
    )


def kept_in(place: Place) -> Iterator[Place]:
    """The project's classes that the fields of a class are declared to be objects of."""
    of = outline(place.path)
    declared = of.units[place.name].declares if of is not None else frozenset[str]()
    if declared - _TYPES:
        yield from (each for each, (name, _) in targets(place) if name in declared and is_class(each))


def matters(place: Place) -> bool:
    """Whether a function or class can do something to scaler, gradients or regions, itself or by what it mentions."""
    return _matters(*place)


@question
def _matters(path: str, name: str) -> bool:
    of_project(root_of(os.path.dirname(path)))
    place = Place(path, name)
    todo, seen = [place], {place}
    while todo:
        each = todo.pop()
        of = outline(each.path)
        if of is None or of.units[each.name].says:
            return True
        more = [found for found, _ in targets(each) if found not in seen]
        seen.update(more)
        todo += more
    return False


def gives_torch(place: Place) -> bool:
    """Whether a function may return torch: what it imports as that, its file does, or it keeps in a variable there."""
    of = outline(place.path)
    unit = of.units[place.name] if of is not None else None
    if of is None or unit is None or not unit.returns:
        return False
    meanings = [bound.meaning for name in unit.returns for bound in of.bound.get(name, ())]
    inside = [unit.imports.get(name) for name in unit.returns]
    kept = list(unit.imports.values()) if unit.returns & unit.binds else []
    return ("torch", "") in (*meanings, *inside, *kept)


def takes_apart(place: Place) -> bool:
    """Whether a function reads a part of a model's output, and so tells what that is."""
    of = outline(place.path)
    return of is not None and of.units[place.name].takes_apart


def taken(path: str, names: set[str], constants: set[str], changed: set[str]) -> tuple[str, ast.Module] | None:
    """A file's text, and of what stands in it some functions and classes, the imports and the variables.

    Without functions and classes some constants alone, and what they are made of. Variables that something else sets,
    as `changed` does from other files, are set to what can't be known, behind it.
    """
    of = outline(path)
    if of is None:
        return None
    rows = of.rows_of(constants) if not names else set()
    kept: list[ast.stmt] = []
    for each in of.body:
        if isinstance(each, Rest):
            wanted = names or any(each.first <= row <= each.last for row in rows)
            kept += of.parsed(each) if each.is_part and wanted else [Gap()]
            changed = changed | each.binds
        elif each.name in names and each is of.units[each.name]:
            kept += each.parsed()
        else:
            kept.append(Gap())
            changed = changed | each.binds
    if too_deep(ast.Module([each for each in kept if not isinstance(each, Gap)], []), of.source) is not None:
        return None
    unknown = [f"{name} = globals()[{name!r}]\n" for name in sorted(changed.intersection(of.bound) - names)]
    behind = _parsed("".join(unknown), len(of.lines) + 1)
    return of.source.text + "\n" + "".join(unknown), ast.Module([*kept, *behind], [])


def _only_parts(node: ast.stmt) -> bool:
    """Whether an `if` or `try` at the top only imports or sets variables."""
    if isinstance(node, ast.If):
        return all(isinstance(each, _PARTS) or _only_parts(each) for each in (*node.body, *node.orelse))
    if isinstance(node, ast.Try):
        inner = [*node.body, *node.orelse, *node.finalbody, *(each for one in node.handlers for each in one.body)]
        return all(isinstance(each, (*_PARTS, ast.Pass)) or _only_parts(each) for each in inner)
    return False
