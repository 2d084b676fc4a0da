"""What AMP505 to AMP507 and AMP509 share: tests for NaN and infinity, what they end, what numbers are made of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings
from amplint.model import Module
from amplint.model.names.reaching_definitions import reaching
from amplint.model.objects.amp_objects import objects
from amplint.model.syntax import ir
from amplint.model.syntax.ir import Assigned
from amplint.rules.shared.finite_checks import aborts, gradients_in, made_of, not_finite
from amplint.sources.source import Source
from amplint.verify.program.files import lowered


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
    settings = Settings(frozenset({"AMP505", "AMP506", "AMP507", "AMP509"}), isolated=True, suspicions=True)
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
        ("limit.weights[bad] = 0.9 * limit.weights[bad] + 0.1 * norm", "AMP506"),
        ("limit.weights[bad] = 0.9 * limit.weights[0] + 0.1 * norm", ""),
        ("bad += norm if norm < float('inf') else 0", ""),
        ("[torch.nan_to_num_(p.grad) for p in model.parameters()]", ""),  # unscaled already
    ],
)
def test_a_line_of_a_step(line: str, expected: str) -> None:
    assert codes(line) == ([expected] if expected else [])


HELPER = """
import torch


class Trainer:
    def clean(self, optimizers):
        for optimizer in optimizers:
            UNSCALE
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    torch.nan_to_num(p.grad, nan=0.0, out=p.grad)

    def step(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.clean([optimizer])
        self.scaler.step(optimizer)
        self.scaler.update()
"""


def test_a_helper_that_unscales_first() -> None:
    """The scaler has looked for what isn't finite there."""
    settings = Settings(frozenset({"AMP507"}), isolated=True)
    assert [each.code for each in check(HELPER.replace("UNSCALE", "print(optimizer)"), "a.py", settings)] == ["AMP507"]
    assert not check(HELPER.replace("UNSCALE", "self.scaler.unscale_(optimizer)"), "a.py", settings)


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", []), ("float16", ["AMP509"])])
def test_a_region_whose_dtype_is_kept_by_its_name(dtype: str, expected: list[str]) -> None:
    text = STEP.format("assert torch.isfinite(norm)").replace("bad = 0", f"half = getattr(torch, {dtype!r})")
    text = text.replace('autocast("cuda")', 'autocast("cuda", dtype=half)')
    assert [each.code for each in check(text, "a.py", Settings(frozenset({"AMP509"}), isolated=True))] == expected


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", []), ("float16", ["AMP506"])])
def test_norms_of_bfloat16_are_finite_in_each_step(dtype: str, expected: list[str]) -> None:
    text = STEP.format("model.mean = model.mean * 0.9 + norm * 0.1")
    text = text.replace('autocast("cuda")', f'autocast("cuda", dtype=torch.{dtype})')
    assert [
        each.code for each in check(text, "a.py", Settings(frozenset({"AMP506"}), isolated=True, suspicions=True))
    ] == expected


def test_clips_that_only_measure_replace_nothing() -> None:
    arms = """if optimizer.clips:
            norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
        else:
            norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        bad += float(norm)"""
    assert codes(arms) == ["AMP506"]
    assert codes(arms.replace("bad += float(norm)", "bad += float(norm) if norm != float('inf') else 0")) == []


def test_star_imports_leave_float_what_it_is() -> None:
    settings = Settings(frozenset({"AMP506"}), isolated=True, suspicions=True)
    text = "from helpers import *\n" + STEP.format("bad += float(norm)")
    assert [each.code for each in check(text, "a.py", settings)] == ["AMP506"]


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


LOSS_CHECKED = """
import math
import torch
import torch.distributed as dist


def check_loss(loss):
    if math.isnan(loss):
        raise RuntimeError("the loss is NaN")


def all_reduce(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)
    return tensors


def train(model, batches, criterion, optimizer, detect, ranks):
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in batches:
        with torch.autocast("cuda"):
            {assigned}
        {before}
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        {behind}
        scaler.step(optimizer)
        scaler.update()
        {reported}
"""
PLAIN = "loss = criterion(model(inputs), targets)"
ARMS = (
    "if detect: loss = criterion(model(inputs), targets, 1)\n            else: loss = criterion(model(inputs), targets)"
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # What a variable held in the last round is gone: the region's body, or one of both arms, has assigned it.
        ({"before": "check_loss(loss)", "reported": "loss = loss.item() + 0 * norm.item()"}, ["AMP505"]),
        (
            {"assigned": ARMS, "before": "check_loss(loss)", "reported": "loss = loss.item() + 0 * norm.item()"},
            ["AMP505"],
        ),
        # A parameter is what this call gives, and of what is packed together only the item that is taken counts.
        (
            {
                "before": "loss = all_reduce([loss])[0]\n        check_loss(loss)",
                "reported": "all_reduce([loss, norm])",
            },
            [],  # reduced first: all ranks end
        ),
        ({"before": "check_loss(loss)", "reported": "loss, norm = all_reduce([loss, norm])"}, ["AMP505"]),
        ({"behind": "seen, _ = all_reduce([loss, norm])\n        check_loss(seen)"}, []),
        ({"behind": "_, seen = all_reduce([loss, norm])\n        check_loss(seen)"}, ["AMP509"]),
        ({"behind": "seen = {'loss': loss, 'norm': norm}\n        check_loss(seen['norm'])"}, ["AMP509"]),
        ({"behind": "seen = {'loss': loss, 'norm': norm}\n        check_loss(seen['loss'])"}, ["AMP505"]),
        ({"behind": "check_loss(norm)"}, ["AMP509"]),
        ({"before": "check_loss(loss)", "behind": "check_loss(norm)"}, ["AMP509"]),
    ],
)
def test_what_is_asked_decides_between_the_loss_and_its_gradients(lines: dict[str, str], expected: list[str]) -> None:
    text = LOSS_CHECKED.format(**({"assigned": PLAIN, "before": "", "behind": "", "reported": ""} | lines))
    assert [
        each.code for each in check(text, "a.py", Settings(frozenset({"AMP505", "AMP509"}), isolated=True))
    ] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = 0\nwith a:\n    x = 1\nx", [1]),
        ("x = 0\nwith suppress(E):\n    x = 1\nx", [0, 1]),
        ("x = 0\nif a:\n    x = 1\nelse:\n    x = 2\nx", [1, 2]),
        ("x = 0\nif a:\n    x = 1\nelif b:\n    raise E\nelse:\n    x = 2\nx", [1, 2]),
        ("x = 0\nif a:\n    x = 1\nelif b:\n    x = 2\nx", [0, 1, 2]),
        ("x = 0\nif a:\n    with b:\n        x = 1\nelse:\n    x = 2\n    x = 3\nx", [1, 2, 3]),
        ("x = 0\nfor i in a:\n    x = 1\nx", [0, 1]),
        ("for i in a:\n    x = 1\n    x\n    x = 2", None),
        ("x = 0\nwhile a:\n    try:\n        x = 1\n    except E:\n        pass\n    x", [0, 1]),
        ("return\nx = 0\nx", [0]),
    ],
)
def test_which_assignments_a_read_can_see(body: str, expected: list[int] | None) -> None:
    module = module_of("def f(a, b):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    read = [each for each in module.values if isinstance(each, ir.Name) and each.name == "x" and not each.bound][-1]
    seen = [each.value for each in reaching(module.names, read) if isinstance(each, Assigned)]
    assert [each.value for each in seen if isinstance(each, ir.Constant)] == (expected or [1])


# --- AMP507: a loss that is assigned something else -------------------------------------------------------------------

INSTEAD = """\
import torch

def train(model, optimizer, loader, loss_fn, careful):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
            loss = loss_fn(out, y)
        if {test}:
            {arm}
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("test", "arm", "confidence"),
    [
        ("torch.isnan(loss) or torch.isinf(loss)", "loss = out.sum() * 0 + 100.0", Confidence.CERTAIN),
        ("not torch.isfinite(loss)", "loss = out[0].sum() * 0", Confidence.CERTAIN),
        ("not torch.isfinite(loss).all()", "print('bad'); loss = out.sum() * 0", Confidence.CERTAIN),
        ("torch.isnan(loss)", "loss = out.sum() * 0", Confidence.LIKELY),
        # It goes on without a step, or lowers the scale itself.
        ("not torch.isfinite(loss)", "loss = out.sum() * 0; continue", None),
        ("torch.isinf(loss)", "loss = out.sum() * 0; scaler.update(scaler.get_scale() / 2)", None),
        # The batch is dropped: no gradients come of it.
        ("not torch.isfinite(loss)", "loss = torch.zeros((), requires_grad=True)", None),
        # Something else decides, or it is made of what it was.
        ("careful and not torch.isfinite(loss)", "loss = out.sum() * 0", None),
        ("torch.isinf(loss)", "loss = loss.clamp(max=100.0)", None),
        ("torch.isinf(loss)", "shown = out.sum() * 0", None),
        ("loss > 100.0", "loss = out.sum() * 0", None),
    ],
)
def test_a_loss_that_is_replaced_where_it_is_not_finite(test: str, arm: str, confidence: Confidence | None) -> None:
    """The scaler then sees finite gradients, and never lowers the scale."""
    text = INSTEAD.format(test=test, arm=arm.replace("; ", "\n            "))
    found = check(text, settings=Settings(frozenset({"AMP507"}), isolated=True))
    assert [each.confidence for each in found] == ([confidence] if confidence else [])


def test_a_clamp_alone_hides_nothing() -> None:
    """NaN stays what it is, and what is clamped need not have overflowed."""
    text = INSTEAD.format(test="careful", arm="pass").replace("loss_fn(out, y)", "loss_fn(out, y).clamp(0.0, 1000.0)")
    assert not check(text, settings=Settings(frozenset({"AMP507"}), isolated=True))
