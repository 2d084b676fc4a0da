"""The table of autocast's op lists, against the kernels of this torch and the dtypes that they give."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from amplint.model.torch_facts.autocast_ops import OP_LISTS, Cast
from tests.opcalls import CALLS, Make, fake_region, outcome

KEYS = {
    "cuda": "AutocastCUDA",
    "xpu": "AutocastXPU",
    "mtia": "AutocastMTIA",
    "mps": "AutocastMPS",
    "cpu": "AutocastCPU",
}
# Ops whose kernels need more than tensors without data: the device's library, its drivers, or the right processor.
NOT_CALLED = {
    "cuda": {"_thnn_fused_gru_cell", "cudnn_convolution", "cudnn_convolution_transpose", "gru_cell", "lstm_cell"},
    "xpu": {"_thnn_fused_gru_cell", "gru_cell", "lstm_cell", "scaled_dot_product_attention"},
    "mtia": {"_thnn_fused_gru_cell"},
    "mps": {"_mps_convolution", "batch_norm", "scaled_dot_product_attention"},
    # The last knows float32 only.
    "cpu": {"mkldnn_rnn_layer", "_grid_sampler_2d_cpu_fallback"},
}


@pytest.mark.parametrize("device", KEYS)
def test_the_listed_ops_are_those_with_a_kernel(device: str) -> None:
    names = torch._C._dispatch_get_all_op_names()
    kernels = {each for each in names if torch._C._dispatch_has_kernel_for_dispatch_key(each, KEYS[device])}
    assert {f"aten::{each}" for each in OP_LISTS[device]} == kernels


@pytest.mark.parametrize("device", KEYS)
def test_overloads_of_one_name_are_treated_alike(device: str) -> None:
    casts: dict[str, set[Cast]] = {}
    for op, cast in OP_LISTS[device].items():
        casts.setdefault(op.partition(".")[0], set()).add(cast)
    assert [base for base, found in casts.items() if len(found) > 1] == []


def test_every_op_has_a_call() -> None:
    assert set(CALLS) == {op for ops in OP_LISTS.values() for op in ops}


WIDEST = "Unexpected floating ScalarType in at::autocast::prioritize"
HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("device", KEYS)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_are_those_of_the_kernels(device: str) -> None:
    wrong, uncalled = [], set()
    for low, given in product(HALVES, (*HALVES, torch.float32, torch.float64)):
        with torch.autocast("cpu", low) if device == "cpu" else fake_region(device, low):
            for op, cast in OP_LISTS[device].items():
                if cast is Cast.PROMOTE:
                    continue
                found = outcome(op, Make(device, given, given))
                if cast is Cast.BANNED:
                    right = "are unsafe to autocast" in found
                elif isinstance(found, str):
                    uncalled.add(op)
                    continue
                else:
                    dtype = given if given is torch.float64 else low if cast is Cast.LOW else torch.float32
                    # Spectra and eigenvalues are complex, ranks are whole numbers.
                    right = found[0] in {dtype, dtype.to_complex(), torch.int64}
                if not right:
                    wrong.append((op, cast, given, low, found))
    assert wrong == []
    assert uncalled <= NOT_CALLED[device]


@pytest.mark.parametrize("device", KEYS)
def test_the_widest_argument_wins(device: str) -> None:
    wrong = []
    for low in HALVES:
        with torch.autocast("cpu", low) if device == "cpu" else fake_region(device, low):
            for op, cast in OP_LISTS[device].items():
                if cast is Cast.PROMOTE and op != "grid_sampler":
                    found = [outcome(op, Make(device, low, other)) for other in (low, torch.float32, *HALVES)]
                    other_half = [[low] if each is low else WIDEST for each in HALVES]
                    if found != [[low], [torch.float32], *other_half]:
                        wrong.append((op, low, found))
    assert wrong == []


@pytest.mark.parametrize("device", ["cuda", "xpu", "mps"])
def test_a_dtype_that_is_asked_for_is_given(device: str) -> None:
    with fake_region(device, torch.float16):
        x = torch.rand(4, 4, device=device)
        found = [x.sum(dtype=torch.float16), x.half().softmax(-1, torch.float64), x.cumsum(0, dtype=torch.float16)]
    assert [each.dtype for each in found] == [torch.float16, torch.float64, torch.float16]
