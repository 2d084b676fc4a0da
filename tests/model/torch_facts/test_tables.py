"""The tables of what torch's methods give, against torch."""

from __future__ import annotations

import warnings

import pytest

from amplint.model.objects.event import OF_SCALER
from amplint.model.torch_facts.grad_modes import ENDS_GRADIENTS
from amplint.model.torch_facts.modules import DATA_PARALLEL, RETURNS_ITSELF, WRAPPERS
from amplint.model.torch_facts.names import SCALER_METHODS
from amplint.model.torch_facts.op_spellings import CASTS, PRODUCT_METHODS, PRODUCTS, RESHAPES, SAME_VALUES
from amplint.model.torch_facts.signatures import SIGNATURES

torch = pytest.importorskip("torch")

ARGUMENTS = {
    "to": ("cpu",),
    "type": (torch.float32,),
    "to_empty": (),
    "apply": (lambda _: None,),
    "view": (-1,),
    "view_as": (torch.zeros(2, 2),),
    "reshape": (-1,),
    "reshape_as": (torch.zeros(4),),
    "unflatten": (0, (1, 2)),
    "unsqueeze": (0,),
    "transpose": (0, 1),
    "permute": (1, 0),
}
ELSEWHERE = {"cuda", "xpu", "npu", "ipu", "mtia"}  # devices that need not be there


def called(base: object, name: str) -> object:
    """What an attribute gives, or a method of that name."""
    member = getattr(base, name)
    keywords = {"device": "cpu"} if name == "to_empty" else {}
    return member(*ARGUMENTS.get(name, ()), **keywords) if callable(member) else member


@pytest.mark.parametrize("name", sorted({*RETURNS_ITSELF} - ELSEWHERE))
def test_a_module_gives_itself(name: str) -> None:
    module = torch.nn.Linear(2, 2)
    assert called(module, name) is module


@pytest.mark.parametrize("name", ENDS_GRADIENTS)
def test_gradients_end(name: str) -> None:
    result = (
        (torch.ones(1, requires_grad=True) * 2).detach() if name == "numpy" else torch.ones(1, requires_grad=True) * 2
    )
    given = called(result, name)
    assert not (isinstance(given, torch.Tensor) and given.requires_grad)


@pytest.mark.parametrize("name", sorted((RESHAPES | SAME_VALUES) - ELSEWHERE - set(ENDS_GRADIENTS)))
def test_gradients_go_on_and_values_stay(name: str) -> None:
    tensor = torch.arange(4.0).reshape(2, 2).requires_grad_()
    given = called(tensor, name)
    assert isinstance(given, torch.Tensor)
    assert given.requires_grad
    assert sorted(given.flatten().tolist()) == [0, 1, 2, 3]
    assert given.dtype is (getattr(torch, CASTS[name]) if name in CASTS else torch.float32)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_take_operands_of_one_dtype(name: str) -> None:
    home = torch if hasattr(torch, name) else torch.nn.functional
    assert hasattr(home, name)
    assert hasattr(torch.Tensor, name) is (name in PRODUCT_METHODS)
    if name in ("matmul", "mm", "bmm"):
        shape = (1, 2, 2) if name == "bmm" else (2, 2)
        with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
            getattr(torch, name)(torch.ones(shape), torch.ones(shape, dtype=torch.bfloat16))


def test_wrappers_of_modules() -> None:
    for name in WRAPPERS - {"torch.nn.parallel.data_parallel.DataParallel"}:
        found = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found)
    assert DATA_PARALLEL < WRAPPERS


def test_methods_of_a_scaler() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = torch.amp.GradScaler("cuda", enabled=False)
    assert all(callable(getattr(scaler, name)) and f"torch.amp.GradScaler.{name}" in SIGNATURES for name in OF_SCALER)
    assert all(callable(getattr(scaler, name)) for name in SCALER_METHODS)
