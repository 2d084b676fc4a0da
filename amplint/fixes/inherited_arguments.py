"""What the old autocast pins and the new one inherits: dtype and weight cache, where a file has others to inherit.

torch.cuda.amp.autocast() is float16 with the cache on whatever surrounds it; torch.autocast("cuda") takes the dtype and
the cache of an outer region, and the default that torch.set_autocast_dtype set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amplint.model.inference.devices import region_devices
from amplint.model.objects.autocast_objects import Region, region_of
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Imported
from amplint.model.syntax.queries import is_false
from amplint.model.torch_facts.deprecated_names import Legacy
from amplint.model.torch_facts.names import DEFAULT_DTYPE
from amplint.model.torch_facts.signatures import OLD_ORDER
from amplint.model.usage.mentions_of import near_regions

if TYPE_CHECKING:
    from amplint.model import Module


class Pins(NamedTuple):
    """The arguments that keep an old call's meaning; or, where they can't be written, the `doubt` about it."""

    arguments: tuple[str, ...] = ()
    doubt: str | None = None


def pins(module: Module, legacy: Legacy, call: ir.Call, skip: int = 0) -> Pins:
    """What a call of the old autocast has to say as well; its own arguments start behind the first `skip`."""
    given = dict(zip(OLD_ORDER, call.positional[skip:], strict=False)) | call.keywords
    dtype = "dtype" not in given and not is_false(given.get("enabled")) and _another_dtype(module, legacy.device)
    cache = "cache_enabled" not in given and _another_cache(module)
    default = DEFAULT_DTYPE[legacy.device]
    torch = module_name(module, "torch")
    if dtype and (torch is None or call.unpacks("**")):
        what = f"without `dtype`, the old class uses {default}, but the new class uses the dtype of an outer region"
        return Pins(doubt=what)
    if cache and call.unpacks("**"):
        return Pins(doubt="the old class caches weights, but the new class uses the `cache_enabled` of an outer region")
    arguments = (f"dtype={torch}.{default}",) if dtype else ()
    return Pins((*arguments, "cache_enabled=True") if cache else arguments)


def _another_dtype(module: Module, device: str) -> bool:
    """Whether the file shows a dtype for the device that is not its default."""
    for call in filter(module.is_own, near_regions(module).calls):
        name = _called(call)
        if name.startswith("set_autocast_") and name.endswith("dtype"):
            return True
        region = region_of(module, call)
        given = region.dtype if region is not None else call.keyword("dtype") if "autocast" in name else None
        if given is None or module.names.of(given) <= {f"torch.{DEFAULT_DTYPE[device]}"}:
            continue
        if _same_device(module, region, device):
            return True
    return False


def _another_cache(module: Module) -> bool:
    """Whether the file may switch the weight cache off."""
    for call in filter(module.is_own, near_regions(module).calls):
        name = _called(call)
        if name == "set_autocast_cache_enabled":
            return True
        region = region_of(module, call)
        given = region.cache_enabled if region is not None else None
        if region is None and "autocast" in name:
            given = call.keyword("cache_enabled")
        if given is not None and not (isinstance(given, ir.Constant) and given.value is True):
            return True
    return False


def _called(call: ir.Call) -> str:
    return ir.last_name(call.func)


def _same_device(module: Module, region: Region | None, device: str) -> bool:
    """Whether a region can be for the device."""
    return region is None or any(each.type in (None, device) for each in region_devices(module, region))


def module_name(module: Module, qualified: str) -> str | None:
    """The module-level name that an import binds to the module `qualified` and nothing else."""
    for name, bindings in module.program.scope.bindings.items():
        if all(isinstance(each, Imported) and each.name == qualified for each in bindings):
            return name
    return None
