"""How Python code writes the ops, and what dtype they give: functions, methods, operators and torch.nn's classes.

A spelling is a function's name in torch, torch.nn.functional or one of torch's namespaces ("fft_fft2" is
`torch.fft.fft2`), or the method of that name. It goes through the ops that autocast may list for a device
(`amplint.model.torch_facts.autocast_ops`, by their base names): the first of them that is listed decides, else the
spelling's own way of giving a dtype. Source: torch 2.13; tests/model/half/test_half_table.py runs every spelling on
every device. What surprises of it: docs/amp-facts.md, "Op lists".
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Gives(Enum):
    """The dtype of a result that no list decides."""

    PROMOTED = "that of its operands, by torch's promotion"
    WIDEST = "the widest of its operands'"
    FIRST = "that of its first operand"
    FLOATING = "that of its first operand, if that is a floating one"
    PAIR = "a pair: the first's, and whole numbers"
    PIECES = "a list of tensors like the first"
    WHOLE = "whole numbers or truth values"
    COMPLEX = "complex numbers"
    CREATED = "torch's default dtype"
    LIKE = "that of the tensor it is made like"
    NOTHING = "not known"


class Spelling(NamedTuple):
    """What a spelling goes through, and what it gives where nothing of that is listed."""

    ops: tuple[str, ...]
    gives: Gives


def _each(gives: Gives, names: str) -> dict[str, Spelling]:
    """`name` goes through the op of that name, `name:op` or `name:op,op` through others."""
    found = {}
    for word in names.split():
        name, _, ops = word.partition(":")
        found[name] = Spelling(tuple(ops.split(",")) if ops else (name,), gives)
    return found


SPELLINGS: dict[str, Spelling] = {
    # products
    **_each(
        Gives.PROMOTED,
        """
        addbmm addmm addmv addr baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        einsum:einsum,bmm linalg_multi_dot:linalg_multi_dot,mm linalg_vecdot:linalg_vecdot,sum linear matmul mm mv prelu
        scaled_dot_product_attention tensordot:tensordot,mm inner:tensordot,mm
        """,
    ),
    # elementwise
    **_each(
        Gives.PROMOTED,
        """
        add addcdiv addcmul atan2 clip clamp clamp_max clamp_min cross div divide fmod lerp maximum minimum mul
        multiply pow remainder rsub sub subtract true_divide where
        """,
    ),
    **_each(
        Gives.FLOATING,
        """
        acos asin celu cos cosh dropout elu erf erfinv exp expm1 gelu glu hardsigmoid hardswish
        hardtanh leaky_relu log log10 log1p log2 logsigmoid mish nan_to_num reciprocal relu relu6 rsqrt
        selu sigmoid silu sin sinh softplus softsign sqrt tan tanh
        """,
    ),
    **_each(Gives.FIRST, "abs ceil floor neg negative round sign square:pow"),
    # of the first operand alone
    **_each(
        Gives.FIRST,
        """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool3d alpha_dropout avg_pool1d
        avg_pool2d avg_pool3d batch_norm bernoulli broadcast_to channel_shuffle clone contiguous detach diff
        diag diag_embed diagonal dropout1d dropout2d dropout3d expand expand_as feature_alpha_dropout flatten flip fold
        gather index_fill index_select instance_norm:batch_norm masked_fill masked_select
        max_pool1d max_pool2d max_pool3d movedim narrow permute pixel_shuffle pixel_unshuffle ravel
        repeat repeat_interleave reshape roll rot90 select squeeze swapaxes swapdims t
        take take_along_dim tile transpose tril triu unflatten unfold unsqueeze view view_as adjoint
        to_dense fill masked_scatter interpolate:upsample_nearest2d pad:constant_pad_nd
        """,
    ),
    # sums, norms and distances
    **_each(Gives.PROMOTED, "cdist cosine_similarity dist dot vdot"),
    **_each(
        Gives.FLOATING,
        """
        amax amin cumprod cumsum group_norm layer_norm linalg_vector_norm log_softmax logcumsumexp logsumexp
        mean nanmean nansum normalize:norm pdist prod rms_norm
        softmax softmin:softmax std sum trace var
        """,
    ),
    # what torch makes of a norm hangs on its arguments
    "norm": Spelling(("norm",), Gives.NOTHING),
    # losses
    **_each(
        Gives.PROMOTED,
        """
        binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss
        cross_entropy:cross_entropy_loss,nll_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss
        mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
        triplet_margin_loss
        """,
    ),
    # several tensors, of which each has dimensions
    **_each(Gives.WIDEST, "cat concat:cat stack hstack:cat vstack:cat"),
    **_each(Gives.PIECES, "chunk split unbind tensor_split"),
    **_each(Gives.PAIR, "topk sort cummax cummin kthvalue mode"),
    **_each(
        Gives.WHOLE,
        """
        all any allclose argmax argmin argsort bincount count_nonzero eq equal ge greater gt isclose isfinite isinf
        isnan le less logical_and logical_not logical_or logical_xor lt ne nonzero one_hot searchsorted signbit
        """,
    ),
    **_each(Gives.COMPLEX, "fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_rfft fft_rfft2 fft_rfftn"),
    **_each(Gives.COMPLEX, "stft"),
    **_each(Gives.CREATED, "zeros ones rand randn empty eye linspace hann_window"),
    **_each(Gives.LIKE, "zeros_like ones_like rand_like randn_like empty_like full_like"),
    **_each(Gives.LIKE, "new_zeros new_ones new_full new_empty"),
}

# Of which the result is one of a pair where a dimension is given: `x.max(1)`.
WITH_DIMENSION = ("max", "min", "median")

# The modes of an interpolation that go through ops of the same lists; "area" is a pooling.
UPSAMPLING = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear")

# What a padding that isn't by a constant goes through, on some devices.
PADDING = ("reflection_pad2d",)

# Methods that cast, by the dtype that they give.
CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
    "int": "int32", "short": "int16", "byte": "uint8", "char": "int8", "bool": "bool",
}  # fmt: skip

# Names for dtypes that torch prints by another name; and all dtypes, by their qualified names.
SAME_DTYPE = {name: CASTS[name] for name in ("half", "float", "double")}
_DTYPES = (
    "float16", "half", "bfloat16", "float32", "float", "float64", "double", "float8_e4m3fn", "float8_e5m2",
    "complex32", "complex64", "complex128", "int8", "uint8", "int16", "int32", "int64", "int", "long", "short", "bool",
)  # fmt: skip
DTYPES = {f"torch.{name}": SAME_DTYPE.get(name, name) for name in _DTYPES}

# Where a spelling is a function: the module's name, and what comes before the spelling's own name.
NAMESPACES = {
    "torch.nn.functional.": "",
    "torch.linalg.": "linalg_",
    "torch.fft.": "fft_",
    "torch.special.": "",
    "torch.": "",
}

# torch.nn's classes by the spelling that their calls are.
CLASSES = {
    "Linear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d", "PReLU": "prelu",
    "ConvTranspose1d": "conv_transpose1d", "ConvTranspose2d": "conv_transpose2d", "ConvTranspose3d": "conv_transpose3d",
    "BatchNorm1d": "batch_norm", "BatchNorm2d": "batch_norm", "BatchNorm3d": "batch_norm",
    "SyncBatchNorm": "batch_norm", "InstanceNorm1d": "instance_norm", "InstanceNorm2d": "instance_norm",
    "LayerNorm": "layer_norm", "GroupNorm": "group_norm", "RMSNorm": "rms_norm",
    "ReLU": "relu", "ReLU6": "relu6", "LeakyReLU": "leaky_relu", "GELU": "gelu", "SiLU": "silu", "ELU": "elu",
    "CELU": "celu", "SELU": "selu", "Mish": "mish", "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid",
    "Hardtanh": "hardtanh", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Softsign": "softsign",
    "LogSigmoid": "logsigmoid", "GLU": "glu", "Softmax": "softmax", "LogSoftmax": "log_softmax", "Softmin": "softmin",
    "Dropout": "dropout", "Dropout1d": "dropout1d", "Dropout2d": "dropout2d", "Dropout3d": "dropout3d",
    "AlphaDropout": "alpha_dropout", "Identity": "clone", "Flatten": "flatten", "Unflatten": "unflatten",
    "MaxPool1d": "max_pool1d", "MaxPool2d": "max_pool2d", "MaxPool3d": "max_pool3d", "AvgPool1d": "avg_pool1d",
    "AvgPool2d": "avg_pool2d", "AvgPool3d": "avg_pool3d", "AdaptiveAvgPool1d": "adaptive_avg_pool1d",
    "AdaptiveAvgPool2d": "adaptive_avg_pool2d", "AdaptiveAvgPool3d": "adaptive_avg_pool3d",
    "PixelShuffle": "pixel_shuffle", "PixelUnshuffle": "pixel_unshuffle",
    "Upsample": "interpolate", "CosineSimilarity": "cosine_similarity",
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss", "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "KLDivLoss": "kl_div",
    "PoissonNLLLoss": "poisson_nll_loss",
    "MarginRankingLoss": "margin_ranking_loss", "HingeEmbeddingLoss": "hinge_embedding_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss", "TripletMarginLoss": "triplet_margin_loss",
    "SoftMarginLoss": "soft_margin_loss", "MultiMarginLoss": "multi_margin_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
}  # fmt: skip

LOSSES = frozenset(spelling for name, spelling in CLASSES.items() if name.endswith("Loss"))
# Those whose targets are indices of classes, and of the first one perhaps probabilities.
BY_INDEX = ("cross_entropy", "nll_loss", "multi_margin_loss")

OPERATORS = {
    "Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "div", "Power": "pow", "MatrixMultiply": "matmul",
    "Modulo": "remainder", "FloorDivide": "floor_divide",
}  # fmt: skip


def spelled(name: str) -> str | None:
    """The spelling that a qualified name of torch's is."""
    for space, prefix in NAMESPACES.items():
        if name.startswith(space):
            found = prefix + name[len(space) :]
            # A norm of torch.linalg's is a vector's or a matrix's: autocast has the same list for both.
            found = "linalg_vector_norm" if found == "linalg_norm" else found
            return found if found in SPELLINGS or found in WITH_DIMENSION else None
    return None


# Products of matrices, and what is computed as one: operands of two dtypes raise. First those that are methods as well.
PRODUCT_METHODS = ("addbmm", "addmm", "addmv", "baddbmm", "bmm", "matmul", "mm", "mv")
PRODUCTS = (*PRODUCT_METHODS, "conv1d", "conv2d", "conv3d", "einsum", "linear", "tensordot")

# Methods of a tensor that give its elements in another shape, those that are attributes too.
RESHAPES = {
    "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze", "t", "T", "mT",
    "transpose", "permute", "contiguous",
}  # fmt: skip
# Methods and attributes of a tensor that give its values, in another dtype or place perhaps.
SAME_VALUES = {"clone", "contiguous", "data", "detach", "to", "cuda", "cpu", "float", "double", "half", "bfloat16"}
