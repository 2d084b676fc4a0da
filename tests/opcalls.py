"""A call of every op on autocast's lists, and tensors of devices that aren't there to make it with.

`CALLS[op](x)` are the arguments of an op, by the dispatcher's name: `x(4, 3)` makes a tensor of the dtype
under test, `x.wide(4, 3)` one of another (float32 unless said), `x.index(4, 3)` one of zeros (int64).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def large() -> torch.Tensor:
    """Too large for the sum of its squares in float16."""
    return torch.randn(64, 64) * 300


class Make(NamedTuple):
    """Makes tensors, all values between 0 and 1."""

    device: str
    dtype: torch.dtype
    other: torch.dtype = torch.float32

    def __call__(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, device=self.device).to(self.dtype)

    def wide(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, device=self.device).to(self.other)

    def eye(self, size: int) -> torch.Tensor:
        return torch.eye(size, device=self.device).to(self.dtype)

    def index(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, device=self.device, dtype=torch.int64)

    def pivots(self, size: int) -> torch.Tensor:
        return torch.ones(size, device=self.device, dtype=torch.int32)


Arguments = Callable[[Make], tuple[Any, ...]]


@contextmanager
def fake_region(device: str, dtype: torch.dtype, *, enabled: bool = True) -> Iterator[None]:
    """An autocast region on a device that needn't be there: its real autocast kernels on tensors without data."""
    before = torch.get_autocast_dtype(device)
    # It logs each error that it raises.
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.disabled = True
    with FakeTensorMode():
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
        try:
            yield
        finally:
            torch.set_autocast_enabled(device, False)
            torch.set_autocast_dtype(device, before)
            torch.clear_autocast_cache()
            log.disabled = False


def outcome(op: str, make: Make) -> list[torch.dtype] | str:
    """The dtypes of an op's results, or the start of the message of its error."""
    base, _, overload = op.partition(".")
    try:
        results = getattr(getattr(torch.ops.aten, base), overload or "default")(*CALLS[op](make))
    except (RuntimeError, NotImplementedError, AssertionError, AttributeError) as error:
        return str(error).splitlines()[0]
    return [each.dtype for each in tree_flatten(results)[0] if isinstance(each, torch.Tensor)]


def takes_another(op: str) -> bool:
    """Whether an op's call has tensors of the other dtype."""
    arguments = tree_flatten(CALLS[op](Make("meta", torch.float32, torch.float64)))[0]
    return any(isinstance(each, torch.Tensor) and each.dtype is torch.float64 for each in arguments)


def _alike(ops: str, arguments: Arguments) -> dict[str, Arguments]:
    return dict.fromkeys(ops.split(), arguments)


def _one(x: Make) -> tuple[Any, ...]:
    return (x(4, 4),)


def _two(x: Make) -> tuple[Any, ...]:
    return x(4, 4), x(4, 4)


def _labels(x: Make) -> tuple[Any, ...]:
    return x(4, 4), x.index(4)


def _mixed(x: Make) -> tuple[Any, ...]:
    return x(4), x.wide(4)


def _fft(x: Make) -> tuple[Any, ...]:
    return (x(4, 8),)


def _eye(x: Make) -> tuple[Any, ...]:
    return (x.eye(4),)


def _eyes(x: Make) -> tuple[Any, ...]:
    return x.eye(4), x(4, 4)


def _image(*size: int) -> Arguments:
    return lambda x: (x(1, 1, *size), [2 * each for each in size])


def _conv(dims: int) -> Arguments:
    return lambda x: (x(1, 1, *[4] * dims), x(1, 1, *[2] * dims))


def _same_conv(dims: int) -> Arguments:
    return lambda x: (x(1, 1, *[4] * dims), x(1, 1, *[2] * dims), None, [1] * dims, "same")


def _full_conv(x: Make) -> tuple[Any, ...]:
    return (x(1, 1, 4, 4), x(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)


def _cell(gates: int) -> Arguments:
    return lambda x: (x(2, 4), x(2, 4), x(4 * gates, 4), x(4 * gates, 4))


def _heads(x: Make) -> tuple[Any, ...]:
    return x(1, 1, 4, 8), x(1, 1, 4, 8), x(1, 1, 4, 8)


CALLS: dict[str, Arguments] = {
    # products
    "_addmm_activation": lambda x: (x(4), x(4, 4), x(4, 4)),
    "_convolution": lambda x: (*_full_conv(x), False, False, True, True),
    "_convolution.deprecated": lambda x: (*_full_conv(x), False, False, True),
    "_mps_convolution": lambda x: (x(1, 1, 4, 4), x(1, 1, 2, 2), None, [0, 0], [1, 1], [1, 1], 1),
    "_native_multi_head_attention": lambda x: (
        *(x(1, 4, 8), x(1, 4, 8), x(1, 4, 8)),
        *(8, 2, x(24, 8), x(24), x(8, 8), x(8)),
    ),
    "_scaled_dot_product_flash_attention": _heads,
    "_thnn_fused_gru_cell": lambda x: (x(2, 12), x(2, 12), x(2, 4), x(12), x(12)),
    "_thnn_fused_lstm_cell": lambda x: (x(2, 16), x(2, 16), x(2, 4), x(16), x(16)),
    "addbmm": lambda x: (x(4, 4), x(2, 4, 4), x(2, 4, 4)),
    "addmm": lambda x: (x(4, 4), x(4, 4), x(4, 4)),
    "addmv": lambda x: (x(4), x(4, 4), x(4)),
    "addr": lambda x: (x(4, 4), x(4), x(4)),
    "baddbmm": lambda x: (x(2, 4, 4), x(2, 4, 4), x(2, 4, 4)),
    "bmm": lambda x: (x(2, 4, 4), x(2, 4, 4)),
    "chain_matmul": lambda x: ([x(4, 4), x(4, 4)],),
    "conv1d": _conv(1),
    "conv1d.padding": _same_conv(1),
    "conv2d": _conv(2),
    "conv2d.padding": _same_conv(2),
    "conv3d": _conv(3),
    "conv3d.padding": _same_conv(3),
    "conv_tbc": lambda x: (x(4, 2, 3), x(2, 3, 5), x(5)),
    "conv_transpose1d": _conv(1),
    "conv_transpose2d.input": _conv(2),
    "conv_transpose3d.input": _conv(3),
    "convolution": _full_conv,
    "cudnn_convolution": lambda x: (
        *(x(1, 1, 4, 4), x(1, 1, 2, 2)),
        *([0, 0], [1, 1], [1, 1], 1, False, False, False),
    ),
    "cudnn_convolution_transpose": lambda x: (
        *(x(1, 1, 4, 4), x(1, 1, 2, 2)),
        *([0, 0], [0, 0], [1, 1], [1, 1], 1, False, False, False),
    ),
    "einsum": lambda x: ("ij,jk->ik", [x(4, 4), x(4, 4)]),
    "gru_cell": _cell(3),
    "linalg_multi_dot": lambda x: ([x(4, 4), x(4, 4), x(4, 4)],),
    "linalg_vecdot": _two,
    "linear": _two,
    "lstm_cell": lambda x: (x(2, 4), [x(2, 4), x(2, 4)], x(16, 4), x(16, 4)),
    "matmul": _two,
    "mkldnn_rnn_layer": lambda x: (
        *(x(3, 2, 4), x(16, 4), x(16, 4), x(16), x(16), x(2, 4), x(2, 4)),
        *(False, [], 2, 4, 1, True, False, False, False),
    ),
    "mm": _two,
    "mv": lambda x: (x(4, 4), x(4)),
    "prelu": lambda x: (x(4, 3), x(3)),
    "rnn_relu_cell": _cell(1),
    "rnn_tanh_cell": _cell(1),
    "scaled_dot_product_attention": _heads,
    # elementwise
    **_alike("acos asin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh softplus tan", _one),
    "pow.Scalar": lambda x: (2, x(4)),
    "pow.Tensor_Scalar": lambda x: (x(4), 2),
    "pow.Tensor_Tensor": lambda x: (x(4), x(4)),
    "polar": lambda x: (x(4), x(4)),
    "view_as_complex": lambda x: (x(4, 2),),
    "fake_quantize_per_tensor_affine": lambda x: (x(4), 1.0, 0, 0, 255),
    # normalisation
    "batch_norm": lambda x: (x(2, 3, 4), x.wide(3), x.wide(3), x.wide(3), x.wide(3), True, 0.1, 1e-5, False),
    "group_norm": lambda x: (x(2, 4, 4), 2),
    "layer_norm": lambda x: (x(4, 4), [4]),
    "native_layer_norm": lambda x: (x(4, 4), [4], None, None, 1e-5),
    "rms_norm": lambda x: (x(4, 4), [4]),
    "renorm": lambda x: (x(4, 4), 2, 0, 1.0),
    # sums, norms and distances
    "cdist": _two,
    "cosine_similarity": _two,
    "cumprod": lambda x: (x(4, 4), 0),
    "cumsum": lambda x: (x(4, 4), 0),
    "dist": _two,
    "frobenius_norm.dim": lambda x: (x(4, 4), [0, 1]),
    "linalg_matrix_norm": lambda x: (x(4, 4), 1),
    "linalg_matrix_norm.str_ord": _one,
    "linalg_vector_norm": _one,
    "log_softmax.int": lambda x: (x(4, 4), -1),
    "logsumexp": lambda x: (x(4, 4), [0]),
    "nanquantile": lambda x: (x(4, 4), x(2)),
    "nanquantile.scalar": lambda x: (x(4, 4), 0.5),
    "norm.Scalar": _one,
    "norm.ScalarOpt_dim": lambda x: (x(4, 4), 2, [0]),
    "nuclear_norm": _one,
    "nuclear_norm.dim": lambda x: (x(4, 4), [0, 1]),
    "pdist": _one,
    "prod": _one,
    "prod.dim_int": lambda x: (x(4, 4), 0),
    "quantile": lambda x: (x(4, 4), x(2)),
    "quantile.scalar": lambda x: (x(4, 4), 0.5),
    "softmax.int": lambda x: (x(4, 4), -1),
    "sum": _one,
    "sum.dim_IntList": lambda x: (x(4, 4), [0]),
    "trace": _one,
    # losses
    **_alike(
        """binary_cross_entropy binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss poisson_nll_loss
        smooth_l1_loss soft_margin_loss""",
        _two,
    ),
    "cosine_embedding_loss": lambda x: (x(4, 4), x(4, 4), x(4)),
    "cross_entropy_loss": _labels,
    "ctc_loss.IntList": lambda x: (x(5, 2, 4), x.index(2, 2) + 1, [5, 5], [2, 2]),
    "ctc_loss.Tensor": lambda x: (x(5, 2, 4), x.index(2, 2) + 1, x.index(2) + 5, x.index(2) + 2),
    "hinge_embedding_loss": _two,
    "margin_ranking_loss": lambda x: (x(4), x(4), x(4)),
    "multi_margin_loss": _labels,
    "multilabel_margin_loss": lambda x: (x(4, 4), x.index(4, 4)),
    "multilabel_margin_loss_forward": lambda x: (x(4, 4), x.index(4, 4), 1),
    "nll_loss": _labels,
    "nll_loss2d": lambda x: (x(1, 3, 4, 4), x.index(1, 4, 4)),
    "poisson_nll_loss": lambda x: (x(4), x(4), True, False, 1e-8, 1),
    "triplet_margin_loss": lambda x: (x(4, 4), x(4, 4), x(4, 4)),
    # several tensors
    "addcdiv": lambda x: (x(4), x(4), x.wide(4)),
    "addcmul": lambda x: (x(4), x(4), x.wide(4)),
    "atan2": _mixed,
    "bilinear": lambda x: (x(2, 3), x(2, 4), x.wide(5, 3, 4), None),
    "cat": lambda x: ([x(4), x.wide(4)],),
    "cross": lambda x: (x(4, 3), x.wide(4, 3)),
    "dot": _mixed,
    "index_copy": lambda x: (x.wide(4, 4), 0, x.index(1), x(1, 4)),
    "index_put": lambda x: (x.wide(4), [x.index(1)], x(1)),
    "scatter_add": lambda x: (x.wide(4), 0, x.index(4), x(4)),
    "stack": lambda x: ([x(4), x.wide(4)],),
    "tensordot": lambda x: (x(4, 4), x.wide(4, 4), [1], [0]),
    "vdot": _mixed,
    # images
    "_grid_sampler_2d_cpu_fallback": lambda x: (x(1, 1, 4, 4), x(1, 2, 2, 2), 0, 0, False),
    "_upsample_bicubic2d_aa": lambda x: (*_image(4, 4)(x), False),
    "_upsample_bilinear2d_aa": lambda x: (*_image(4, 4)(x), False),
    "_upsample_nearest_exact1d": _image(4),
    "_upsample_nearest_exact2d": _image(4, 4),
    "_upsample_nearest_exact3d": _image(4, 4, 4),
    "adaptive_avg_pool3d": lambda x: (x(1, 1, 4, 4, 4), [2, 2, 2]),
    "adaptive_max_pool3d": lambda x: (x(1, 1, 4, 4, 4), [2, 2, 2]),
    "avg_pool3d": lambda x: (x(1, 1, 4, 4, 4), [2, 2, 2]),
    "fractional_max_pool2d": lambda x: (x(1, 1, 4, 4), [2, 2], [2, 2], x(1, 1, 2)),
    "fractional_max_pool3d": lambda x: (x(1, 1, 4, 4, 4), [2, 2, 2], [2, 2, 2], x(1, 1, 3)),
    "grid_sampler": lambda x: (x(1, 1, 4, 4), x.wide(1, 2, 2, 2), 0, 0, False),
    "grid_sampler_2d": lambda x: (x(1, 1, 4, 4), x(1, 2, 2, 2), 0, 0, False),
    "grid_sampler_3d": lambda x: (x(1, 1, 4, 4, 4), x(1, 2, 2, 2, 3), 0, 0, False),
    "max_pool3d": lambda x: (x(1, 1, 4, 4, 4), [2, 2, 2]),
    "max_unpool2d": lambda x: (x(1, 1, 2, 2), x.index(1, 1, 2, 2), [4, 4]),
    "max_unpool3d": lambda x: (x(1, 1, 2, 2, 2), x.index(1, 1, 2, 2, 2), [4, 4, 4], [2, 2, 2], [0, 0, 0]),
    "reflection_pad1d": lambda x: (x(1, 1, 4), [1, 1]),
    "reflection_pad2d": lambda x: (x(1, 1, 4, 4), [1] * 4),
    "replication_pad1d": lambda x: (x(1, 1, 4), [1, 1]),
    "replication_pad2d": lambda x: (x(1, 1, 4, 4), [1] * 4),
    "replication_pad3d": lambda x: (x(1, 1, 4, 4, 4), [1] * 6),
    "upsample_bicubic2d": lambda x: (*_image(4, 4)(x), False),
    "upsample_bilinear2d": lambda x: (*_image(4, 4)(x), False),
    "upsample_linear1d": lambda x: (*_image(4)(x), False),
    "upsample_nearest1d": _image(4),
    "upsample_nearest2d": _image(4, 4),
    "upsample_nearest3d": _image(4, 4, 4),
    "upsample_trilinear3d": lambda x: (*_image(4, 4, 4)(x), False),
    # Fourier transforms
    **_alike(
        """fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn
        fft_rfft fft_rfft2 fft_rfftn""",
        _fft,
    ),
    "stft": lambda x: (x(16), 4, None, None, None, False, None, True),
    "stft.center": lambda x: (x(16), 4, None, None, None, True, "constant", False, None, True),
    # linear algebra
    **_alike(
        """_lu_with_info cholesky cholesky_inverse geqrf inverse linalg_cholesky linalg_cholesky_ex linalg_cond
        linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_inv_ex
        linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_qr linalg_svd linalg_svdvals
        pinverse qr svd""",
        _eye,
    ),
    **_alike("cholesky_solve linalg_lstsq linalg_solve", _eyes),
    "linalg_cond.p_str": lambda x: (x.eye(4), "fro"),
    "linalg_householder_product": lambda x: (x(4, 4), x(4)),
    "linalg_matrix_rank": lambda x: (x.eye(4), 1e-3),
    "linalg_matrix_rank.tol_tensor": lambda x: (x.eye(4), x(1)),
    "linalg_tensorinv": lambda x: (x.eye(4), 1),
    "linalg_tensorsolve": lambda x: (x.eye(4), x(4)),
    "lu_solve": lambda x: (x(4, 4), x.eye(4), x.pivots(4)),
    "orgqr": lambda x: (x(4, 4), x(4)),
    "ormqr": lambda x: (x(4, 4), x(4), x(4, 4)),
    "triangular_solve": lambda x: (x(4, 4), x.eye(4)),
}
