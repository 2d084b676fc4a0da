"""Renaming the old names of AMP (AMP101 to AMP104): an import with all its uses, or nothing.

Uses that have to change together form a *group*: what reads the name that one import binds, and what an assignment
hands on. A group with a use that can't be rewritten stays as it is and says why. The groups of one import statement
are fixed together, so that the statement is rewritten once; without those of rules that aren't selected, which keep
the old import.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from amplint.base.findings import Applicability, Edit, Finding, Fix
from amplint.fixes.edits import has_comment
from amplint.fixes.imports import alias_edit, drop_plain_import, rewrite_from_import, star_edit, torch_instead
from amplint.fixes.inherited_arguments import module_name
from amplint.fixes.name_mentions import asked_for, imports_of, patched
from amplint.fixes.rename_use import (
    Rewrite,
    follows,
    in_annotation,
    in_fstring,
    is_class_test,
    names_device,
    only_named,
    reads_of,
    rewrite_use,
)
from amplint.model.names.version_guards import guarded
from amplint.model.project.python_files import importer_of
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Defined, Imported, Scope
from amplint.model.syntax.scopes import LOCAL, NOTHING, STAR_EXPORTS, canonical
from amplint.model.torch_facts.deprecated_names import LEGACY, LEGACY_MODULES, Legacy, LegacyKind
from amplint.model.torch_facts.signatures import SIGNATURES

if TYPE_CHECKING:
    from amplint.model import Module
    from amplint.registry.rule import Rule


# The rules that report old names.
CODES = {
    LegacyKind.AUTOCAST: "AMP101",
    LegacyKind.GRAD_SCALER: "AMP102",
    LegacyKind.CUSTOM_FUNCTION: "AMP103",
    LegacyKind.STATE_FUNCTION: "AMP104",
}
_NEW = {f"{entry.module}.{entry.name}" for entry in LEGACY.values()}


@dataclass(eq=False, slots=True)
class Use:
    """One use of an old name. `value` is None for an import that the file never reads.

    `kind` says how the name is reached:
    - "chain": from the module torch (`torch.cuda.amp.autocast`); the import stays
    - "module": from an import of torch.cuda.amp or the like (`amp.autocast`)
    - "name": the import binds the object itself
    - "reach": through an assignment of a module (`amp = torch.cuda.amp`; here is `amp.autocast`)
    - "alias": an assignment handed it on (`ac = torch.cuda.amp.autocast`; here is `ac`); never reported by itself
    """

    legacy: Legacy
    value: ir.Value | None
    kind: str
    binding: Imported | None
    statement: ir.Import | None
    rewrite: Rewrite
    group: int
    reported: bool = True  # false where it is named only, among others or in a comparison

    @property
    def code(self) -> str:
        """The code of the rule that reports it."""
        return CODES[self.legacy.kind]


class Renames:
    """Every use of an old name in one file."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._modern: dict[str, list[ir.Node]] = {}
        self._reads: dict[int, bool] = {}
        self._fixes: dict[int, Fix | None] = {}
        self._tests: dict[str, list[ir.Value]] = {}  # the tests for an old class that stay
        self.uses: list[Use] = []
        if module.target.reaches("2.4"):  # before 2.4 nothing is deprecated
            for entry in LEGACY.values():
                self.uses.extend(self._find(entry))
        self._join()
        for use in self.uses:
            if use.value is not None and is_class_test(module, use.value) and self._blocked(use) is not None:
                if use.reported or not isinstance(use.value.parent, ir.Sequence):  # else the new class stands beside it
                    self._tests.setdefault(use.legacy.old, []).append(use.value)

    # --- finding ----------------------------------------------------------------------------------------------------

    def _find(self, legacy: Legacy) -> Iterator[Use]:
        module = self.module
        references, imports = list(module.references(legacy.old)), list(imports_of(module, legacy.old))
        if not references and not imports:
            return
        modern = self._modern_of(f"{legacy.module}.{legacy.name}")
        statements = [binding.statement for binding in imports]
        older = None
        if not module.target.is_declared:  # else the file's tests are older than what the project admits
            older = next((node for node in (*references, *statements) if guarded(module.names, node, modern)), None)
        read: set[int] = set()
        for value in references:
            if isinstance(value, ir.Name):
                bound = module.names.bindings(value)
                read |= {id(binding.alias) for binding in bound if isinstance(binding, Imported)}
            if self._is_old(value, legacy, modern):
                yield self._use(value, legacy, modern, older)
        for binding in imports:
            if id(binding.alias) not in read and not guarded(module.names, binding.statement, modern):
                refusal = (
                    f"this file imports but never uses `{binding.alias.bound}`, so another file may import the name "
                    "from this file; if no file does, remove the import"
                )
                yield Use(legacy, None, "name", binding, binding.statement, Rewrite(refusal), binding.statement.id)

    def _is_old(self, value: ir.Value, legacy: Legacy, modern: list[ir.Node]) -> bool:
        """Whether a reference to an old name is a use of it: nothing is stored there, and the new one may be there."""
        if isinstance(value, ir.Name) and (value.bound or self._from_guarded(value, legacy, modern)):
            return False
        names = self.module.names
        return not (_is_stored(self.module, value) or names.of(value) & _NEW or guarded(names, value, modern))

    def _use(self, value: ir.Value, legacy: Legacy, modern: list[ir.Node], older: ir.Node | None) -> Use:
        """A use; `older` is what the file has for releases of torch without the new name."""
        names = self.module.names.of(value)
        rewrite = self._refusal(legacy, names, value) or rewrite_use(self.module, legacy, value)
        if older is not None:
            rewrite = Rewrite(
                f"{self.module.line(older)} is for releases of torch without `{legacy.module}.{legacy.name}`, so this "
                "file needs both names; choose between them as on that line, by hand"
            )
        if is_class_test(self.module, value) and modern:
            rewrite = Rewrite("the file also uses the new class, so this test may be meant for the old class only")
        reported = not only_named(value, legacy, modern) and not (older is not None and in_annotation(value))
        return Use(legacy, value, *self._origin(value), rewrite, value.id, reported)

    def _modern_of(self, new: str) -> list[ir.Node]:
        """Where the file reads, imports or asks for a new name."""
        if new not in self._modern:
            imports = (each.statement for each in imports_of(self.module, new))
            self._modern[new] = [*self.module.references(new), *imports, *asked_for(self.module, new)]
        return self._modern[new]

    @cached_property
    def _patched(self) -> set[str]:
        return set(patched(self.module))

    def _from_guarded(self, value: ir.Name, legacy: Legacy, modern: list[ir.Node]) -> bool:
        """Whether a name comes from an import of the old name that runs only where the new one is missing."""
        imports = [
            each.statement
            for each in self.module.names.bindings(value)
            if isinstance(each, Imported) and canonical(each.name) == legacy.old
        ]
        return bool(imports) and all(guarded(self.module.names, each, modern) for each in imports)

    def _origin(self, value: ir.Value) -> tuple[str, Imported | None, ir.Import | None]:
        root = ir.root(value)
        if not isinstance(root, ir.Name):
            return "reach", None, None
        bindings = self.module.names.bindings(root)
        if not bindings:
            stars = [s for s in self.module.program.scope.stars if root.name in STAR_EXPORTS.get(s.module or "", ())]
            return "name", None, stars[-1] if stars else None
        imported = [each for each in bindings if isinstance(each, Imported)]
        if not imported:
            return "alias" if root is value else "reach", None, None
        # `import torch` and `import torch.cuda.amp` bind the same name; the second is the one that may become useless.
        binding = next((each for each in imported if each.alias.name in LEGACY_MODULES), imported[0])
        if root is value:
            return "name", binding, binding.statement
        if binding.name == "torch":
            return "chain", binding, binding.statement
        return "module", binding, binding.statement

    def _refusal(self, legacy: Legacy, names: frozenset[str], value: ir.Value) -> Rewrite | None:
        target = self.module.target
        since = legacy.replaceable_since
        if not target.guarantees(since):
            new = f"{legacy.module}.{legacy.name}"
            return Rewrite(f"`{new}` needs torch {since}, and the project allows older releases ({target.origin})")
        if legacy.old.rpartition(".")[2] in self._patched:
            return Rewrite(
                f"a string (for instance in `mock.patch`) also names `{legacy.old}`; change the string and the code "
                "by hand"
            )
        own = {name for name in names if name[0] == LOCAL}
        if own and not self._takes_anything(value):
            own_name = ir.last_name(value)
            return Rewrite(f"the file also defines its own `{own_name}`, whose arguments may be different")
        if names - {legacy.old, NOTHING} - own:
            return Rewrite(f"in this file, `{ir.last_name(value)}` can also be something else than `{legacy.old}`")
        if self._imported_twice(value):
            return Rewrite(
                f"the file imports `{ir.last_name(ir.root(value))}` more than once, and a fix would rewrite only one "
                "import; remove the other imports"
            )
        if in_fstring(value):
            return Rewrite("the name is inside an f-string, and the quotes of the device could end the f-string")
        renamed = isinstance(value, ir.Name) and legacy.name != value.name == legacy.old.rpartition(".")[2]
        if renamed and any(legacy.name in scope.bindings for scope in _scopes(self.module, legacy.name)):
            return Rewrite(f"the file already uses the name `{legacy.name}`")
        return None

    def _takes_anything(self, value: ir.Value) -> bool:
        """Whether all that the file itself defines by the name of a value takes any arguments, and ignores them."""
        bindings = self.module.names.bindings(value) if isinstance(value, ir.Name) else []
        own = [each.what for each in bindings if isinstance(each, Defined)]
        return bool(own) and all(map(_ignores_arguments, own))

    def _imported_twice(self, value: ir.Value) -> bool:
        """Whether several imports bind the name that a value starts with: what changes one of them isn't enough."""
        root = ir.root(value)
        bindings = self.module.names.bindings(root) if isinstance(root, ir.Name) else []
        return sum(isinstance(each, Imported) and each.name != "torch" for each in bindings) > 1

    # --- grouping ---------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Give uses that must change together the same group."""
        by_alias: dict[int, int] = {}
        by_value = {use.value.id: use for use in self.uses if use.value is not None}
        for use in self.uses:
            if use.kind == "name" and use.statement is not None:
                key = id(use.binding.alias) if use.binding is not None else id(use.statement)
                use.group = by_alias.setdefault(key, use.group)
        for use in self.uses:
            if use.value is not None and isinstance(use.value.parent, ir.Assign) and follows(self.module, use.value):
                for read in reads_of(self.module, use.value.parent):
                    if read.id in by_value:
                        self._merge(use.group, by_value[read.id].group)

    def _merge(self, first: int, second: int) -> None:
        for use in self.uses:
            if use.group == second:
                use.group = first

    def _blocked(self, use: Use) -> str | None:
        """Why the group of `use` can't be renamed; None if it can."""
        if use.rewrite.refusal is not None:
            return use.rewrite.refusal
        if use.kind == "name" and (exported := self._exported(use)) is not None:
            return exported
        for each in self.uses:
            if each.group == use.group and each.rewrite.refusal is not None:
                line = self.module.line(each.value) if each.value is not None else "line 0"
                return f"the use on {line} has to change too, and can't: {each.rewrite.refusal}"
            if each.group == use.group and each.value is not None and not self._selected(each):
                line = self.module.line(each.value)
                return f"{line} uses the same import, and {each.code} is not selected; select {each.code} too"
        for value in self._tests.get(use.legacy.old, ()):
            if value is not use.value:  # an instance of the new class is none of the old one
                return (
                    f"{self.module.line(value)} tests for the old class, and would be false for an object of the new "
                    "class; change that test first"
                )
        return None

    def _selected(self, use: Use) -> bool:
        """Whether a use is to be rewritten where its import is, going by its rule."""
        return self.module.selected is None or use.code in self.module.selected

    def _goes(self, use: Use) -> bool:
        """Whether a use is rewritten where its import is."""
        return self._selected(use) and self._blocked(use) is None

    def _exported(self, use: Use) -> str | None:
        bound = use.binding.alias.bound if use.binding is not None else use.legacy.old.rpartition(".")[2]
        if self.module.source.filename.endswith("__init__.py"):
            return f"an `__init__.py` exports what it imports, so other files may import `{bound}`"
        for statement in ir.walk_statements(self.module.program.body, into=False):
            values = [each for value in statement.values() for each in ir.walk_values(value)]
            exports = any(ir.is_variable(each, "__all__") for each in values)
            if exports and any(isinstance(each, ir.Constant) and each.value == bound for each in values):
                return f"`__all__` exports `{bound}`, so other files may import `{bound}`"
        if use.statement is not None and ir.function_of(use.statement) is None:
            importer = importer_of(self.module.source.filename, bound)
            if importer is not None:
                return (
                    f"{os.path.basename(importer)} imports `{bound}` from this file, so the calls there have to "
                    "change too; change both files by hand"
                )
        return None

    # --- fixing -----------------------------------------------------------------------------------------------------

    def findings(self, rule: Rule) -> Iterator[Finding]:
        """The findings of one rule, each with the fix of its import statement."""
        for use in self.uses:
            if use.code != rule.code or use.kind == "alias" or not use.reported:
                continue
            if not self.module.target.guarantees(use.legacy.replaceable_since):
                continue  # the old name is the only one there
            if use.value is not None:
                where = self.module.span(use.value)
            else:
                assert use.binding is not None
                where = self.module.layout.span(use.binding.alias)
            withheld = self._blocked(use)
            fix = None
            if withheld is None:
                fix = self._fix(use)
                if fix is None:
                    withheld = (
                        "a comment or other code on the lines of the import would be lost; put the import on "
                        "separate lines"
                    )
            said = message(use.legacy, self._path(use.legacy), self._device(use))
            yield rule.finding(where, said, fix=fix, withheld=withheld)

    def fixes_call(self, call: ir.Call) -> bool:
        """Whether a call of an old name is one of the new name once the rules for old names have made their fixes."""
        use = next((each for each in self.uses if each.value is call.func), None)
        return use is not None and self._blocked(use) is None and self._fix(use) is not None

    def _device(self, use: Use) -> str | None:
        """The argument, as it is written, by which a call of an old name already says the device."""
        call = use.value.parent if use.value is not None else None
        if not isinstance(call, ir.Call) or call.func is not use.value:
            return None
        named = names_device(call)
        if named is None or named not in SIGNATURES.get(f"{use.legacy.module}.{use.legacy.name}", ()):
            return None
        value = call.keyword(named)
        return f"{named}={self.module.on_one_line(value)}" if value is not None else None

    def _fix(self, use: Use) -> Fix | None:
        if use.group not in self._fixes:
            self._fixes[use.group] = self._make_fix(use)
        return self._fixes[use.group]

    def _make_fix(self, use: Use) -> Fix | None:
        together = self._together(use)
        edits = [edit for each in together for edit in (*self._name_edits(each), *each.rewrite.edits)]
        imported = self._import_edits(use, together)
        if imported is None:
            return None
        edits += imported
        if any(has_comment(self.module, edit.start, edit.end) for edit in edits):
            return None
        doubts = [each.rewrite.doubt for each in together if each.rewrite.doubt is not None]
        devices = list(dict.fromkeys(self._device(each) for each in together))
        alone = devices[0] if len(devices) == 1 else None
        title = f"Replace with `{_instead(use.legacy, self._path(use.legacy), alone)}`"
        title += f" ({doubts[0]})" if doubts else " (a call that has a device keeps it)" if devices[1:] else ""
        applicability = Applicability.UNSAFE if doubts else Applicability.SAFE
        return Fix(applicability, title, tuple(sorted(set(edits))))

    def _together(self, use: Use) -> list[Use]:
        """The uses that are renamed with one: those that share its import, and those of the same groups."""
        sharing = self._sharing(use)
        together = [other for other in sharing if self._goes(other)] if sharing is not None else [use]
        groups = {other.group for other in together}
        return together + [other for other in self.uses if other.group in groups and other not in together]

    def _sharing(self, use: Use) -> list[Use] | None:
        """The uses that share a use's import, itself among them; None where that stays whatever they become."""
        if use.kind == "module":
            return [other for other in self.uses if other.binding is use.binding]
        of_statement = [other for other in self.uses if other.statement is use.statement]
        if use.kind == "name":
            return [other for other in of_statement if other.kind == "name"]
        of_module = use.statement is not None and use.statement.aliases[0].name in LEGACY_MODULES
        return of_statement if use.kind == "chain" and of_module else None

    def _only_reads(self, use: Use) -> bool:
        """Whether nothing reads the module that the import binds but old names that can all be renamed."""
        key = id(use.binding)
        if key not in self._reads:
            self._reads[key] = self._find_only_reads(use)
        return self._reads[key]

    def _find_only_reads(self, use: Use) -> bool:
        through = [each for each in self.uses if each.binding is use.binding]
        roots = {ir.root(each.value).id for each in through if each.value is not None}
        return all(map(self._goes, through)) and not any(
            isinstance(value, ir.Name)
            and not value.bound
            and value.id not in roots
            and use.binding in self.module.names.bindings(value)
            for value in self.module.own.near(use.binding.alias.bound if use.binding is not None else "").values
        )

    def _whole_module(self, use: Use) -> bool:
        """Whether the import of `torch.cuda.amp` can become one of `torch.amp`, under the same local name."""
        assert use.binding is not None
        return (
            use.binding.name in LEGACY_MODULES
            and len(use.binding.statement.aliases) == 1
            and self.module.target.guarantees("1.12")
            and self._exported(use) is None
            and self._only_reads(use)
        )

    def _path(self, legacy: Legacy) -> str:
        """The new name in full: torch.amp.autocast came in 1.12, torch.autocast in 1.10."""
        return f"{self._home(legacy)}.{legacy.name}"

    def _home(self, legacy: Legacy) -> str:
        if legacy.style == "keywords" and not self.module.target.guarantees("1.12"):
            return "torch"
        return legacy.module

    def _name_edits(self, use: Use) -> list[Edit]:
        """The edits of the name itself, where it is written out."""
        value, path = use.value, self._path(use.legacy)
        if value is None or use.kind == "alias":
            return []
        start, end = self.module.span(value)
        if use.kind == "chain":
            return [Edit(self.module.span(ir.root(value))[1], end, path.removeprefix("torch"))]
        if use.kind in ("module", "reach"):
            if use.kind == "module" and self._whole_module(use):
                return []
            torch = module_name(self.module, "torch") or "torch"
            return [Edit(start, end, torch + path.removeprefix("torch"))]
        old = use.legacy.old.rpartition(".")[2]
        return (
            [Edit(start, end, use.legacy.name)]
            if isinstance(value, ir.Name) and value.name == old != use.legacy.name
            else []
        )

    def _import_edits(self, use: Use, together: list[Use]) -> list[Edit] | None:
        module = self.module
        statement = use.statement
        if use.kind == "reach":
            return [] if module_name(module, "torch") is not None else None
        if use.kind == "alias" or statement is None:
            return []
        if use.kind == "chain":
            if statement.module is None and statement.aliases[0].name != "torch" and self._all_go(statement, together):
                return drop_plain_import(module, statement)
            return []
        if use.kind == "module":
            return self._module_edits(use, statement)
        if use.binding is None:
            return star_edit(module, statement) if self._all_go(statement, together) else None
        moved = {id(each.binding.alias): (self._home(each.legacy), each.legacy) for each in together if each.binding}
        return rewrite_from_import(module, statement, moved)

    def _module_edits(self, use: Use, statement: ir.Import) -> list[Edit] | None:
        """The edits of the import of an old module."""
        assert use.binding is not None
        if self._whole_module(use):
            return alias_edit(self.module, statement, use.binding.alias, LEGACY_MODULES[use.binding.name])
        useless = use.binding.alias if self._only_reads(use) and self._exported(use) is None else None
        return torch_instead(self.module, statement, useless, needed=module_name(self.module, "torch") is None)

    def _all_go(self, statement: ir.Import, together: list[Use]) -> bool:
        return all(each in together for each in self.uses if each.statement is statement)


def message(legacy: Legacy, new: str, device: str | None = None) -> str:
    """One sentence: what is deprecated and what to write; `device`: the argument that the call already has for it."""
    return f"`{legacy.old}` is deprecated since torch 2.4; use `{_instead(legacy, new, device)}`"


def _instead(legacy: Legacy, new: str, given: str | None) -> str:
    """How the new name is called; `given`: the argument for the device that the call has."""
    device = given or f'"{legacy.device}"'
    if legacy.style == "device_type":
        return f"{new}(device_type={device})"
    rest = ", ..." if legacy.module == "torch.amp" or legacy.name.startswith("set") else ""
    return f"{new}({device}{rest})"


def _is_stored(module: Module, value: ir.Value) -> bool:
    """Whether `value` is `self.attribute`, and reported where a method stores it; or something is put in its place."""
    if isinstance(value.parent, (ir.Assign, ir.Delete)) and value in value.parent.targets:
        return True
    return isinstance(value, ir.Attribute) and any(True for _ in module.names.stored(value))


def _ignores_arguments(defined: ir.Function | ir.Class) -> bool:
    """Whether a function, or a class, takes any arguments and doesn't read them: `(*args, **kwargs)`."""
    if isinstance(defined, ir.Class):
        inits = [each for each in defined.body.statements if isinstance(each, ir.Function) and each.name == "__init__"]
        return len(inits) == 1 and _ignores_arguments(inits[0])
    names = {each.name for each in defined.params if each.kind in ("*", "**")}
    read = {each.name for each in ir.values_below(defined.body) if isinstance(each, ir.Name)}
    return {"*", "**"} <= {each.kind for each in defined.params} and names.isdisjoint(read)


def _scopes(module: Module, name: str) -> Iterator[Scope]:
    """The scopes that may bind a name."""
    yield module.program.scope
    for statement in module.own.near(name).statements:
        for each in (statement, statement.parent):
            if isinstance(each, (ir.Function, ir.Class)):
                yield each.scope


def renames(module: Module) -> Renames:
    """The file's renames, found once for the rules that share them."""
    return module.once(Renames)
