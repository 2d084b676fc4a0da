"""Details of the rules about half-precision numbers: what counts as the value, the constant, the criterion."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Applicability, Confidence, Finding, Severity
from amplint.config.settings import Settings

HEAD = """import torch
import torch.nn.functional as F
from torch import nn

FAR = -1e9


class Net(nn.Module):
    def __init__(self, eps=1e-8):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.eps = eps

    def forward(self, x, mask=None):
        h = self.fc(x)
        {}


def train(x, y, criterion, scaler, optimizer):
    model = Net()
    with torch.autocast({}):
        out = model(x)
    {}
"""
CUDA = '"cuda", dtype=torch.float16'


def found(code: str, forward: str = "return h", behind: str = "pass", region: str = CUDA) -> list[Finding]:
    text = HEAD.format(forward.replace("\n", "\n        "), region, behind.replace("\n", "\n    "))
    return [each for each in check(text, "t.py", Settings(frozenset([code]), isolated=True)) if each.code == code]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("h.masked_fill(mask, -1e9)", Severity.ERROR),
        ("h.masked_fill(mask, value=FAR)", Severity.ERROR),
        ("h.masked_fill_(mask, -10**9)", Severity.ERROR),
        ("torch.masked_fill(h, mask, torch.finfo(torch.float32).min)", Severity.ERROR),
        ("torch.full_like(h, 1e6)", Severity.ERROR),
        ("h.new_full((2,), -7e4)", Severity.ERROR),
        ("h[mask] = -1e9", Severity.WARNING),
        ("torch.where(mask, h, -1e9)", Severity.WARNING),
        ("h.where(mask, FAR)", Severity.WARNING),
        ("h.masked_fill(mask, -65504)", None),
        ("h.masked_fill(mask, float('-inf'))", None),
        ("h.masked_fill(mask, -torch.inf)", None),
        ("h.masked_fill(mask, torch.finfo(h.dtype).min)", None),
        ("h.masked_fill(mask, torch.finfo(torch.float16).min)", None),
        ("h.masked_fill(mask, self.fill)", None),
        ("torch.full_like(h, 1e6, dtype=torch.float32)", None),
        ("torch.where(mask, h.float(), -1e9)", None),
        ("torch.where(mask, h, x)", None),
        ("x.masked_fill(mask, -1e9)", None),
        ("h.softmax(-1).masked_fill(mask, -1e9)", None),
        ("h.clamp(min=-1e9)", None),
    ],
)
def test_constants(line: str, severity: Severity | None) -> None:
    assert [each.severity for each in found("AMP502", line)] == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("lines", "applicability"),
    [
        ("return h.masked_fill(mask, FAR).softmax(-1)", Applicability.SAFE),
        ("return F.softmax(h.masked_fill(mask, FAR), dim=-1)", Applicability.SAFE),
        ("w = h.masked_fill(mask, FAR)\nreturn torch.softmax(w, -1)", Applicability.SAFE),
        ("w = h.masked_fill(mask, FAR)\nreturn torch.softmax(w, -1) + w", Applicability.UNSAFE),
        ("w = h.masked_fill(mask, FAR)\nreturn w.argmax(-1)", Applicability.UNSAFE),
        ("h = h + x.half()\nw = h.masked_fill(mask, FAR)\nreturn w.softmax(-1)", Applicability.UNSAFE),
        ("return h.masked_fill(mask, 1e9).softmax(-1)", Applicability.UNSAFE),
    ],
)
def test_a_fill_is_safe_straight_into_softmax(lines: str, applicability: Applicability) -> None:
    (finding,) = found("AMP502", lines)
    assert finding.fix is not None
    assert finding.fix.applicability is applicability


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("h / (h.mean() + 1e-8)", "h.float() / (h.mean().float() + 1e-8)"),
        ("x / (1e-8 + h.std(-1))", "x / (1e-8 + h.std(-1).float())"),
        ("x / (h - h.amin() + self.eps)", "x / ((h - h.amin()).float() + self.eps)"),
        ("h.clamp(min=1e-12)", "h.float().clamp(min=1e-12)"),
        ("torch.clamp(h, 1e-12, 1)", "torch.clamp(h.float(), 1e-12, 1)"),
        ("torch.clamp_min(h, self.eps)", "torch.clamp_min(h.float(), self.eps)"),
        ("h + 6e-8", None),
        ("h + 0.0", None),
        ("h + self.fc.eps", None),
        ("h.norm() + 1e-8", None),
        ("h.sum(-1) + 1e-8", None),
        ("h.float() + 1e-8", None),
        ("x + 1e-8", None),
        ("len(h) + 1e-8", None),
        ("h.clamp(max=1e-12)", None),
    ],
)
def test_epsilons(line: str, fixed: str | None) -> None:
    findings = found("AMP501", line)
    assert len(findings) == (fixed is not None)
    for each in findings:
        text = HEAD.format(line, CUDA, "pass")
        assert each.fix is not None
        for edit in sorted(each.fix.edits, reverse=True):
            text = text[: edit.start] + edit.content + text[edit.end :]
        assert text == HEAD.format(fixed, CUDA, "pass")


@pytest.mark.parametrize(
    ("lines", "fixed", "count"),
    [
        ("p = torch.sigmoid(h)\np.clamp(min=1e-8).log()", "p = torch.sigmoid(h.float())\np.clamp(min=1e-8).log()", 1),
        ("p = h.sigmoid()\n(p + 1e-8).log()", "p = h.float().sigmoid()\n(p + 1e-8).log()", 1),
        ("(F.sigmoid(h) + 1e-8).log()", "(F.sigmoid(h.float()) + 1e-8).log()", 1),
        ("(1 - h.sigmoid()).clamp(1e-12)", "(1 - h.float().sigmoid()).clamp(1e-12)", 1),
        (
            "p = (h - 1).sigmoid()\nq = 1 - p\n(q + 1e-8).log()",
            "p = (h - 1).float().sigmoid()\nq = 1 - p\n(q + 1e-8).log()",
            1,
        ),
        (
            "p = torch.sigmoid(h)\nx = (1 - p).clamp(min=1e-8).log()\np.clamp(min=1e-8).log()",
            "p = torch.sigmoid(h.float())\nx = (1 - p).clamp(min=1e-8).log()\np.clamp(min=1e-8).log()",
            1,
        ),
        # It was no sigmoid, or more than one.
        ("p = h.relu()\n(p + 1e-8).log()", "p = h.relu()\n(p.float() + 1e-8).log()", 1),
        ("p = h.sigmoid().mean(-1)\n(p + 1e-8).log()", "p = h.sigmoid().mean(-1)\n(p.float() + 1e-8).log()", 1),
    ],
)
def test_a_sigmoid_is_computed_in_float32_itself(lines: str, fixed: str, count: int) -> None:
    findings = found("AMP501", lines)
    assert len(findings) == count
    text = HEAD.format("\n        ".join(lines.split("\n")), CUDA, "pass")
    for edit in sorted(findings[0].fix.edits if findings[0].fix is not None else (), reverse=True):
        text = text[: edit.start] + edit.content + text[edit.end :]
    assert text.split() == HEAD.format("\n        ".join(fixed.split("\n")), CUDA, "pass").split()


@pytest.mark.parametrize("code", ["AMP501", "AMP502"])
def test_bfloat16_has_the_range(code: str) -> None:
    region = '"cuda", dtype=torch.bfloat16'
    assert not found(code, "(h + 1e-8).masked_fill(mask, -1e9)", region=region)
    assert found("AMP502", "h.masked_fill(mask, -3.4e38)", region=region)
    assert found(code, "(h + 1e-8)\nh.masked_fill(mask, -1e9)", region='"cuda", torch.bfloat16 if big else torch.half')


@pytest.mark.parametrize(
    ("lines", "severities"),
    [
        ("loss = F.cross_entropy(out, y)", [Severity.WARNING]),
        ("loss = F.cross_entropy(out, y)\nscaler.scale(loss).backward()", [Severity.ERROR]),
        ("s = torch.GradScaler(init_scale=16.0)\ns.scale(F.nll_loss(out, y)).backward()", [Severity.WARNING]),
        ("loss = nn.CrossEntropyLoss(reduction='sum')(out, target=y)", [Severity.WARNING]),
        ("loss = F.mse_loss(out, out.detach())", [Severity.WARNING]),
        ("loss = F.mse_loss(out, y)", []),
        ("loss = F.mse_loss(out, torch.zeros(4))", []),
        ("loss = F.cross_entropy(out.float(), y)", []),
        ("loss = criterion(out, y)", []),
        ("with torch.no_grad():\n    loss = F.cross_entropy(out, y)", []),
        ("loss = F.cross_entropy(out, torch.zeros(4, 4))", []),
        ("loss = F.cross_entropy(out, F.one_hot(y).float())", []),
    ],
)  # fmt: skip
def test_losses_behind_the_region(lines: str, severities: list[Severity]) -> None:
    assert [each.severity for each in found("AMP303", behind=lines)] == severities


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("h.float() @ h.float().T", 1),
        ("self.fc(h.float())", 1),
        ("torch.bmm(h.to(torch.float32)[None], h.float()[None])", 1),
        ("w = h.float()\nreturn w @ w.T", 1),
        ("w = h.float()\nreturn w @ w.T + w", 0),
        ("x.float() @ h", 0),
        ("(h > 0).float() @ h", 0),
        ("h.float().softmax(-1) @ h", 0),
        ("(h.float() * 2) @ h", 0),
        ("torch.cdist(h.float(), h.float())", 0),
        ("with torch.autocast('cuda', enabled=False):\n    return h.float() @ h.float().T", 0),
    ],
)
def test_casts_that_are_undone(line: str, count: int) -> None:
    assert len(found("AMP503", line)) == count


@pytest.mark.parametrize(
    ("line", "applicability"),
    [
        ("return h @ h.T", [Applicability.SAFE]),
        ("return F.mse_loss(h, x)", [Applicability.UNSAFE]),
        ("return self.fc(h)", [Applicability.UNSAFE]),
        ("return h @ torch.ones(4, 4)", [Applicability.UNSAFE]),
        ("return h.float() @ h.float().T", []),
        ("return h * 2 + 1", []),
        ("return x @ x", []),
        ("return h.half() @ h.half()", []),
        ("h = h.float()\n    return h @ h", []),
    ],
)
def test_islands(line: str, applicability: list[Applicability]) -> None:
    findings = found("AMP311", f"with torch.autocast('cuda', enabled=False):\n    {line}")
    assert [each.fix.applicability for each in findings if each.fix] == applicability


@pytest.mark.parametrize(
    ("line", "region", "count"),
    [
        ("torch.fft.fft2(h)", CUDA, 1),
        ("torch.fft.rfft(h.float())", CUDA, 0),
        ("torch.fft.rfft(x)", CUDA, 0),
        ("torch.fft.rfft(h)", '"cpu", dtype=torch.bfloat16', 0),
        ("torch.fft.rfft(h)", "device, dtype=torch.bfloat16", 0),
        ("torch.stft(h, 4)", CUDA, 1),
        ("torch.stft(h, 4, window=None)", CUDA, 1),
        ("torch.stft(h, 4, window=torch.hann_window(4))", CUDA, 0),
        ("torch.stft(h, 4, 2, 4, self.window)", CUDA, 0),
    ],
)
def test_transforms(line: str, region: str, count: int) -> None:
    assert len(found("AMP508", line, region=region)) == count


@pytest.mark.parametrize(
    ("line", "region", "count"),
    [
        ("h * h", CUDA, 1),
        ("h.mul(h)", CUDA, 1),
        ("h**2", CUDA, 0),
        ("h**2", '"cpu", dtype=torch.float16', 1),
        ("h**3", '"cpu", dtype=torch.float16', 0),
        ("h.exp()", '"cpu", dtype=torch.float16', 1),
        ("h * h", '"cuda", dtype=torch.bfloat16', 0),
        ("h * x", CUDA, 0),
        ("1 - h / (h + 1e-6)", CUDA, 1),
        ("h / (h + 1e-3)", CUDA, 0),
    ],
)
def test_arithmetic(line: str, region: str, count: int) -> None:
    assert len(found("AMP510", line, region=region)) == count


@pytest.mark.parametrize(
    ("around", "findings"),
    [
        ("with torch.enable_grad():", 1),
        ("with torch.set_grad_enabled(True):", 1),
        ("with torch.set_grad_enabled(training):", 1),
        ("with torch.inference_mode(False):", 1),
        ("with torch.inference_mode(mode=False):", 1),
        ("with torch.no_grad(), torch.enable_grad():", 1),
        ("with torch.no_grad():", 0),
        ("with torch.autograd.no_grad():", 0),
        ("with torch.inference_mode():", 0),
        ("with torch.autograd.inference_mode():", 0),
        ("with torch.autograd.grad_mode.inference_mode(True):", 0),
        ("with torch.set_grad_enabled(False):", 0),
        ("with torch.set_grad_enabled(mode=False):", 0),
        ("with torch.autograd.set_grad_enabled(False):", 0),
        ("torch.set_grad_enabled(False)\nif x:", 0),
        ("torch.set_grad_enabled(False)\ntorch.set_grad_enabled(True)\nif x:", 1),
    ],
)
def test_303_a_loss_without_gradients_is_no_misuse(around: str, findings: int) -> None:
    assert len(found("AMP303", behind=f"{around}\n    F.cross_entropy(out, y)")) == findings


@pytest.mark.parametrize(("line", "findings"), [("# no mixup here", 1), ('print("one_hot")', 1), ("mixup(x)", 0)])
def test_303_only_code_speaks_of_targets_that_are_probabilities(line: str, findings: int) -> None:
    assert len(found("AMP303", behind=f"{line}\nF.cross_entropy(out, y)")) == findings


ISLAND = """\
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        with torch.autocast("cuda", enabled=False):
            {}
        return self.proj(out)


def train(x, model=Attention()):
    with torch.autocast("cuda", dtype=torch.float16):
        return model(x)
"""
LINES = ["attn = q @ k.transpose(-2, -1)", "attn = F.softmax(attn, dim=-1)", "out = attn @ v"]
UP = ["attn = q.float() @ k.transpose(-2, -1).float()", LINES[1], "out = attn @ v.float()"]


@pytest.mark.parametrize(
    ("lines", "cast"),
    [
        (LINES, UP),
        (["attn = (q @ k.mT).softmax(-1)", LINES[2]], ["attn = (q.float() @ k.mT.float()).softmax(-1)", UP[2]]),
        (["a = torch.matmul(q, k.mT)", "out = torch.matmul(a, v)"], [
            "a = torch.matmul(q.float(), k.mT.float())", "out = torch.matmul(a, v.float())"]),
    ],
)  # fmt: skip
def test_one_region_that_is_off_is_one_finding_and_all_that_it_gets_is_cast(lines: list[str], cast: list[str]) -> None:
    head = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
    before, after = (head + ISLAND.format("\n            ".join(each)) for each in (lines, cast))
    settings = Settings(frozenset({"AMP311"}), isolated=True)
    (finding,) = check(before, "t.py", settings)
    assert finding.fix is not None
    text = before
    for edit in sorted(finding.fix.edits, reverse=True):
        text = text[: edit.start] + edit.content + text[edit.end :]
    assert text == after
    assert check(after, "t.py", settings) == []


def test_two_regions_that_are_off_are_two_findings() -> None:
    head = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
    lines = [LINES[0], "pass"]
    text = head + ISLAND.format("\n            ".join(lines)).replace(
        "        return self.proj(out)",
        '        with torch.autocast("cuda", enabled=False):\n            out = v @ k.mT\n        return out',
    )
    assert len(check(text, "t.py", Settings(frozenset({"AMP311"}), isolated=True))) == 2


UNSEEN = """\
import torch
from lib import make_model


def train(loader, scaler, args):
    model = make_model(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(x)
            TAKEN
            loss = -(y * torch.log(p.clamp(min=1e-8))).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ("p = torch.sigmoid(output)", True),
        ("p = output.sigmoid()", True),
        ("p = output", False),  # it may be the float32 of a softmax
        ("p = output.softmax(1)", False),
        ("p = output.float().sigmoid()", False),
    ],
)
def test_the_output_of_a_model_out_of_sight(taken: str, found: bool) -> None:
    said = [each for each in check(UNSEEN.replace("TAKEN", taken), "train.py") if each.code == "AMP501"]
    assert [each.confidence for each in said] == ([Confidence.LIKELY] if found else [])


SHARED_LOSS = """\
import torch
from torch.nn import functional as F


class Trainer:
    def measure(self, output, target):
        return F.cross_entropy(output, target)

    def training_step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.measure(torch.nn.Linear(4, 4)(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def NAME(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            output = torch.nn.Linear(4, 4)(x)
        return self.measure(output, torch.tensor([1]))
"""


@pytest.mark.parametrize(("name", "found"), [("validation_step", False), ("another_step", True)])
def test_a_loss_that_evaluation_computes_after_its_region(name: str, found: bool) -> None:
    """The function of the loss trains, too, in the region."""
    codes = {each.code for each in check(SHARED_LOSS.replace("NAME", name), "train.py")}
    assert ("AMP303" in codes) is found


OUT_OF_SIGHT = """import torch
import torch.nn.functional as F


def smooth(image):
    kernel = torch.ones(1, 1, 3, 3, device=image.device)
    return F.conv2d({smoothed}, kernel)


def train(model, loader, optimizer, scaler):
    model.train()
    for x, y, mask in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            first = model(x)
            second = model(y)
            loss = {loss}
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("loss", "smoothed", "count"),
    [
        ("(first.float() @ second.float().t()).mean()", "image", 1),
        ("torch.einsum('nc,kc->nk', first.to(torch.float32), second).mean()", "image", 1),
        ("smooth(first).mean()", "image.float()", 1),
        ("smooth(first.float()).mean()", "image", 1),
        ("smooth(mask).mean() * first.mean()", "image.float()", 0),
        ("(first @ second.t()).float().mean()", "image", 0),
        ("F.softmax(first.float(), -1).mean()", "image", 0),
        ("(mask.float() @ second.t()).mean()", "image", 0),
    ],
)
def test_what_a_model_out_of_sight_gives_is_likely_cast_back(loss: str, smoothed: str, count: int) -> None:
    text = OUT_OF_SIGHT.format(loss=loss, smoothed=smoothed)
    findings = check(text, "t.py", Settings(frozenset(["AMP503"]), isolated=True))
    assert [(each.code, each.confidence) for each in findings] == count * [("AMP503", Confidence.LIKELY)]


VARIANCES = """import torch
import torch.nn.functional as F
from pytorch_msssim import SSIM, ssim
from torchmetrics.functional.image import structural_similarity_index_measure as similar
from torch import nn


def similarity(first, second, window):
    mean = F.conv2d(first, window)
    squared = {squared}
    variance = {variance}
    return ((2 * mean + 1e-4) / (squared + variance + 1e-4)).mean()


def train(loader, window):
    model = nn.Conv2d(3, 3, 3)
    measure = SSIM(data_range=1.0)
    for x, y in loader:
        with torch.autocast("cuda", dtype={dtype}):
            out = model(x)
            loss = {loss}
        loss = loss + {outside}
"""


@pytest.mark.parametrize(
    ("squared", "variance", "count"),
    [
        ("mean.pow(2)", "F.conv2d(first * first, window) - squared", 1),
        ("mean * mean", "F.conv2d(first**2, window) - squared", 1),
        ("0", "F.conv2d(torch.square(first), window) - mean**2", 1),
        ("mean * F.conv2d(second, window)", "F.conv2d(first * second, window) - squared", 1),
        ("mean * mean", "F.conv2d(input=first.pow(2), weight=window).sub(squared)", 1),
        ("mean * mean", "torch.sub(F.conv2d(first.pow(2), window), squared).relu()", 1),
        ("mean.float() ** 2", "F.conv2d(first.pow(2), window).float() - squared", 1),
        ("mean * mean / 9", "F.conv2d(F.pad(first * first, (1, 1)), window) / 9 - squared", 1),
        ("mean * mean", "F.conv2d(F.conv2d(first * first, window), window) - squared", 1),
        ("mean * mean", "F.conv2d(first.square(), window) + squared", 0),
        ("mean", "F.conv2d(first.square(), window) - squared", 0),
        ("mean * first", "F.conv2d(first.square(), window) - squared", 0),
        ("mean * mean", "squared - F.conv2d(first.square(), window)", 0),
        ("mean * mean", "F.conv2d(first, window) - squared", 0),
        ("mean * mean", "F.avg_pool2d(first * first, 3).var() - squared", 0),
    ],
)
@pytest.mark.parametrize(
    ("dtype", "codes"),
    [
        ("torch.float16", ["AMP510"]),
        ("torch.bfloat16", ["AMP511"]),
        ("torch.bfloat16 if loader else torch.float16", ["AMP511"]),
        ("DTYPES[loader]", []),
    ],
)
def test_variances_from_two_means(squared: str, variance: str, count: int, dtype: str, codes: list[str]) -> None:
    """bfloat16 is one rule's, float16 another's; where it can be either, one of them answers."""
    loss = "similarity(out, y, window)"
    text = VARIANCES.format(squared=squared, variance=variance, dtype=dtype, loss=loss, outside="0")
    findings = check(text, "t.py", Settings(frozenset(["AMP510", "AMP511"]), isolated=True))
    variances = [each for each in findings if "variance" in each.message]
    assert [each.code for each in variances] == count * codes
    likely = "float16 if" in dtype
    assert all(each.confidence == (Confidence.LIKELY if likely else Confidence.CERTAIN) for each in variances)


@pytest.mark.parametrize(
    ("loss", "outside", "count"),
    [
        ("1 - ssim(out, y)", "0", 1),
        ("1 - measure(out.float(), y)", "0", 1),
        ("1 - similar(preds=out, target=y)", "0", 1),
        ("out.mean()", "ssim(out.float(), y)", 0),
        ("out.mean()", "measure(out.float(), y)", 0),
    ],
)
@pytest.mark.parametrize(("dtype", "code"), [("torch.float16", "AMP510"), ("torch.bfloat16", "AMP511")])
def test_ssim_of_a_library(loss: str, outside: str, count: int, dtype: str, code: str) -> None:
    text = VARIANCES.format(squared="0", variance="0", dtype=dtype, loss=loss, outside=outside)
    findings = check(text, "t.py", Settings(frozenset(["AMP510", "AMP511"]), isolated=True))
    assert [(each.code, each.confidence) for each in findings] == count * [(code, Confidence.LIKELY)]


POOLED = """import torch
from torch import nn
import torch.nn.functional as F
from pathlib import build


class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d(3, 1)

    def forward(self, x):
        return self.pool(x)


def train(loader):
    model, out_of_sight = nn.Conv2d(3, 3, 3), build()
    out_of_sight.train()
    blur = {blur}
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = {out}
            mean = blur(out)
            variance = {variance}
        variance.mean().backward()
"""


@pytest.mark.parametrize(
    ("blur", "out", "variance", "sure"),
    [
        ("Blur()", "model(x)", "blur(out * out) - mean * mean", Confidence.CERTAIN),
        ("nn.AvgPool2d(3)", "model(x)", "blur(out * out) - mean * mean", Confidence.CERTAIN),
        ("nn.AvgPool2d(3)", "model(x)", "blur(out.float() * out.float()) - mean.float() ** 2", Confidence.CERTAIN),
        ("nn.Sequential(nn.Identity(), nn.AvgPool2d(3))", "model(x)", "blur(out * out) - mean**2", Confidence.CERTAIN),
        ("nn.AvgPool2d(3)", "out_of_sight(x)", "blur(out * out) - mean * mean", Confidence.LIKELY),
        ("nn.AvgPool2d(3)", "model(x).float()", "blur(out * out) - mean * mean", None),
        ("nn.AvgPool2d(3)", "x", "blur(out * out) - mean * mean", None),
        ("nn.ReLU()", "model(x)", "blur(out * out) - mean * mean", None),
        ("nn.AvgPool2d(3)", "model(x) - x", "blur(out * out) - mean * mean", None),
    ],
)
def test_variances_of_pooled_outputs(blur: str, out: str, variance: str, sure: Confidence | None) -> None:
    """A pooling keeps the dtype of its input: its means are half where that is."""
    text = POOLED.format(blur=blur, out=out, variance=variance)
    findings = check(text, "t.py", Settings(frozenset(["AMP511"]), isolated=True))
    assert [each.confidence for each in findings] == ([] if sure is None else [sure])


def test_a_variance_in_another_file(tmp_path: Path) -> None:
    """A loss of another file is shown at the call in the region."""
    (tmp_path / "losses.py").write_text(
        "import torch.nn.functional as F\n\n\n"
        "def spread(x, window):\n"
        "    mean = F.conv2d(x, window)\n"
        "    return (F.conv2d(x * x, window) - mean**2).mean()\n"
    )
    text = (
        "import torch\nfrom losses import spread\n\n\n"
        "def train(images, window):\n"
        "    for x in images:\n"
        "        with torch.autocast('cuda', dtype=torch.bfloat16):\n"
        "            loss = spread(x, window)\n"
        "        loss.backward()\n"
    )
    (tmp_path / "train.py").write_text(text)
    findings = check(text, str(tmp_path / "train.py"), Settings(frozenset(["AMP511"]), isolated=True))
    assert [text[each.start : each.end] for each in findings] == ["spread(x, window)"]
    assert findings[0].message.startswith("this runs line 6 of losses.py")


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("v = torch.diff(h, dim=1) / 0.001\nreturn torch.diff(v, dim=1) / 0.001", 1),
        ("v = (h[:, 1:] - h[:, :-1]) / 0.001\nreturn (v[:, 1:] - v[:, :-1]) / 0.001", 1),
        ("return h / 1e-6", 1),
        ("v = torch.diff(h, dim=1) / 0.01\nreturn torch.diff(v, dim=1) / 0.01", 0),
        ("v = torch.diff(h.float(), dim=1) / 0.001\nreturn torch.diff(v, dim=1) / 0.001", 0),
        ("v = h / 0.001\nreturn v * 0.001 / 0.001", 0),
    ],
)
def test_quotients_by_steps(lines: str, count: int) -> None:
    assert len(found("AMP510", lines)) == count


METHODS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return {{"out": self.fc(x)}}

    def energy(self, outputs):
        return (outputs["out"] * outputs["out"]).mean()


def train(loader, devices):
    model = Net()
    {wrapped}
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model.energy(model(x))
        loss.backward()
"""
WRAPPED = "if devices > 1:\n        model = nn.DataParallel(model)\n    model = model.cuda()"


@pytest.mark.parametrize("wrapped", ["pass", "model = model.cuda()", WRAPPED])
def test_a_method_of_a_model_that_may_be_wrapped(wrapped: str) -> None:
    text, settings = METHODS.format(wrapped=wrapped), Settings(frozenset(["AMP510"]), isolated=True)
    assert [(each.code, each.location.row) for each in check(text, "t.py", settings)] == [("AMP510", 14)]
    assert not check(text.replace("self.fc(x)", "self.fc(x).float()"), "t.py", settings)
