"""Every op gives on simulated devices the dtype that it gives on real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from amplint.model.torch_facts.autocast_ops import OP_LISTS
from amplint.verify.bench.simulated_devices import DEVICES, simulated
from tests import some
from tests.opcalls import CALLS, Make, fake_region, large, one_thread, outcome, takes_another

pytestmark = pytest.mark.usefixtures(one_thread.__name__)

OWN_ERRORS = ("at::autocast::", "unsafe to autocast")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# Ops that have no kernel on the CPU, or one that this processor may lack.
NO_KERNEL = {
    *("_mps_convolution", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell"),
    *("cudnn_convolution", "cudnn_convolution_transpose", "mkldnn_rnn_layer"),
}
# Ops without a kernel for half precision on the CPU. They count only where the device runs them in half precision.
NO_HALF = {
    *("_lu_with_info", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "avg_pool3d", "cholesky"),
    *("cholesky_inverse", "cholesky_solve", "ctc_loss.IntList", "ctc_loss.Tensor", "geqrf", "linalg_cholesky"),
    *("linalg_cholesky_ex", "linalg_cond", "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh"),
    *("linalg_householder_product", "linalg_lstsq", "linalg_matrix_rank", "linalg_matrix_rank.tol_tensor"),
    *("linalg_qr", "linalg_solve", "linalg_svd", "linalg_svdvals", "linalg_tensorsolve", "lu_solve"),
    *("multilabel_margin_loss_forward", "orgqr", "ormqr", "polar", "qr", "stft", "stft.center", "svd"),
    "triangular_solve",
    *(op for op in CALLS if op.startswith("fft_")),
}
# Ops that tensors without data can't be given to, for want of the device's library or of values.
NO_REFERENCE = {
    *("batch_norm", "ctc_loss.IntList", "ctc_loss.Tensor", "geqrf"),
    *("fake_quantize_per_tensor_affine", "grid_sampler", "grid_sampler_2d", "gru_cell", "linalg_lstsq", "lstm_cell"),
}
# cuda's reference has it, and it shares the other two's entry on the list.
NO_OTHER_REFERENCE = {"scaled_dot_product_attention"}
# Ops whose stand-in for tensors without data doesn't call the ops that the real one is made of, which are listed.
OTHER_STAND_IN = {"_native_multi_head_attention", "pinverse", "vdot"}
# Ops whose stand-in takes mixed dtypes where the real one raises.
STRICTER = {"cross", "index_copy", "index_put", "batch_norm"}


# The ops' calls, and those of them for which the other dtype matters.
OPS = [op for op in CALLS if "_cpu_" not in op]
OF_TWO_DTYPES = [op for op in OPS if takes_another(op)]


def outcomes(
    device: str, dtype: torch.dtype, other: torch.dtype, ops: Iterable[str]
) -> dict[str, list[torch.dtype] | str]:
    return {op: outcome(op, Make(device, dtype, other)) for op in ops}


def excused(device: str, op: str, dtype: torch.dtype, other: torch.dtype, real: object, found: object) -> bool:
    if op in NO_KERNEL:
        return isinstance(found, str)
    if isinstance(real, str) and isinstance(found, str) and op not in NO_REFERENCE | OTHER_STAND_IN:
        # Autocast's own errors are told apart, those of kernels are worded as each likes.
        return [each in real for each in OWN_ERRORS] == [each in found for each in OWN_ERRORS]
    if isinstance(found, str) and op in NO_HALF and op not in OP_LISTS[device]:
        return torch.float16 in (dtype, other) or torch.bfloat16 in (dtype, other)
    if isinstance(real, str):
        return op in NO_REFERENCE or (device != "cuda" and op in NO_OTHER_REFERENCE) or op in OTHER_STAND_IN
    if isinstance(found, str) and op in STRICTER:
        return dtype is not other
    return op in OTHER_STAND_IN


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_every_op_gives_the_dtype_that_it_gives_on_the_device(device: str, low: torch.dtype) -> None:
    wrong, compared = [], set()
    # All pairs with one half on one device, on the others half of them, with AMPLINT_TEST_ALL=1 all; with the other
    # half, which differs from the first in its name, each dtype beside float32, or half of them.
    every = [(a, b) for a in DTYPES for b in dict.fromkeys((a, torch.float32, torch.float16))]
    pairs = every if device == "cuda" else some(every, len(every) // 2)
    beside = [(a, torch.float32) for a in DTYPES]
    named = beside if device == "cuda" else some(beside, 2)
    called = set()
    for dtype, other in pairs if low is torch.float16 else named:
        ops = OF_TWO_DTYPES if dtype in called else OPS
        called.add(dtype)
        with fake_region(device, low):
            real = outcomes(device, dtype, other, ops)
        with simulated(device), torch.autocast(device, low):
            found = outcomes(device, dtype, other, ops)
        for op in real:
            if isinstance(real[op], list) and real[op] == found[op]:
                compared.add(op)
            elif not excused(device, op, dtype, other, real[op], found[op]):
                wrong.append((op, dtype, other, real[op], found[op]))
    assert wrong == []
    # Only what can't be called at all was never compared.
    banned = {"binary_cross_entropy"} if device != "mps" else set()
    assert set(OP_LISTS[device]) - compared <= NO_KERNEL | NO_REFERENCE | NO_OTHER_REFERENCE | banned


@pytest.mark.parametrize("device", DEVICES)
def test_a_dtype_that_is_asked_for_is_given(device: str) -> None:
    half, double = torch.float16, torch.float64
    with simulated(device), torch.autocast(device):
        x = torch.rand(4, 4).half()
        found = [x.sum(dtype=half), x.cumsum(0, dtype=half), x.softmax(-1, half), x.prod(0, dtype=double)]
        assert [each.dtype for each in found] == [half, half, half, double]
        assert [x.softmax(-1).dtype, x.int().sum().dtype] == [torch.float32, torch.int64]
        assert [x.double().sum().dtype, x.double().softmax(-1).dtype] == [double, double]


STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "matmul": torch.matmul,
    "atan2": torch.atan2,
    "where": lambda x, y: torch.where(x > 0.5, x, y),
    "cat": lambda x, y: torch.cat([x, y]).narrow(0, 2, 4),
    "mse": lambda x, y: functional.mse_loss(x, y, reduction="none"),
    "addcmul": lambda x, y: torch.addcmul(x, y, x),
    "linear": functional.linear,
    "addmm": lambda x, y: torch.addmm(x, y, x),
    "cdist": torch.cdist,
    "einsum": lambda x, y: torch.einsum("ij,jk->ik", x, y),
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs() + 1),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x.abs() + 1).rsqrt(),
    "inverse": lambda x: 1 / (x.abs() + 1),
    "square": lambda x: x**2,
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
    "softplus": functional.softplus,
    "clamp": lambda x: x.clamp(min=1e-3),
    "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(0),
    "sum": lambda x: x.sum(0, keepdim=True).expand(4, 4),
    "mean": lambda x: x.mean(0, keepdim=True).expand(4, 4),
    "std": lambda x: x.std(0, keepdim=True).expand(4, 4),
    "norm": lambda x: x.norm(dim=0, keepdim=True).expand(4, 4),
    "normalize": functional.normalize,
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "instance_norm": lambda x: functional.instance_norm(x.unsqueeze(0)).squeeze(0),
    "in place": lambda x: x.clone().add_(x.float()),
    "half": lambda x: x.half(),
    "float": lambda x: x.float(),
}
_TWO = list(STEPS)[: list(STEPS).index("exp")]
_ONE = list(STEPS)[list(STEPS).index("exp") :]
EXPRESSIONS = st.recursive(
    st.sampled_from(["weight", "half input", "input"]),
    lambda inner: st.tuples(st.sampled_from(_ONE), inner) | st.tuples(st.sampled_from(_TWO), inner, inner),
    max_leaves=6,
)


def evaluated(expression: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    if isinstance(expression, str):
        return tensors[expression]
    return STEPS[expression[0]](*(evaluated(each, tensors) for each in expression[1:]))


def result(expression: Any, device: str, trained: bool) -> object:
    x = torch.rand(4, 4, device=device)
    tensors = {"weight": x.clone().requires_grad_(trained), "half input": x.half(), "input": x}
    try:
        return evaluated(expression, tensors).dtype
    except RuntimeError:
        return RuntimeError


@settings(max_examples=60, derandomize=True)
@given(expression=EXPRESSIONS)
@pytest.mark.parametrize("device", DEVICES)
def test_expressions_give_the_dtype_that_they_give_on_the_device(device: str, expression: Any) -> None:
    with fake_region(device, torch.float16):
        # Autograd aborts on tensors of a device that isn't there.
        real = result(expression, device, trained=False)
    with simulated(device), torch.autocast(device):
        assert result(expression, device, trained=True) is real


@pytest.mark.parametrize("device", DEVICES)
def test_squares_overflow_only_where_the_device_has_them_in_half_precision(device: str) -> None:
    x, one = large(), torch.eye(64)
    with torch.autocast("cpu", torch.float16):
        z = x @ one
        assert [(z**2).mean().isinf(), (z * z).mean().isinf(), z.abs().sum().isinf()] == [True, True, True]
    with simulated(device), torch.autocast(device):
        z = x @ one
        power, product, total = (z**2).mean(), (z * z).mean(), z.abs().sum()
        assert [each.dtype for each in (power, product, total)] == [torch.float32, torch.float16, torch.float32]
        assert product.isinf()
        torch.testing.assert_close(power, x.pow(2).mean(), rtol=1e-3, atol=0)
        torch.testing.assert_close(total, x.abs().sum(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_binary_cross_entropy_is_banned(device: str) -> None:
    p, y = torch.rand(4), torch.rand(4)
    with fake_region(device, torch.float16), pytest.raises(RuntimeError) as real:
        functional.binary_cross_entropy(torch.rand(4, device=device), torch.rand(4, device=device))
    with simulated(device):
        with torch.autocast(device), pytest.raises(RuntimeError) as found:
            functional.binary_cross_entropy(p, y)
        with torch.autocast(device), torch.autocast(device, enabled=False):
            inside = functional.binary_cross_entropy(p, y)
    assert str(found.value) == str(real.value)
    assert inside == functional.binary_cross_entropy(p, y)
    with simulated("mps"), torch.autocast("mps"):
        assert functional.binary_cross_entropy(p.half(), y.half()).dtype is torch.float16


@pytest.mark.parametrize("op", [lambda w, x: x @ w, lambda w, x: torch.mv(w, x.select(0, 0))], ids=["mm", "mv"])
def test_weights_are_converted_once_a_region(op: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    """torch.mm keeps the CPU's kernel, torch.mv has one of the simulation's: both remember, and both forget."""
    x = torch.ones(4, 4)

    def changes(clear: bool = False, **kwargs: Any) -> bool:
        weight = nn.Parameter(torch.ones(4, 4))
        with torch.autocast("cuda", **kwargs):
            with torch.no_grad():
                first = op(weight, x)
                weight.mul_(2)
            if clear:
                torch.clear_autocast_cache()
            second = op(weight, x)
        second.sum().backward()
        assert weight.grad is not None
        with torch.autocast("cuda"):
            assert torch.equal(op(weight, x), 2 * first)
        return not torch.equal(first, second)

    with simulated("cuda"):
        assert [changes(), changes(clear=True), changes(cache_enabled=False)] == [False, True, True]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_cudnns(layer: type[nn.RNNBase]) -> None:
    with simulated("cuda"):
        model = layer(4, 4).to("cuda")
        with torch.autocast("cuda"):
            out, hidden = model(torch.rand(3, 2, 4))
            assert [out.dtype, hidden[0].dtype] == [torch.float16, torch.float16]
            assert model(torch.rand(3, 2, 4))[0].sum().dtype is torch.float32
            with torch.no_grad():
                for each in model.parameters():
                    each.zero_()
            assert not model(torch.rand(3, 2, 4))[0].any()
        out.float().sum().backward()
    assert all(each.grad is not None and each.grad.dtype is torch.float32 for each in model.parameters())
