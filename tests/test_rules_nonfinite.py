"""What AMP505 to AMP507 and AMP509 share: tests for NaN and infinity, what they end, what numbers are made of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import check
from amplint.model import Module, ir
from amplint.model.objects import objects
from amplint.rules.finite import aborts, gradients_in, made_of, not_finite
from amplint.settings import Settings
from amplint.source import Source
from amplint.verify.files import lowered


def module_of(text: str) -> Module:
    return lowered(Source("a.py", text))


def asked(test: str, *, holds: bool = True) -> list[str]:
    module = module_of(f"import math, torch\nimport numpy as np\ncame_out = {test}\n")
    statement = module.statements[-1]
    assert isinstance(statement, ir.Assign)
    assert statement.value is not None
    return [module.text(each) for each in not_finite(module, statement.value, holds)]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("torch.isnan(x)", ["x"]),
        ("not math.isfinite(x.item())", ["x.item()"]),
        ("x.isinf().any()", ["x"]),
        ("~np.isfinite(x)", ["x"]),
        ("x != x", ["x"]),
        ("x == float('inf')", ["x"]),
        ("math.inf == x", ["x"]),
        ("torch.isnan(x).sum() > 0", ["x"]),
        ("bool((~torch.isfinite(x)).any().item())", ["x"]),
        ("x is not None and torch.isnan(x)", ["x"]),
        ("not (x is None or torch.isfinite(x))", ["x"]),
        ("torch.isnan(x) or torch.isinf(y) or z > 3", ["x", "y"]),
        ("any(torch.isnan(p.grad).any() for p in ps)", ["p.grad"]),
        ("not all(p.grad is None or p.grad.isfinite().all() for p in ps)", ["p.grad"]),
        ("[n for n, p in ps if p.requires_grad and not p.grad.isfinite().all()]", ["p.grad"]),
        ("len([n for n, p in ps if torch.isnan(p.grad).any()]) > 0", ["p.grad"]),
        ("torch.isfinite(x)", []),
        ("x == 3", []),
        ("x > 1e4", []),
        ("torch.isnan(x) and count > 3", []),
        ("debug and torch.isnan(x)", []),
        ("isnan(x)", []),
    ],
)
def test_what_a_test_asks(test: str, expected: list[str]) -> None:
    assert asked(test) == expected


TESTS = st.recursive(
    st.sampled_from(["math.isfinite(x)", "x is None", "x is not None", "x > 7"]),
    lambda inner: st.one_of(
        inner.map("(not {})".format),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map("({0[0]} {0[1]} {0[2]})".format),
    ),
    max_leaves=5,
)


@given(TESTS, st.booleans())
def test_what_is_asked_decides(test: str, holds: bool) -> None:
    """A value that is said to be enough for a test to come out in one way is."""
    if asked(test, holds=holds):
        assert eval(test, {"math": math, "x": math.nan}) is holds


STEP = """
import os, sys
import torch
from torch import nn


def train(model, batches, optimizer, limit):
    scaler = torch.amp.GradScaler("cuda")
    bad = 0
    for inputs, targets in batches:
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        {}
        scaler.step(optimizer)
        scaler.update()
"""


def codes(line: str) -> list[str]:
    settings = Settings(frozenset({"AMP505", "AMP506", "AMP507", "AMP509"}), isolated=True)
    return [each.code for each in check(STEP.format(line), "a.py", settings)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if norm.isnan(): sys.exit(1)", "AMP509"),
        ("if not torch.isfinite(norm): os._exit(2)", "AMP509"),
        ("if norm.isinf() or norm == torch.inf or norm != norm: raise FloatingPointError", "AMP509"),
        ("assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())", "AMP509"),
        ("assert not torch.isnan(loss)", "AMP505"),
        ("if not math.isfinite(norm): raise ValueError", ""),  # unbound
        ("if norm.isnan(): raise StopIteration", ""),
        ("if norm.isnan() and limit: raise ValueError", ""),
        ("if norm > limit: raise ValueError", ""),
        ("if norm.isnan(): print(norm)", ""),
        ("nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)", "AMP509"),
        ("nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=limit)", ""),
        ("model.mean = model.mean * 0.9 + norm * 0.1", "AMP506"),
        ("model.mean = norm * 0.1", ""),
        ("[torch.nan_to_num_(p.grad) for p in model.parameters()]", ""),  # unscaled already
    ],
)
def test_a_line_of_a_step(line: str, expected: str) -> None:
    assert codes(line) == ([expected] if expected else [])


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", []), ("float16", ["AMP509"])])
def test_a_region_whose_dtype_is_kept_by_its_name(dtype: str, expected: list[str]) -> None:
    text = STEP.format("assert torch.isfinite(norm)").replace("bad = 0", f"half = getattr(torch, {dtype!r})")
    text = text.replace('autocast("cuda")', 'autocast("cuda", dtype=half)')
    assert [each.code for each in check(text, "a.py", Settings(frozenset({"AMP509"}), isolated=True))] == expected


def test_who_catches_what() -> None:
    module = module_of(
        "import torch\n"
        "def f(x):\n"
        "    try:\n"
        "        if torch.isnan(x):\n"
        "            raise ValueError\n"
        "        assert torch.isfinite(x)\n"
        "    except (OSError, ValueError):\n"
        "        pass\n"
        "def g(x):\n"
        "    if torch.isnan(x):\n"
        "        raise RuntimeError\n"
        "def h(x):\n"
        "    try:\n"
        "        g(x)\n"
        "    except Exception:\n"
        "        pass\n"
    )
    assert [module.row(each.at) for each in aborts(module)] == [6]


def test_what_a_number_is_made_of() -> None:
    module = module_of(
        "import torch\n"
        "def norm_of(model):\n"
        "    total = 0.0\n"
        "    for p in model.parameters():\n"
        "        total += p.grad.norm().item() ** 2\n"
        "    return total ** 0.5\n"
        "def f(model, x):\n"
        "    loss = torch.nn.functional.mse_loss(model(x), x)\n"
        "    a = norm_of(model) / 2\n"
        "    b = loss.detach().mean() + 1\n"
        "    return a, b\n"
    )
    returned = module.statements[-1]
    assert isinstance(returned, ir.Return)
    assert isinstance(returned.value, ir.Sequence)
    norm, loss = returned.value.items
    gradient = gradients_in(module, norm)
    assert gradient is not None
    assert module.text(gradient) == "p.grad"
    assert gradients_in(module, loss) is None
    made = {module.text(each) for each in made_of(module, loss)}
    assert "torch.nn.functional.mse_loss(model(x), x)" in made
    assert "model(x)" not in made


def test_variables_that_are_items_by_each_other_have_keys() -> None:
    module = module_of("b, d = {}, {}\na = b[c]\nc = d[a]\n")
    assert len([objects(module).key(each) for each in module.values]) == len(module.values)
