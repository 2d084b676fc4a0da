"""Lightning in a file: its Trainers and Fabrics with their precision, its modules. As of lightning 2.6."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.dtypes import dtypes
from amplint.model.inference.values import Doubt, values_of
from amplint.model.regions.framework_regions import fabrics
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Imported
from amplint.rules.shared.framework_releases import is_class_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amplint.model import Module

_LIBRARIES = ("lightning", "pytorch_lightning", "lightning_fabric")
_SETUPS = [f"{library}.*{what}" for library in _LIBRARIES for what in ("Trainer", "Fabric")]
_MODULES = [f"{library}.*LightningModule" for library in _LIBRARIES]
_SCALES = (16, "16", "16-mixed")


# Hooks of a LightningModule that 2.0 removed, and what 2.0 no longer gives to others.
_OLD_HOOKS = (
    "training_epoch_end", "validation_epoch_end", "test_epoch_end", "training_step_end", "validation_step_end",
    "test_step_end", "on_epoch_start", "on_epoch_end", "on_batch_start", "on_batch_end", "tbptt_split_batch",
)  # fmt: skip
_OLD_PARAMETER = "optimizer_idx"
# Modules and classes that 2.0 no longer has.
_OLD_NAMES = (
    "pytorch_lightning.metrics", "pytorch_lightning.utilities.distributed", "pytorch_lightning.plugins.training_type",
    "pytorch_lightning.plugins.DDPPlugin", "pytorch_lightning.plugins.DDPSpawnPlugin",
    "pytorch_lightning.plugins.DeepSpeedPlugin", "pytorch_lightning.plugins.DDPShardedPlugin",
    "pytorch_lightning.lite", "pytorch_lightning.utilities.cli", "pytorch_lightning.loggers.TestTubeLogger",
)  # fmt: skip


class Setup(NamedTuple):
    """A construction of a Trainer or a Fabric (`what`), with its `precision` argument."""

    call: ir.Call
    what: str
    precision: ir.Value | None

    def precisions(self, module: Module) -> set[object]:
        """The literals that its precision can be; None among them where it can be something else."""
        if self.precision is None:
            return {None if self.call.unpacks("**") else "32-true"}
        found: set[object] = set()
        for each in dtypes(module, self.precision):
            known = isinstance(each.value, ir.Constant) and isinstance(each.value.value, (int, str))
            found.add(each.value.value if isinstance(each.value, ir.Constant) and known else None)
        return found

    def by_default(self, module: Module) -> object:
        """The literal that its precision is where the command line gives no other; None: none is in sight."""
        first = values_of(module, self.precision).leaves[0] if self.precision is not None else None
        shown = first is not None and isinstance(first.value, ir.Constant) and not first.is_open
        is_option = first is not None and first.doubt is Doubt.DEFAULT
        if first is None or not shown or not (is_option or len(self.precisions(module)) == 1):
            return None
        return first.value.value if isinstance(first.value, ir.Constant) else None

    def scales(self, module: Module) -> bool:
        """Whether it can be float16 as autocast takes it, for which Lightning scales losses."""
        return bool(self.precisions(module) & {*_SCALES})

    def surely_scales(self, module: Module) -> bool:
        """Whether it is float16 as autocast takes it, whatever the program is asked for."""
        return self.precisions(module) <= {*_SCALES}


def setups(module: Module) -> list[Setup]:
    """The Trainers and Fabrics that a file makes."""
    return module.once(_setups)


def _setups(module: Module) -> list[Setup]:
    return [
        Setup(call, what, call.keyword("precision"))
        for call in module.own.near(*module.words(*_SETUPS)).calls
        for what in ("Trainer", "Fabric")
        if is_class_of(module, call.func, _LIBRARIES, what)
    ]


def is_before_2(module: Module) -> bool:
    """Whether a file uses what Lightning 2.0 removed: hooks, their parameters, or names."""
    return module.once(_is_before_2)


def _is_before_2(module: Module) -> bool:
    hooks = (
        each
        for cls in modules(module)
        for each in ir.walk_statements(cls.body, into=False)
        if isinstance(each, ir.Function)
    )
    if any(each.name in _OLD_HOOKS or any(one.name == _OLD_PARAMETER for one in each.params) for each in hooks):
        return True
    imported = (
        each.name
        for bindings in module.program.scope.bindings.values()
        for each in bindings
        if isinstance(each, Imported)
    )
    return any(f"{name}.".startswith(f"{old}.") for name in imported for old in _OLD_NAMES)


def scaling(module: Module, what: str) -> Setup | None:
    """A Trainer or Fabric of the file that scales losses."""
    return next((each for each in setups(module) if each.what == what and each.scales(module)), None)


def modules(module: Module) -> Iterator[ir.Class]:
    """The classes of a file that are LightningModules, those that inherit another one of the file too."""
    words, more = set[str](), set(module.words(*_MODULES))
    while more - words:
        words |= more
        statements = module.whole.near(*sorted(words)).statements
        found = [each for each in statements if isinstance(each, ir.Class) and _is_module(module, each)]
        more |= {each.name for each in found} | {
            name
            for name, bindings in module.program.scope.bindings.items()
            if any(isinstance(each, Imported) and each.what in found for each in bindings)
        }
    yield from filter(module.is_own, found)


def _is_module(module: Module, cls: ir.Class, depth: int = 4) -> bool:
    for base in cls.bases:
        if is_class_of(module, base.value, _LIBRARIES, "LightningModule"):
            return True
        found = module.names.definition(base.value)
        if depth and isinstance(found, ir.Class) and _is_module(module, found, depth - 1):
            return True
    return False


def fabric_of(module: Module, value: ir.Value) -> Setup | None:
    """The construction that a value comes from, where that is one Fabric's and nothing else."""
    made = fabrics(module, value)
    return next((each for each in setups(module) if each.call in made), None) if len(made) == 1 else None
