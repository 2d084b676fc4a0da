"""Programs whose dtypes or numbers torch complains of."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from tests.explaining.registry import Step, prints, unwarned

HALF, FLOAT = torch.ones(4, 4).half(), torch.ones(4, 4)


@prints("dtype-mismatch")
def linear() -> None:
    nn.Linear(4, 4)(HALF)


@prints("dtype-mismatch")
def matmul() -> None:
    HALF @ FLOAT


@prints("dtype-mismatch")
def bmm() -> None:
    torch.bmm(HALF[None], FLOAT[None])


@prints("dtype-mismatch")
def addmm() -> None:
    torch.addmm(FLOAT, HALF, HALF)


@prints("dtype-mismatch")
def mv() -> None:
    torch.mv(HALF, FLOAT[0])


@prints("dtype-mismatch")
def dot() -> None:
    torch.dot(HALF[0], FLOAT[0])


@prints("dtype-mismatch")
def baddbmm() -> None:
    torch.baddbmm(FLOAT[None], HALF[None], HALF[None])


@prints("dtype-mismatch")
def convolution() -> None:
    nn.Conv2d(1, 1, 3)(torch.ones(1, 1, 8, 8).bfloat16())


@prints("dtype-mismatch")
def convolution_without_bias() -> None:
    nn.Conv2d(1, 1, 3, bias=False).half()(torch.ones(1, 1, 8, 8))


@prints("query-key-value-dtypes")
def attention() -> None:
    F.scaled_dot_product_attention(HALF[None], FLOAT[None], FLOAT[None])


@prints("dtype-mismatch")
def recurrent() -> None:
    nn.LSTM(4, 4)(HALF[None])


@prints("optimizer-mixed-dtypes")
def lerp() -> None:
    torch.lerp(FLOAT, HALF, 0.5)


@prints("dtype-mismatch")
def criterion() -> None:
    F.binary_cross_entropy(HALF, FLOAT)


@prints("dtype-mismatch")
def custom_function() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, w = ctx.saved_tensors
            return grad @ w.t(), x.t() @ grad

    with torch.autocast("cpu"):
        loss = Product.apply(FLOAT.clone().requires_grad_(), FLOAT.clone().requires_grad_()).sum()
    loss.backward()


@prints("norm-in-half")
def layer_norm() -> None:
    nn.LayerNorm(4).half()(FLOAT)


@prints("norm-in-half")
def batch_norm() -> None:
    nn.BatchNorm1d(4).bfloat16()(FLOAT)


@prints("norm-in-half")
def norm_in_the_other_half_type() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4)).half()
    with torch.autocast("cpu"):
        model(FLOAT)


@prints("dtype-mismatch-in-place")
def index_put() -> None:
    FLOAT.clone()[torch.tensor([0])] = HALF[:1]


@prints("dtype-mismatch-in-place")
def index_add() -> None:
    FLOAT.index_add(0, torch.tensor([0]), HALF[:1])


@prints("dtype-mismatch-in-place")
def index_copy() -> None:
    FLOAT.index_copy(0, torch.tensor([0]), HALF[:1])


@prints("dtype-mismatch-in-place")
def masked_scatter() -> None:
    FLOAT.masked_scatter(FLOAT > 0, HALF)


@prints("scatter-dtype")
def scatter() -> None:
    FLOAT.scatter_add(0, torch.zeros(4, 4).long(), HALF)  # in float16


@prints("half-constant-overflow")
def mask() -> None:
    HALF.masked_fill(HALF > 0, -1e9)


@prints("half-constant-overflow")
def mask_in_bfloat16() -> None:
    HALF.bfloat16().masked_fill(HALF > 0, torch.finfo(torch.float32).min)


@prints("fft-in-half")
def fft() -> None:
    torch.fft.fft(HALF)


@prints("fft-in-half")
def stft() -> None:
    torch.stft(torch.ones(512).half(), 64, window=torch.ones(64).half(), return_complex=True)


@prints("not-implemented-for-half")
def svd() -> None:
    torch.linalg.svd(HALF)


@prints("not-implemented-for-half")
def cdist() -> None:
    torch.cdist(HALF, HALF)


@prints("not-implemented-for-half")
def inverse() -> None:
    torch.linalg.inv(HALF)


@prints("not-implemented-for-half")
def quantile() -> None:
    torch.quantile(HALF, 0.5)


@prints("half-class-targets")
def class_targets() -> None:
    F.cross_entropy(FLOAT, torch.zeros(4).half())


@prints("bfloat16-to-numpy")
def numpy() -> None:
    HALF.bfloat16().numpy()


@prints("loss-not-finite")
def loss_nan() -> None:
    loss = torch.tensor(float("nan"))
    if not torch.isfinite(loss):
        raise SystemExit(f"Loss is {loss}, stopping training")


@prints("gradients-not-finite")
def clipped_hard() -> None:
    step = Step()
    step.backward()
    step.model.weight.grad.fill_(float("inf"))
    nn.utils.clip_grad_norm_(step.model.parameters(), 1.0, error_if_nonfinite=True)


@prints("anomaly")
def anomaly() -> None:
    with unwarned(), torch.autograd.set_detect_anomaly(True):
        x = torch.zeros(2, requires_grad=True)
        (torch.sqrt(x) * 0).sum().backward()


@prints("probabilities-not-finite")
def sampling() -> None:
    torch.multinomial(HALF[0] * float("nan"), 1)


@prints("apex-missing")
def apex() -> None:
    exec("from apex import amp")


@prints("attention-mask-dtype")
def attention_mask() -> None:
    F.scaled_dot_product_attention(HALF[None], HALF[None], HALF[None], attn_mask=FLOAT.bfloat16())


@prints("dtype-mismatch-in-place")
def put() -> None:
    FLOAT.clone().put_(torch.tensor([0]), HALF[0, :1])


@prints("mixed-half-types")
def cat_of_the_other_half_type() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.cat([HALF, HALF])


@prints("half-indices")
def embedding() -> None:
    F.embedding(HALF[0], FLOAT)


@prints("optimizer-mixed-dtypes")
def assigned_gradient() -> None:
    nn.Parameter(FLOAT.clone()).grad = HALF.clone()


@prints("in-place-on-half")
def changed_in_place() -> None:
    x = HALF.clone().requires_grad_()
    y = x.exp()
    y.mul_(2)
    y.sum().backward()


@prints("in-place-on-half")
def changed_in_place_in_bfloat16() -> None:
    x = HALF.bfloat16().requires_grad_()
    y = x.exp()
    y.mul_(2)
    y.sum().backward()


@prints("checkpoint-recompute")
def recomputed_in_another_dtype() -> None:
    layer, ran = nn.Linear(4, 4), []

    def block(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not ran):
            ran.append(x)
            hidden: torch.Tensor = layer(x).exp()
            return hidden

    checkpoint(block, FLOAT.clone().requires_grad_(), use_reentrant=False).sum().backward()


@prints("predictions-not-finite")
def bce_of_nan() -> None:
    F.binary_cross_entropy(torch.full((1,), torch.nan).half().float(), torch.ones(1))


@prints("probabilities-not-finite")
def distribution_of_nan() -> None:
    torch.distributions.Normal(torch.full((1,), torch.nan).half().float(), torch.ones(1))


@prints("ctc-loss")
def ctc() -> None:
    F.ctc_loss(HALF[:, None].log_softmax(-1), torch.ones(1, 2).long(), (4,), (2,))


@prints("two-half-types")
def matmul_of_both_half_types() -> None:
    HALF @ HALF.bfloat16()


@prints("two-half-types")
def convolution_of_both_half_types() -> None:
    nn.Conv2d(1, 1, 3).bfloat16()(torch.ones(1, 1, 8, 8).half())


@prints("apex-name-in-torch")
def apex_name() -> None:
    torch.cuda.amp.initialize(nn.Linear(4, 4))


class LowRank(nn.Module):
    """A parametrization as adapters are: the product of two small matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.ones(4, 2))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return self.b @ self.a


@prints("parametrization-dtype")
def parametrization() -> None:
    with torch.autocast("cpu"):
        parametrize.register_parametrization(nn.Linear(4, 4), "weight", LowRank())
