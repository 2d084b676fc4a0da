"""Details of AMP106, AMP304 and AMP306: where they are silent, and what their fixes write."""

from __future__ import annotations

import pytest

from amplint import check, fix, make_settings
from amplint.base.findings import Confidence, Severity
from amplint.config.settings import Settings

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
CUDA = 'with torch.autocast("cuda"):\n'


def only(code: str) -> Settings:
    return Settings(frozenset((code,)), isolated=True)


def count(code: str, text: str) -> int:
    return len(check(HEAD + text, settings=only(code)))


def fixed(code: str, text: str) -> str:
    return fix(HEAD + text, settings=only(code), unsafe=True).removeprefix(HEAD)


@pytest.mark.parametrize(
    ("region", "findings"),
    [
        ("torch.autocast('cuda')", 1),
        ("torch.autocast('cuda', dtype=torch.bfloat16)", 1),
        ("torch.autocast('xpu')", 1),
        ("torch.autocast('mtia')", 1),
        ("torch.cuda.amp.autocast()", 1),
        ("torch.autocast('cuda', enabled=use_amp)", 1),
        ("torch.autocast('cuda' if x else 'cpu')", 1),
        ("torch.autocast('cpu')", 0),
        ("torch.autocast('mps')", 0),
        ("torch.autocast(device)", 0),
        ("torch.autocast('cuda', enabled=False)", 0),
        ("autocast('cuda')", 0),
    ],
)
def test_304_regions(region: str, findings: int) -> None:
    assert count("AMP304", f"with {region}:\n    F.binary_cross_entropy(p, y)\n") == findings


@pytest.mark.parametrize(
    ("loss", "findings"),
    [
        ("torch.nn.functional.binary_cross_entropy(p, y)", 1),
        ("nn.BCELoss()(p, y)", 1),
        ("nn.BCEWithLogitsLoss()(p, y)", 0),
        ("F.binary_cross_entropy(p.cpu(), y)", 0),
        ("F.binary_cross_entropy(p, y.to('cpu'))", 0),
        ("F.binary_cross_entropy", 0),
        ("F.binary_cross_entropy(p, y) if half else 0", 0),
        ("F.binary_cross_entropy(p, y) if weighted else 0", 1),
        ("losses.binary_cross_entropy(p, y)", 0),
        ("criterion(p, y)", 0),
    ],
)
def test_304_losses(loss: str, findings: int) -> None:
    assert count("AMP304", f"# binary_cross_entropy BCELoss\n{CUDA}    loss = {loss}\n") == findings


@pytest.mark.parametrize(
    ("made", "findings"),
    [
        ("nn.BCELoss()", 1),
        ("nn.BCELoss().cuda()", 1),
        ("nn.BCELoss() if x else nn.BCEWithLogitsLoss()", 0),
        ("BCELoss()", 0),
        ("criterion", 0),
    ],
)
def test_304_criteria(made: str, findings: int) -> None:
    text = f"class T:\n    def __init__(self, criterion):\n        self.c = {made}\n    def f(self, p, y):\n"
    assert (
        count("AMP304", f"{text}        with torch.autocast('cuda'):\n            self.c(p, y)  # BCELoss\n")
        == findings
    )


def test_304_a_flag_that_is_off_by_default() -> None:
    body = "    with torch.autocast('cuda', enabled=amp):\n        F.binary_cross_entropy(p, y)\n"
    assert count("AMP304", f"def f(p, y, amp=False):\n{body}") == 0
    assert count("AMP304", f"def f(p, y, amp=True):\n{body}") == 1


LOGITS = "F.binary_cross_entropy_with_logits"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("F.binary_cross_entropy(torch.sigmoid(z), y, w)", f"{LOGITS}(z, y, w)"),
        ("F.binary_cross_entropy(input=F.sigmoid(a + b), target=y)", f"{LOGITS}(input=a + b, target=y)"),
        ("F.binary_cross_entropy((a + b).sigmoid().view(-1), y)", f"{LOGITS}((a + b).view(-1), y)"),
        ("F.binary_cross_entropy(torch.sigmoid(a + b).view(-1), y)", f"{LOGITS}((a + b).view(-1), y)"),
        ("F.binary_cross_entropy(nn.Sigmoid()(z), y)", f"{LOGITS}(z, y)"),
        ("nn.BCELoss(weight=w)(z.sigmoid(), y)", "nn.BCEWithLogitsLoss(weight=w)(z, y)"),
    ],
)
def test_304_logits(before: str, after: str) -> None:
    assert fixed("AMP304", f"{CUDA}    loss = {before}\n") == f"{CUDA}    loss = {after}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = F.binary_cross_entropy(p, y)", "loss = F.binary_cross_entropy(p.float(), y.float())"),
        (
            "loss += 2 * F.binary_cross_entropy(p, 1 - y)",
            "loss += 2 * F.binary_cross_entropy(p.float(), (1 - y).float())",
        ),
        ("F.binary_cross_entropy(p.float(), y[0])  # why", "F.binary_cross_entropy(p.float(), y[0].float())  # why"),
        (
            "return F.binary_cross_entropy(target=y, input=p)",
            "return F.binary_cross_entropy(target=y.float(), input=p.float())",
        ),
        ("loss = F.binary_cross_entropy(model(x), y)", None),
        ("loss = [F.binary_cross_entropy(p, y) for p in ps]", None),
        ("loss = F.binary_cross_entropy(p, y); other()", None),
        ("if F.binary_cross_entropy(p, y) > 1: pass", None),
    ],
)
def test_304_island(before: str, after: str | None) -> None:
    head = f"def f():\n    {CUDA}"
    island = f'        with torch.autocast("cuda", enabled=False):\n            {after}\n'
    expected = island if after is not None else f"        {before}\n"
    assert fixed("AMP304", f"{head}        {before}\n") == head + expected


def test_304_a_variable_that_is_bound_anew() -> None:
    """What the sigmoid was taken of is another value by then: an island it is."""
    text = (
        f"def f(z):\n    {CUDA}        p = torch.sigmoid(z)\n        z = z + 1\n        F.binary_cross_entropy(p, y)\n"
    )
    assert "enabled=False" in fixed("AMP304", text)


def test_304_a_criterion_that_is_handed_on() -> None:
    """Who else gets it may give it probabilities."""
    text = f"bce = nn.BCELoss()\nuse(bce)\n{CUDA}    loss = bce(torch.sigmoid(z), y)\n"
    assert "BCEWithLogitsLoss" not in fixed("AMP304", text)
    assert "enabled=False" in fixed("AMP304", text)


FUNCTION = """class P(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward({saved})
        return {forward}
    @staticmethod
    def backward(ctx, g):
        {unpacked} = ctx.saved_tensors
        return {backward}
w = {made}
with torch.autocast("cuda"):
    {applied}
"""
PLAIN = {
    "saved": "x, w",
    "forward": "x @ w.t()",
    "unpacked": "x, w",
    "backward": "g @ w, g.t() @ x",
    "made": "nn.Parameter(torch.randn(2, 8))",
    "applied": "P.apply(x, w)",
}


@pytest.mark.parametrize(
    ("changes", "findings"),
    [
        ({}, 1),
        ({"backward": "torch.matmul(g, w), None"}, 1),
        ({"backward": "g.mm(w), None"}, 1),
        ({"backward": "F.linear(g, w.t()), None"}, 1),
        ({"backward": "g.view(-1, 2) @ w, None"}, 1),
        ({"unpacked": "a, b", "backward": "g @ b, None"}, 1),
        ({"unpacked": "a, b", "backward": "a.t() @ g, None"}, 0),
        ({"saved": "w, x", "unpacked": "w, x"}, 1),
        ({"saved": "w, x", "unpacked": "x, w", "backward": "None, g.t() @ w"}, 0),
        ({"backward": "g * w, None"}, 0),
        ({"backward": "g @ w.to(g.dtype), None"}, 0),
        ({"backward": "g.float() @ w, None"}, 0),
        ({"forward": "x * w"}, 0),
        ({"forward": "x.float() @ w.half().t()"}, 0),
        ({"made": "make()"}, 0),
        ({"made": "torch.randn(2, 8, dtype=torch.bfloat16)"}, 0),
        ({"made": "nn.Parameter(torch.randn(2, 8, dtype=d))"}, 0),
        ({"made": "torch.randn(2, 8)"}, 1),
        ({"applied": "P.apply(*args)"}, 0),
        ({"applied": "P.apply(w, x)"}, 1),
        ({"applied": "model.half(); P.apply(x, w)"}, 0),
        ({"applied": "other.apply(x, w)"}, 0),
        ({"applied": "f = P.apply; f(x, w)"}, 1),
    ],
)
def test_306(changes: dict[str, str], findings: int) -> None:
    assert count("AMP306", FUNCTION.format(**(PLAIN | changes))) == findings


LAYER = """class Net(nn.Module):
    def __init__(self):
        self.w = nn.Parameter(torch.randn(2, 8))
    def forward(self, x):
        return P.apply(x, self.w)
class Around(nn.Module):
    def __init__(self):
        self.net = Net()
class Other(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 8)
class Timer:
    def half(self):
        return self
def half():
    pass
first = Net()
with torch.autocast("cuda"):
    first(x)
"""


@pytest.mark.parametrize(
    ("cast", "findings"),
    [
        ("", 1),
        ("half()", 1),
        ("timer = Timer()\ntimer.half()", 1),
        ("Other().half()", 1),
        ("other = Other().cuda()\nother.to(torch.bfloat16)", 1),
        ("nn.Sequential(nn.Linear(2, 8), Other()).half()", 1),
        ("torch.randn(2, 8).half()", 1),
        ("Net().half()", 0),
        ("net = Net().cuda()\nnet.to(torch.bfloat16)", 0),
        ("Around().half()", 0),
        ("nn.Sequential(nn.Linear(2, 8), Around()).half()", 0),
        ("nn.Sequential(*layers).half()", 0),
        ("make(Net).half()", 0),
        ("model.half()", 0),
    ],
)
def test_306_only_what_may_hold_the_parameter_casts_it(cast: str, findings: int) -> None:
    text = FUNCTION.format(**(PLAIN | {"applied": "pass"})) + LAYER + cast + "\n"
    assert count("AMP306", text) == findings


def test_306_without_a_device_in_sight() -> None:
    text = FUNCTION.format(**PLAIN).replace('"cuda"', "device")
    (found,) = check(HEAD + text, settings=only("AMP306"))
    assert found.fix is None
    assert found.withheld


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.xpu.amp.autocast()", 'torch.amp.autocast("xpu", dtype=torch.bfloat16)'),
        ("torch.xpu.amp.autocast(x)", 'torch.amp.autocast("xpu", enabled=x, dtype=torch.bfloat16)'),
        ("torch.xpu.amp.autocast(x, d, c)", 'torch.amp.autocast("xpu", enabled=x, dtype=d, cache_enabled=c)'),
        ("torch.xpu.amp.autocast(dtype=d)", 'torch.amp.autocast("xpu", dtype=d)'),
        ("torch.xpu.amp.autocast(**k)", None),
        ("torch.xpu.amp.autocast(*a)", None),
        ("torch.xpu.amp.autocast(x := y)", None),
        ("torch.xpu.amp.GradScaler(*a, **k)", 'torch.amp.GradScaler("xpu", *a, **k)'),
        ("torch.mlu.amp.autocast(**k)", 'torch.amp.autocast("mlu", **k)'),
        ("torch.musa.amp.GradScaler(2.0)", 'torch.amp.GradScaler("musa", 2.0)'),
        ("torch.npu.amp.autocast(enabled=x)", 'torch.amp.autocast("npu", enabled=x)'),
        ("torch.npu.amp.autocast(x)", None),
        ("torch.npu.amp.GradScaler()", None),
        ("torch.xpu.amp.GradScaler if hasattr(torch.xpu, 'amp') else None", None),
    ],
)
def test_106_fix(before: str, after: str | None) -> None:
    assert fixed("AMP106", f"it = {before}\n") == f"it = {after or before}\n"


CHECKPOINT = """\
import torch
from torch import nn

scaler = torch.amp.GradScaler("cuda")
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
if resume:
    optimizer.load_state_dict(torch.load("x.pt")["optimizer"])
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
{between}torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, "x.pt")
"""


@pytest.mark.parametrize(
    ("between", "codes"),
    [
        ("", ["AMP413"]),
        ("optimizer = torch.optim.SGD(model.parameters(), lr=1.0)\n", []),  # another run, without AMP
        ("if again:\n    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)\n", ["AMP413"]),
    ],
)
def test_the_checkpoint_of_another_optimizer(between: str, codes: list[str]) -> None:
    assert [each.code for each in check(CHECKPOINT.format(between=between))] == codes


def test_306_is_decorated_with_what_the_project_has() -> None:
    text = HEAD + FUNCTION.format(**PLAIN)

    def at(target: str) -> str:
        return fix(text, settings=only("AMP306")._replace(target_torch=target), unsafe=True)

    assert '@torch.amp.custom_bwd(device_type="cuda")' in at("2.4")
    assert "    @torch.cuda.amp.custom_bwd\n" in at("2.0")


_SAVING = """
import json

import torch


def main(model, loader, resume, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
LOAD    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        torch.save({"epoch": 1, "optimizer": optimizer.state_dict()["param_groups"]}, "board.json")
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        torch.save(state, "last.pt")
    torch.save({"lr": args.lr, "opt": optimizer.state_dict()}, "final.pt")
"""
_LOADING = """\
    checkpoint = torch.load(resume)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
"""


def test_413_stands_at_the_checkpoint_with_the_models_and_the_optimizers_state() -> None:
    text = _SAVING.replace("LOAD", _LOADING)
    (found,) = (each for each in check(text) if each.code == "AMP413")
    assert text[: found.start].endswith('            "optimizer": ')
    fixed = fix(text, unsafe=True)
    assert fixed.count("scaler.state_dict()") == 1
    assert '"optimizer": optimizer.state_dict(),\n            "scaler": scaler.state_dict(),\n        }' in fixed
    assert 'if checkpoint.get("scaler"):\n        scaler.load_state_dict(checkpoint["scaler"])' in fixed


def test_413_saves_nothing_that_nothing_loads() -> None:
    for load in ("", '    model.load_state_dict(torch.load(resume)["model"])\n'):
        (found,) = (
            each
            for each in check(_SAVING.replace("LOAD", load), settings=make_settings(suspicions=True))
            if each.code == "AMP413"
        )
        assert found.fix is None
        assert found.withheld is not None
        assert "amplint sees nothing that loads the optimizer's state" in found.withheld
        assert found.severity is Severity.NOTE
        assert "amplint sees no code that resumes; a run that did would start" in found.message


_TRAIN = """\
def train(model, optimizer, scaler, loader):
    for inputs, targets in loader:
        REGION
            loss = F.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_305_a_call_that_does_nothing_is_removed_where_the_forward_has_a_region_of_its_own() -> None:
    call = "torch.autocast('cuda', enabled=True)\ntrain(*make())\n"
    covered = _TRAIN.replace("REGION", "with torch.autocast('cuda'):")
    (found,) = check(HEAD + covered + call, settings=only("AMP305"))
    assert found.severity is Severity.WARNING
    assert "already runs in the region on line 6; remove this call" in found.message
    assert "float32" not in found.message
    assert fixed("AMP305", covered + call) == covered + "train(*make())\n"
    outer = covered.replace("with torch.autocast('cuda'):", "if True:")
    outer += "def run(*args):\n    with torch.autocast('cuda', cache_enabled=False):\n        train(*args)\n"
    (found,) = check(HEAD + outer + call, settings=only("AMP305"))
    assert found.severity is Severity.WARNING


def test_305_no_fix_removes_what_may_act() -> None:
    covered = _TRAIN.replace("REGION", "with torch.autocast('cuda'):")
    (found,) = check(f"{HEAD}{covered}torch.autocast('cuda', enabled=ask())\n", settings=only("AMP305"))
    assert found.fix is None


def test_305_says_float32_where_no_region_is_round_the_loss_or_where_none_may_be() -> None:
    call = "torch.autocast('cuda')\ntrain(*make())\n"
    (found,) = check(HEAD + _TRAIN.replace("REGION", "if True:") + call, settings=only("AMP305"))
    assert (found.severity, found.fix) == (Severity.ERROR, None)
    assert "the loss on line 8 is computed in float32" in found.message
    (found,) = check(HEAD + "from elsewhere import train\n" + call, settings=only("AMP305"))
    assert "unless another region contains the forward pass, it runs in float32" in found.message
    assert "use `with`" in found.message


def test_305_says_of_a_generator_with_a_region_of_its_own_that_the_decorator_does_nothing() -> None:
    text = "@torch.autocast('cuda')\ndef outputs(model, loader):\n    for each in loader:\n        BODY\n"
    own = text.replace("BODY", "with torch.autocast('cuda'):\n            out = model(each)\n        yield out")
    for body, said in ((own, "remove the decorator"), (text.replace("BODY", "yield model(each)"), "in `outputs`")):
        (found,) = check(HEAD + body, settings=only("AMP305"))
        assert said in found.message


LIGHTNING = """
import lightning as L

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)
        self.criterion = nn.BCELoss()

    def forward(self, x):
        return self.net(x)

    def common(self, batch):
        return F.binary_cross_entropy(torch.sigmoid(self(batch[0])), batch[1])

    def training_step(self, batch, index):
        x, y = batch
{body}

    def rate(self, p, y):
        return F.binary_cross_entropy(p, y)

trainer = L.Trainer({trainer})
trainer.fit(Net())
"""
LOGITS = "        return self.criterion(torch.sigmoid(self(x)), y)"
MIXED_ON_GPU = "precision='16-mixed', accelerator='gpu'"


@pytest.mark.parametrize(
    ("trainer", "body", "wanted"),
    [
        (MIXED_ON_GPU, LOGITS, Confidence.CERTAIN),
        ("precision='bf16-mixed', accelerator='cuda'", LOGITS, Confidence.CERTAIN),
        ("precision=16, gpus=1", LOGITS, Confidence.CERTAIN),
        ("precision='16-mixed'", LOGITS, Confidence.LIKELY),
        ("precision='16-mixed', accelerator='auto'", LOGITS, Confidence.LIKELY),
        (MIXED_ON_GPU, "        return self.common(batch)", Confidence.CERTAIN),
        ("precision='16-mixed', accelerator='cpu'", LOGITS, None),
        ("precision='16-true', accelerator='gpu'", LOGITS, None),
        ("precision='32', accelerator='gpu'", LOGITS, None),
        ("precision=args.precision, accelerator='gpu'", LOGITS, None),
        ("accelerator='gpu'", LOGITS, None),
        (MIXED_ON_GPU, "        return self.net(x).mean()", None),
        (MIXED_ON_GPU, f"        with torch.autocast('cuda', enabled=False):\n    {LOGITS}", None),
        (MIXED_ON_GPU, f"        with no_amp():\n    {LOGITS}", None),
        (MIXED_ON_GPU, f"        if not torch.is_autocast_enabled():\n    {LOGITS}", None),
        (MIXED_ON_GPU, "        return self.criterion(self(x).cpu(), y.cpu())", None),
    ],
)
def test_304_under_a_trainer_of_lightning(trainer: str, body: str, wanted: Confidence | None) -> None:
    text = HEAD + LIGHTNING.format(trainer=trainer, body=body)
    told = [each.confidence for each in check(text, settings=only("AMP304"))]
    assert told == ([wanted] if wanted is not None else [])
