"""What an interpreted program may reach of torch and Python: these names, and nothing else.

None of it reads or writes a file, starts a process, opens a connection or looks a name up.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from packaging.version import Version
from torch.amp.grad_scaler import OptState
from torch.nn import functional

from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.model.syntax.scopes import NOTHING, UNKNOWN
from amplint.model.torch_facts.names import AUTOCAST, OLD_AUTOCAST, SCALERS
from amplint.verify.interpreter.standins import Dotted
from amplint.verify.program.program import Code

_DTYPES = ("float16", "half", "bfloat16", "float32", "float", "float64", "double", "int64", "long", "int32", "bool")
# Functions of tensors that neither keep nor change anything, and make nothing larger than what they are given.
_OF_TENSORS = (
    "abs", "all", "allclose", "any", "clamp", "dot", "exp", "isfinite", "isinf", "isnan", "log", "logsumexp", "max",
    "maximum", "mean", "min", "minimum", "mul", "nan_to_num", "norm", "ones_like", "sigmoid", "sign", "softmax",
    "sqrt", "square", "stack", "sub", "sum", "tanh", "where", "zeros_like", "is_tensor",
)  # fmt: skip
_SETTINGS = ("is_autocast_enabled", "get_autocast_gpu_dtype", "get_autocast_dtype", "is_grad_enabled")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"torch.{name}": getattr(torch, name) for name in (*_OF_TENSORS, *_SETTINGS)},
    "torch.empty_like": torch.zeros_like,  # what is in memory is no number to go by
    "torch.linalg.norm": torch.linalg.norm,
    "torch.linalg.vector_norm": torch.linalg.vector_norm,
    "torch.nn.utils.get_total_norm": getattr(torch.nn.utils, "get_total_norm", torch.linalg.vector_norm),
    "torch.nn.functional.softplus": functional.softplus,
    "torch.nn.functional.relu": functional.relu,
    "torch.nn.functional.softmax": functional.softmax,
    "torch.nn.functional.log_softmax": functional.log_softmax,
    **{f"math.{name}": getattr(math, name) for name in ("sqrt", "isnan", "isinf", "isfinite", "ceil", "floor", "log")},
}
FUNCTIONS |= dict.fromkeys(
    ("packaging.version.parse", "packaging.version.Version", "pkg_resources.parse_version"), Version
)
# Makes a context; `torch.set_grad_enabled` acts at once as well, as it does in a program.
CONTEXTS: dict[str, Callable[..., Any]] = {
    "torch.no_grad": torch.no_grad,
    "torch.enable_grad": torch.enable_grad,
    "torch.inference_mode": torch.inference_mode,
    "torch.set_grad_enabled": torch.set_grad_enabled,
    "torch.autograd.set_detect_anomaly": contextlib.nullcontext,
    "contextlib.nullcontext": contextlib.nullcontext,
}
REGIONS = {AUTOCAST, *OLD_AUTOCAST}
# Wrappers of models that leave the model what it is.
SAME = {
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.DataParallel",
    "torch.compile",
    "torch.cuda.make_graphed_callables",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "tqdm.tqdm",
    "tqdm.auto.tqdm",
    "tqdm.notebook.tqdm",
    "tqdm.trange",
}
# What makes of a model another one, with parameters of its own.
COPIES = {"copy.deepcopy", "torch.optim.swa_utils.AveragedModel"}
# Methods of an unseen object that hand the object itself back, or what it holds in another form or place.
SAME_METHODS = {
    "to", "cuda", "cpu", "xpu", "npu", "float", "half", "bfloat16", "train", "eval", "contiguous", "requires_grad_",
}  # fmt: skip

# Attributes and methods by type: of a scaler, an optimizer, a tensor, containers, regions.
ATTRIBUTES: list[tuple[type, frozenset[str]]] = [
    (torch.amp.GradScaler, frozenset(("_scale", "_enabled", "_per_optimizer_states"))),
    (torch.optim.Optimizer, frozenset(("param_groups",))),
    (
        torch.Tensor,
        frozenset(("grad", "data", "dtype", "shape", "requires_grad", "is_leaf", "is_sparse", "ndim", "grad_fn")),
    ),
    (torch.device, frozenset(("type", "index"))),
]
METHODS: list[tuple[type, frozenset[str]]] = [
    (
        torch.amp.GradScaler,
        frozenset((
            "scale", "unscale_", "step", "update", "get_scale", "is_enabled", "get_growth_factor",
            "get_backoff_factor", "get_growth_interval", "_check_inf_per_device", "state_dict",
        )),
    ),
    (torch.optim.Optimizer, frozenset(("step", "zero_grad", "state_dict"))),
    (
        torch.Tensor,
        frozenset((
            "abs", "all", "any", "backward", "clamp", "clamp_", "clip", "clip_", "clone", "cpu", "cuda", "detach",
            "detach_", "dim", "div", "div_", "double", "exp", "float", "half", "bfloat16", "item", "isfinite",
            "isinf", "isnan", "log", "max", "mean", "min", "mul", "mul_", "neg", "norm", "nelement", "numel", "pow",
            "requires_grad_", "sigmoid", "sign", "size", "sqrt", "square", "sub", "sum", "sub_", "tolist", "add",
            "add_", "to", "type", "zero_", "copy_", "data_ptr", "nan_to_num", "nan_to_num_", "exp_", "fill_",
            "sigmoid_", "tanh", "normal_", "uniform_", "xpu", "clamp_min", "clamp_max", "is_floating_point",
        )),
    ),
    (dict, frozenset(("get", "items", "keys", "values", "update", "pop", "setdefault"))),
    (list, frozenset(("append", "extend", "clear", "pop", "copy", "index", "insert", "reverse"))),
    (tuple, frozenset(("index", "count"))),
    (str, frozenset(("lower", "upper", "startswith", "endswith", "strip"))),
    (torch.autocast, frozenset(("__enter__", "__exit__"))),
    (contextlib.nullcontext, frozenset(("__enter__", "__exit__"))),
]  # fmt: skip
# Methods of an unseen object that only a tensor has; what has them is no model.
OPS = {"abs", "clamp", "exp", "max", "mean", "min", "mul", "neg", "norm", "pow", "sigmoid", "sqrt", "square", "sum"}
# Methods of an unseen object that say which parameters it has.
OF_PARAMETERS = {"parameters", "named_parameters", "trainable_parameters", "get_parameters", "params"}

# Methods of a model that go through it and its modules.
MODULES = {"modules", "named_modules"}


def constant(name: str) -> Any:
    """The value of a qualified name that is one: a dtype, a number; None: it is none."""
    if name.startswith("torch.") and name.removeprefix("torch.") in _DTYPES:
        return getattr(torch, name.removeprefix("torch."))
    if name in ("torch.__version__", "torch.version.__version__"):
        return str(torch.__version__)
    if name in ("math.inf", "torch.inf", "numpy.inf"):
        return math.inf
    owner, _, last = name.rpartition(".")
    if owner.endswith("amp.grad_scaler.OptState"):
        return getattr(OptState, last, None)
    return None


def context(made: Dotted, args: list[Any]) -> Any:
    """What one of `CONTEXTS` makes of its arguments."""
    if made.name == "torch.set_grad_enabled" and args and isinstance(args[0], bool):
        return torch.set_grad_enabled(args[0])
    if made.name in ("torch.set_grad_enabled", "torch.autograd.set_detect_anomaly", "contextlib.nullcontext"):
        return contextlib.nullcontext(args[0] if args and made.name == "contextlib.nullcontext" else None)
    return CONTEXTS[made.name]()


def library(code: Code, value: ir.Value) -> Any:
    """The object of a library that a name or attribute stands for; None: it stands for none."""
    return code.known(_library, value)


def _library(code: Code, value: ir.Value) -> Any:
    base: ir.Value = value
    while isinstance(base, ir.Attribute) and code.files.of(code, base) is None:
        base = base.base
    if code.files.of(code, base) is not None:
        return None  # it is of another file of the program, or of what that has made
    found = code.module.names.of(value)
    if UNKNOWN in found and isinstance(base, ir.Name) and UNKNOWN in code.module.names.of(base):
        return None  # or the variable is something else: its bindings' conditions say
    names = sorted(found - {UNKNOWN, NOTHING})
    names = [each for each in names if each[0] not in ".!"]
    if not names or (isinstance(value, ir.Name) and _is_chosen(code, value, {*names})):
        return None
    name = next((each for each in names if each.startswith("torch.amp.")), names[0])
    known = constant(name)
    return Dotted(name) if known is None else known


def _is_chosen(code: Code, value: ir.Name, names: set[str]) -> bool:
    """Whether a variable is assigned a region's or scaler's class or something else, as the program runs."""
    of_amp = names & {*REGIONS, *SCALERS}
    assigned = any(isinstance(each, Assigned) for each in code.module.names.bindings(value))
    return bool(of_amp and names - of_amp) and assigned
