"""The half-precision reader against torch: every spelling that it knows, on every device, with half and other operands.

Nothing is expected by hand: what the reader says an expression gives is what torch gives, or that it isn't known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from amplint.model.flow.open_regions import Regions
from amplint.model.flow.path_conditions import Conditions
from amplint.model.half.eval_statements import Run
from amplint.model.half.observations import Env
from amplint.model.inference.tensor_types import Kind
from amplint.model.module import Module
from amplint.model.syntax import ir
from amplint.model.torch_facts.op_spellings import CLASSES, SPELLINGS, Gives
from amplint.sources.source import Source
from amplint.verify.bench.simulated_devices import simulated
from amplint.verify.program.files import lowered
from tests import some
from tests.opcalls import fake_region

DEVICES = ("cuda", "xpu", "mps", "cpu")

# What comes behind the first operand, where anything has to.
BEHIND: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            *("add", "atan2", "div", "divide", "dist", "dot", "fmod", "maximum", "minimum", "mul", "multiply", "rsub"),
            *("remainder", "sub", "subtract", "true_divide", "vdot", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div"),
            *("huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "poisson_nll_loss", "eq"),
            *("soft_margin_loss", "hinge_embedding_loss", "ge", "greater", "gt", "le", "less", "lt", "ne", "isclose"),
            *("logical_and", "logical_or", "logical_xor", "allclose", "expand_as", "view_as", "equal"),
        ],
        (", $",),
    ),
    **dict.fromkeys(["clamp", "clip"], (", 0, 1", ", min=1e-8", ", max=$")),
    **dict.fromkeys(["clamp_max", "clamp_min", "fill"], (", 1",)),
    **dict.fromkeys(["softmax", "log_softmax", "softmin", "cumsum", "cumprod", "logcumsumexp"], (", -1", ", dim=0")),
    **dict.fromkeys(["cummax", "cummin", "logsumexp", "unsqueeze", "unbind"], (", 0",)),
    **dict.fromkeys(["chunk", "split", "tensor_split", "topk", "kthvalue"], (", 2",)),
    **dict.fromkeys(["nll_loss", "cross_entropy"], (", i",)),
    "multi_margin_loss": (", i",),
    "multilabel_margin_loss": (", ii",),
    "add": (", $", ", 1e-8", ", $, alpha=2"),
    "repeat_interleave": (", 2",),
    "pow": (", 2", ", $"),
    "lerp": (", $, 0.5",),
    "addcdiv": (", $, $",),
    "addcmul": (", $, $",),
    "tile": (", (2,)",),
    "repeat": (", 2, 2",),
    "roll": (", 1",),
    "normalize": ("", ", dim=-1"),
    "linalg_vector_norm": ("",),
    "norm": ("", ", 2", ", p=2, dim=-1"),
    "std": ("", ", 0"),
    "sum": ("", ", -1", ", dtype=torch.float32"),
    "mean": ("", ", -1", ", dtype=torch.float32"),
    "cosine_similarity": (", $",),
    "matmul": (", $",),
    "mm": (", $",),
    "linear": (", $",),
    "inner": (", $",),
    "linalg_vecdot": (", $",),
    "cdist": (", $",),
    "cross": (", $",),
    "addmm": (", $, $",),
    "prelu": (", $.select(0, 0)",),
    "layer_norm": (", [4]",),
    "rms_norm": (", [4]",),
    "group_norm": (", 2",),
    "gather": (", 0, ii",),
    "index_select": (", 0, i",),
    "index_fill": (", 0, i, 1",),
    "take": (", i",),
    "take_along_dim": (", ii, 0",),
    "masked_fill": (", b, 1",),
    "masked_select": (", b",),
    "masked_scatter": (", b, $",),
    "select": (", 0, 0",),
    "narrow": (", 0, 0, 1",),
    "transpose": (", 0, 1",),
    "swapaxes": (", 0, 1",),
    "swapdims": (", 0, 1",),
    "movedim": (", 0, 1",),
    "permute": (", (1, 0)",),
    "reshape": (", (-1,)",),
    "view": (", -1",),
    "unflatten": (", 0, (2, 2)",),
    "broadcast_to": (", (4, 4)",),
    "expand": (", 4, 4",),
    "flip": (", (0,)",),
    "unfold": (", 0, 2, 2",),
    "bernoulli": ("",),
    "full_like": (", 1",),
    "new_zeros": (", 2",),
    "new_ones": (", 2",),
    "new_full": (", (2,), 1",),
    "new_empty": (", 2",),
    "searchsorted": (", $",),
    "pad": (", (1, 1)", ", (1, 1), 'constant', 0", ", (1, 1), mode='constant'"),
}
# Those whose first argument isn't the first operand, or that need other operands.
WHOLE_CALLS: dict[str, tuple[str, ...]] = {
    "where": ("torch.where(b, $, $)", "torch.where(b, h, 0.0)", "h.where(b, $)"),
    **{
        name: (f"torch.{name}([$, $])", f"torch.{name}(($, h))")
        for name in ["cat", "concat", "stack", "hstack", "vstack"]
    },
    "einsum": ("torch.einsum('ij,jk->ik', $, $)", "torch.einsum('ij,kj->ik', [h, $])"),
    "linalg_multi_dot": ("torch.linalg.multi_dot([$, $])",),
    "tensordot": ("torch.tensordot($, $, 1)",),
    "bmm": ("torch.bmm($.unsqueeze(0), $.unsqueeze(0))", "$.unsqueeze(0).bmm($.unsqueeze(0))"),
    "baddbmm": ("torch.baddbmm($.unsqueeze(0), $.unsqueeze(0), $.unsqueeze(0))",),
    "addbmm": ("torch.addbmm($, $.unsqueeze(0), $.unsqueeze(0))",),
    "mv": ("torch.mv($, $.select(0, 0))",),
    "addmv": ("torch.addmv($.select(0, 0), $, $.select(0, 0))",),
    "addr": ("torch.addr($, $.select(0, 0), $.select(0, 0))",),
    "dot": ("torch.dot($.select(0, 0), $.select(0, 0))",),
    "vdot": ("torch.vdot($.select(0, 0), $.select(0, 0))",),
    "cross": ("torch.cross($.narrow(0, 0, 3), $.narrow(0, 0, 3), dim=0)",),
    "scaled_dot_product_attention": (
        "F.scaled_dot_product_attention($.view(1, 1, 4, 4), $.view(1, 1, 4, 4), $.view(1, 1, 4, 4))",
    ),
    **{
        name: (f"F.{name}($.view({shape}), $.view({kernel}))",)
        for name, shape, kernel in (
            ("conv1d", "1, 1, 16", "4, 1, 4"),
            ("conv2d", "1, 1, 4, 4", "4, 1, 2, 2"),
            ("conv3d", "1, 1, 4, 2, 2", "2, 1, 2, 2, 2"),
            ("conv_transpose1d", "1, 1, 16", "1, 4, 4"),
            ("conv_transpose2d", "1, 1, 4, 4", "1, 4, 2, 2"),
            ("conv_transpose3d", "1, 1, 4, 2, 2", "1, 2, 2, 2, 2"),
        )
    },
    **{
        f"{kind}_pool{n}d": (f"F.{kind}_pool{n}d($.view({shape}), {given})",)
        for kind, given in (("avg", "2"), ("max", "2"), ("adaptive_avg", "1"), ("adaptive_max", "1"))
        for n, shape in ((1, "1, 1, 16"), (2, "1, 1, 4, 4"), (3, "1, 1, 2, 2, 4"))
    },
    "batch_norm": ("F.batch_norm($, x.select(0, 0), x.select(0, 0), training=True)",),
    "instance_norm": ("F.instance_norm($.view(1, 4, 4))",),
    "local_response_norm": ("F.local_response_norm($.view(1, 4, 4), 2)",),
    "cosine_embedding_loss": ("F.cosine_embedding_loss($, $, i)",),
    "margin_ranking_loss": ("F.margin_ranking_loss($, $, ii)",),
    "triplet_margin_loss": ("F.triplet_margin_loss($, $, $)",),
    "fold": ("F.fold($.view(1, 4, 4), (4, 4), (2, 2), stride=2)",),
    **{
        f"dropout{n}d": (f"F.dropout{n}d($.view(1, 1, {shape}), 0.1)",)
        for n, shape in ((1, "16"), (2, "4, 4"), (3, "2, 2, 4"))
    },
    "feature_alpha_dropout": ("F.feature_alpha_dropout($.view(1, 1, 4, 4), 0.1)",),
    "pixel_shuffle": ("F.pixel_shuffle($.view(1, 4, 2, 2), 2)",),
    "pixel_unshuffle": ("F.pixel_unshuffle($.view(1, 1, 4, 4), 2)",),
    "channel_shuffle": ("F.channel_shuffle($.view(1, 4, 2, 2), 2)",),
    "rot90": ("torch.rot90($)",),
    **{
        name: (f"torch.{name}(2, 2)", f"torch.{name}(2, 2, dtype=torch.float16)")
        for name in ("zeros", "ones", "rand", "randn", "empty")
    },
    "eye": ("torch.eye(2)",),
    "linspace": ("torch.linspace(0, 1, 4)",),
    "hann_window": ("torch.hann_window(4)",),
    "one_hot": ("F.one_hot(i)",),
    "bincount": ("torch.bincount(i)",),
    "stft": ("torch.stft($.view(16), 4, return_complex=True)",),
    **{
        f"fft_{n}": (f"torch.fft.{n}($)",)
        for n in ["fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn"]
    },
    "interpolate": ("F.interpolate($.view(1, 1, 4, 4), 8)", "F.interpolate($.view(1, 1, 4, 4), 8, mode='bilinear')"),
    "pdist": ("F.pdist($)",),
    "glu": ("F.glu($)",),
}
# Operators, casts and attributes.
MORE = (
    "$ + $", "h + $", "h + 1e-8", "1 - $", "h - 1", "h * $", "2 * $", "$ / $", "h / 8", "1 / $", "$ / h",
    "$ ** 2", "h ** 0.5", "2 ** $", "$ @ $", "h @ $", "h.t() @ $", "h % 2", "-$", "$ > 0", "h * b", "h * i",
    "i / 2", "i + 1", "i * 0.5", "h[0]", "$[:, None]", "$.T", "$.mT", "$.data", "$.float()", "$.double()",
    "$.half()", "$.bfloat16()", "$.long()", "$.bool()", "$.to(torch.float32)", "$.to(torch.float16)",
    "$.to(h)", "$.to(x.dtype)", "$.type(torch.float32)", "$.type_as(h)", "$.type_as(x)", "$.to(dtype=torch.float32)",
    "torch.max($)", "$.max(1).values", "$.max(dim=1)[0]", "$.min(1)[1]", "torch.max($, $)", "torch.min($, h)",
    "$.topk(2)[0]", "$.sort()[0]", "$.chunk(2)[0]", "torch.split($, 2)[0]", "$.add_(1)", "$.mul_($)",
    "$.clamp_(min=0)", "$.masked_fill_(b, 0)", "$.exp_()", "$.sigmoid_()", "torch.tensor(1.0)", "torch.full((2,), 1.0)",
    "torch.softmax($, -1) * h", "(h @ h).softmax(-1) @ h", "(h @ h).sum() + h.mean()", "h.square().mean().sqrt()",
    "torch.log(h + 1e-8)", "h / h.norm(dim=-1, keepdim=True)", "F.normalize(h) @ F.normalize(h).t()",
    "h * torch.tensor(2.0)",
    "$.softmax(-1, torch.float32)", "torch.zeros_like($, dtype=torch.float32)", "abs($)",
)  # fmt: skip


def forms(spelling: str) -> Iterator[str]:
    """The texts of calls that are spelled so; `$` is the operand."""
    if spelling in WHOLE_CALLS:
        yield from WHOLE_CALLS[spelling]
        return
    for behind in BEHIND.get(spelling, ("",)):
        for home, space in (("torch", torch), ("F", functional), ("torch.special", torch.special)):
            if hasattr(space, spelling):
                yield f"{home}.{spelling}(${behind})"
        if spelling.startswith("linalg_"):
            yield f"torch.linalg.{spelling[7:]}(${behind})"
        if hasattr(torch.Tensor, spelling):
            yield f"$.{spelling}({behind[2:]})"


LAYERS = {
    "Linear": "4, 4", "Conv1d": "4, 4, 1", "Conv2d": "1, 2, 1", "Conv3d": "1, 2, 1", "ConvTranspose1d": "4, 4, 1",
    "ConvTranspose2d": "1, 2, 1", "ConvTranspose3d": "1, 2, 1", "BatchNorm1d": "4", "BatchNorm2d": "1",
    "BatchNorm3d": "1", "SyncBatchNorm": "4", "InstanceNorm1d": "4", "InstanceNorm2d": "1", "LayerNorm": "4",
    "GroupNorm": "2, 4", "RMSNorm": "4", "Softmax": "-1", "LogSoftmax": "-1", "Softmin": "-1", "Unflatten": "0, (2, 2)",
    "PixelShuffle": "1", "Upsample": "scale_factor=2", "PixelUnshuffle": "2",
    **dict.fromkeys([f"{kind}Pool{n}d" for kind in ("Max", "Avg", "AdaptiveAvg") for n in (1, 2, 3)], "1"),
}  # fmt: skip
TWO = {"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "PoissonNLLLoss",
       "HingeEmbeddingLoss", "SoftMarginLoss", "CosineSimilarity"}  # fmt: skip
GIVEN = {
    **dict.fromkeys(TWO, "($, $)"),
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"), "($, i)"),
    "MultiLabelMarginLoss": "($, ii)", "MarginRankingLoss": "($, $, ii)", "CosineEmbeddingLoss": "($, $, i)",
    "TripletMarginLoss": "($, $, $)",
}  # fmt: skip


def layer(name: str) -> str:
    """A text that makes and calls one of torch.nn's layers."""
    shapes = {"1d": "1, 1, 16" if "Pool" in name else "1, 4, 4", "2d": "1, 1, 4, 4", "3d": "1, 1, 2, 2, 4"}
    shape = shapes["2d"] if name.startswith(("Pixel", "Upsample")) else shapes.get(name[-2:])
    operand = f"$.view({shape})" if shape else "$"
    return f"nn.{name}({LAYERS.get(name, '')}).requires_grad_(False){GIVEN.get(name, f'({operand})')}"


EXPRESSIONS = [*(text for each in SPELLINGS for text in forms(each)), *MORE, *map(layer, CLASSES)]
IN_PLACE = re.compile(r"[hx]\.\w+_\(")
HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
h, x = torch.rand(4, 4).to(torch.{low}), torch.rand(4, 4)
i, ii, b = torch.rand(4).long(), torch.rand(4, 4).long(), torch.rand(4, 4).bool()
"""


class Collecting:
    """A run that keeps what is bound to each name, by the call that leads there."""

    def __init__(self, module: Module) -> None:
        self.run = Run(module, Regions(module), Conditions(module))
        self.bound: dict[tuple[int, ...], dict[str, Kind]] = {}
        self._bind = self.run.values.bind
        setattr(self.run.values, "bind", self.bind)  # noqa: B010 - a method is put in the place of one

    def bind(self, target: ir.Value, kind: Kind, env: Env) -> None:
        if isinstance(target, ir.Name):
            self.bound.setdefault(self.run.sites, {})[target.name] = kind
        self._bind(target, kind, env)


def read(texts: list[str], low: str, *regions: str) -> list[list[Kind]]:
    """What the reader says of expressions in each of some regions."""
    lines = [f"    r{number} = {text}" for number, text in enumerate(texts)]
    calls = [f"with {region}:\n    run()" for region in regions]
    module = lowered(Source("t.py", "\n".join([HEAD.format(low=low), "def run():", *lines, *calls])))
    collecting = Collecting(module)
    collecting.run.enter(module.program)
    found = [bound for sites, bound in collecting.bound.items() if sites]
    return [[bound[f"r{number}"] for number in range(len(texts))] for bound in found]


def computed(text: str, names: dict[str, Any]) -> torch.dtype | None:
    """The dtype that torch gives; None where it gives none: an error, a number."""
    try:
        found = eval(text, names)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError, IndexError):
        return None
    return found.dtype if isinstance(found, torch.Tensor) else None


def all_computed(texts: list[str], device: str, low: str) -> dict[str, torch.dtype | None]:
    """The dtypes that torch gives, each for operands that nothing has changed in place."""
    found, names = {}, tensors(device, low)
    for text in texts:
        found[text] = computed(text, names)
        if IN_PLACE.match(text):
            names = tensors(device, low)
    return found


def tensors(device: str, low: str) -> dict[str, Any]:
    def make(*shape: int) -> torch.Tensor:
        return torch.rand(shape, device=device)

    return {
        "torch": torch, "nn": nn, "F": functional, "h": make(4, 4).to(getattr(torch, low)), "x": make(4, 4),
        "i": make(4).long(), "ii": make(4, 4).long(), "b": make(4, 4).bool(),
    }  # fmt: skip


def agrees(kind: Kind, dtype: torch.dtype) -> bool:
    """Whether torch's dtype is the one that the reader says."""
    if kind.what == "half":
        return kind.names == {str(dtype).removeprefix("torch.")}
    if kind.what in ("float32", "float64"):
        return kind.what == str(dtype).removeprefix("torch.")
    if kind.what == "int":
        return not dtype.is_floating_point and not dtype.is_complex
    if kind.what == "floating":
        return dtype in (torch.float16, torch.bfloat16, torch.float32)
    return dtype.is_complex if kind.what == "complex" else kind.what in ("tensor", "unknown")


HALVES = ("float16", "bfloat16")
# Outside of regions all devices are alike.
PLACES = [*product(DEVICES, HALVES, [True]), *product(["cpu"], HALVES, [False])]
ALWAYS = [(device, "float16", True) for device in DEVICES]
TEXTS = list(dict.fromkeys(each.replace("$", operand) for each in EXPRESSIONS for operand in ("h", "x")))


@cache
def said(low: str) -> dict[tuple[str, bool], list[Kind]]:
    """What the reader says of the expressions on each device, in a region and outside of all."""
    places = [(device, on) for device, half, on in PLACES if half == low]
    inside = [f"torch.autocast('{device}', dtype=torch.{low})" if on else "torch.no_grad()" for device, on in places]
    return dict(zip(places, read(TEXTS, low, *inside), strict=True))


@cache
def compared(device: str, low: str, on: bool) -> list[tuple[str, Kind, torch.dtype | None]]:
    """Each expression with what the reader says of it and what torch gives."""
    dtype, found = getattr(torch, low), dict[str, torch.dtype | None]()
    if device != "cpu":
        with fake_region(device, dtype, enabled=on), torch.no_grad(), torch.device(device):
            found = all_computed(TEXTS, device, low)
    # Where tensors without data don't do: the same kernels in Python, on the CPU.
    python = simulated(device) if device != "cpu" else nullcontext()
    with python, torch.autocast(device, dtype, enabled=on), torch.no_grad():
        found |= all_computed([text for text in TEXTS if found.get(text) is None], "cpu", low)
    return [(text, kind, found[text]) for text, kind in zip(TEXTS, said(low)[device, on], strict=True)]


@pytest.mark.parametrize(
    ("device", "low", "on"),
    # Those that are compared anyway, and two of the others; with AMPLINT_TEST_ALL=1 all.
    [*ALWAYS, *some([each for each in PLACES if each not in ALWAYS], 2)],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_said_is_what_torch_gives(device: str, low: str, on: bool) -> None:
    wrong = [
        (text, kind.what, dtype)
        for text, kind, dtype in compared(device, low, on)
        if dtype is not None and not agrees(kind, dtype)
    ]
    assert wrong == []


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore")
def test_little_is_not_known(device: str) -> None:
    found = [kind.what for _, kind, dtype in compared(device, "float16", True) if dtype is not None]
    assert len(found) > 1100
    assert sum(what in ("tensor", "unknown") for what in found) < 0.03 * len(found)


@pytest.mark.filterwarnings("ignore")
def test_every_spelling_and_layer_is_run() -> None:
    ran = {text for device in DEVICES for text, _, dtype in compared(device, "float16", True) if dtype is not None}
    several = (Gives.PIECES, Gives.PAIR)  # `MORE` has those with an index
    for name, how in SPELLINGS.items():
        texts = {text.replace("$", operand) for text in forms(name) for operand in "hx"}
        assert texts & ran or how.gives in several or name in ("allclose", "equal"), name
    for name in CLASSES:
        assert layer(name).replace("$", "h") in ran or name == "BCELoss", name
