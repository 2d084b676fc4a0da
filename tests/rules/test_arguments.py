"""Details of AMP212, AMP214 and AMP215: what counts as evidence, what a fix may touch."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

HEAD = "import torch\nfrom torch.amp import GradScaler\n"
REGION = 'with torch.autocast("cuda"):\n    pass\n'


def only(code: str) -> Settings:
    return Settings(frozenset((code,)), isolated=True)


def count(code: str, text: str) -> int:
    return len(check(HEAD + text, settings=only(code)))


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("GradScaler(0)", 0),  # the index of a device
        ("GradScaler(16)", 1),
        ("GradScaler(1.0)", 1),
        ("GradScaler(rank)", 0),
        ("GradScaler(torch.device('cuda'))", 0),
        ("GradScaler(*args)", 0),
        ("GradScaler(device=1024.0)", 0),
        ("GradScaler('cuda', growth_factor=1)", 1),
        ("GradScaler('cuda', growth_factor=1.0001, backoff_factor=0.9999)", 0),
        ("GradScaler('cuda', growth_factor=1.0, enabled=use_amp)", 1),
        ("GradScaler('cuda', growth_factor=1.0, enabled=False)", 0),
        ("GradScaler('cuda', 2.0**10, 0.5, 2.0)", 1),
        ("GradScaler('cuda', init_scale=use_amp)", 0),
        ("GradScaler('cuda', init_scale=not x)", 1),
        ("GradScaler('cuda', init_scale=-0.0)", 1),
        ("GradScaler('cuda', init_scale='a', growth_factor='b', backoff_factor=None, growth_interval=1.5)", 4),
        ("from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler as S\nS('cuda', 8., 2., .5)", 1),
        ("from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler as S\nS('cuda', 8., .5, 2.)", 0),
        ("torch.cuda.amp.GradScaler(1024)", 0),
        ("torch.cuda.amp.GradScaler(True)", 1),
        ("scaler = GradScaler('cuda')\nscaler.update(4)", 1),
        ("scaler = GradScaler('cuda')\nscaler.update(new_scale=4)", 1),
        ("scaler = GradScaler('cuda')\nscaler.update()", 0),
        ("scaler = GradScaler('cuda')\nscaler.update(x // 2)", 0),
        ("scaler = GradScaler('cuda')\nprogress.update(4)", 0),
        ("scaler = make()\nscaler.unscale_(optimizer)\nscaler.update(4)", 0),
        ("scaler = GradScaler('cuda', enabled=False)\nscaler.update(4)", 0),
    ],
)
def test_214(text: str, findings: int) -> None:
    assert count("AMP214", text) == findings


@pytest.mark.parametrize(
    ("given", "findings"),
    [
        ("growth_interval=args.amp_init_scale", 1),
        ("init_scale=args.growth_interval, growth_interval=args.init_scale", 2),
        ("growth_interval=int(init_scale)", 1),
        ("backoff_factor=cfg['growth_factor']", 1),
        ("growth_factor=cfg.get('backoff_factor')", 1),
        ("growth_interval=getattr(args, 'init_scale', 2000)", 1),
        ("enabled=args.init_scale", 1),
        ("growth_interval=args.amp_growth_interval, init_scale=cfg['init_scale']", 0),
        ("growth_interval=args.scaler_interval, init_scale=args.scale", 0),
        ("init_scale=2.0 ** args.growth_interval", 0),  # computed: it may be made fit
        ("growth_factor=args.growth_factor_of_growth_interval", 0),
        ("growth_factor=1 / args.backoff_factor", 0),
        ("init_scale=args.growth_factory", 0),
        ("growth_interval=args.init_scale, enabled=False", 0),
    ],
)
def test_214_by_the_names_of_settings(given: str, findings: int) -> None:
    for made in ("GradScaler('cuda', {})", "torch.cuda.amp.GradScaler({})"):
        found = list(check(HEAD + made.format(given), settings=only("AMP214")))
        assert len(found) == findings
        assert all(each.confidence is Confidence.LIKELY for each in found)


def test_what_is_said_of_code_on_several_lines_is_one_line() -> None:
    (found,) = check(HEAD + "GradScaler(2.0**(\n    10\n))", settings=only("AMP214"))
    assert "`2.0**( 10 )` becomes the device" in found.message
    assert found.message.isprintable()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("GradScaler(1024.0)", 'GradScaler("cuda", init_scale=1024.0)'),
        ("GradScaler((1024.0), 2.0)", 'GradScaler("cuda", (1024.0), 2.0)'),
        ("GradScaler(1024.0, *rest)", 'GradScaler("cuda", 1024.0, *rest)'),
        ("GradScaler(True, *rest)", None),
        ("GradScaler(True, 4.0)", None),
        ("GradScaler(True, enabled=x)", None),
        ("GradScaler(not x)", 'GradScaler("cuda", enabled=not x)'),
        ("GradScaler('cuda', True, 2.0)", None),
        ("GradScaler('cuda', (not x))", "GradScaler('cuda', enabled=(not x))"),
        ("GradScaler('cuda', True, enabled=x)", None),
        ("GradScaler('cuda', 8.0, (0.5), (2.0))", "GradScaler('cuda', 8.0, (2.0), (0.5))"),
        ("GradScaler('cuda', growth_factor=1.0, backoff_factor=2.0)", None),
        ("GradScaler('cuda', init_scale=' 2.5 ')", "GradScaler('cuda', init_scale=2.5)"),
        ("GradScaler('cuda', init_scale='1e3')", None),
        ("GradScaler('cuda', init_scale='inf')", None),
        ("GradScaler('cuda', init_scale='-1')", None),
        ("GradScaler('cuda', growth_interval='10.5')", None),
        ("GradScaler('cuda', 'cuda:0', enabled=x)", "GradScaler('cuda', enabled=x)"),
        ("GradScaler(init_scale='cuda', device='cuda')", "GradScaler(device='cuda')"),
        ("torch.cuda.amp.GradScaler('cuda')", "torch.cuda.amp.GradScaler()"),
        ("torch.cuda.amp.GradScaler('cuda', 2.0)", "torch.cuda.amp.GradScaler(2.0)"),
        ("GradScaler('cuda', 'cuda', *rest)", None),
        ("GradScaler('cuda', growth_interval=10.5)", "GradScaler('cuda', growth_interval=int(10.5))"),
    ],
)
def test_214_fix(before: str, after: str | None) -> None:
    text = f"{HEAD}{REGION}scaler = {{}}\n"
    assert fix(text.format(before), settings=only("AMP214")) == text.format(after or before)


PARSED = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({})\nargs = parser.parse_args()\n"


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("torch.autocast('cuda', enabled=1)", 1),
        ("torch.autocast('cuda', None, 0)", 1),
        ("torch.autocast('cuda', torch.float16, True)", 0),
        ("torch.cuda.amp.autocast(1)", 1),
        ("torch.cuda.amp.autocast(True)", 0),
        ("torch.autocast('cuda', enabled=x)", 0),
        ("torch.autocast('cuda', enabled=None)", 1),
        ("torch.autocast('cuda', enabled=x and None)", 0),
        ("torch.autocast('cuda', enabled=1 if x else True)", 1),
        ("torch.autocast('cuda', enabled='fp16' == x)", 0),
        ("def f(x=None):\n    torch.autocast('cuda', enabled=x)", 0),
        ("def f(x=1):\n    torch.autocast('cuda', enabled=x)", 1),
        ("def f(x=1):\n    x = bool(x)\n    torch.autocast('cuda', enabled=x)", 0),
        ("def f(x: int):\n    torch.autocast('cuda', enabled=x)", 1),
        ("def f(x: int):\n    if not g(x):\n        x = bool(x)\n    torch.autocast('cpu', enabled=x)", 0),
        ("scaler = GradScaler('cuda')\ntorch.autocast('cuda', enabled=scaler)", 1),
        ("scaler = GradScaler('cuda')\ntorch.autocast('cuda', enabled=scaler is not None)", 0),
        ("scaler = GradScaler('cuda')\ntorch.autocast('cuda', enabled=scaler and x)", 0),
        ("import os\ntorch.autocast('cuda', enabled=os.environ.get('AMP'))", 1),
        ("import numpy as np\ntorch.autocast('cuda', enabled=np.all(x))", 1),
        (PARSED.format("'--amp', type=int, default=1") + "torch.autocast('cuda', enabled=args.amp)", 1),
        (PARSED.format("'--amp', action='store_true'") + "torch.autocast('cuda', enabled=args.amp)", 0),
        (PARSED.format("'--amp', type=int, default=1") + "torch.autocast('cuda', enabled=args.amp > 0)", 0),
        (PARSED.format("'--amp', type=int, default=1") + "torch.autocast('cuda', enabled=cfg.amp)", 0),
    ],
)
def test_212(text: str, findings: int) -> None:
    assert count("AMP212", text) == findings


@pytest.mark.parametrize(
    ("before", "safe", "unsafe"),
    [
        ("1", "True", "True"),
        ("(0)", "False", "False"),
        ("None", "False", "False"),
        ("1.0", "1.0", "bool(1.0)"),
        ("2", "2", "bool(2)"),
        ("'False'", "'False'", "'False'"),
        ("(len(\n    x\n))", "(len(\n    x\n))", "bool(len(\n    x\n))"),
        ("[x]", "[x]", "[x]"),
    ],
)
def test_212_fix(before: str, safe: str, unsafe: str) -> None:
    text = "import torch\nwith torch.autocast('cpu', enabled={}):\n    pass\n"
    assert fix(text.format(before), settings=only("AMP212")) == text.format(safe)
    assert fix(text.format(before), settings=only("AMP212"), unsafe=True) == text.format(unsafe)


@pytest.mark.parametrize(
    ("made", "enabled"),
    [
        ("GradScaler()", "scaler.is_enabled()"),  # bool(scaler) would be True for a disabled scaler, too
        ("GradScaler() if x else None", "scaler is not None and scaler.is_enabled()"),
        ("GradScaler() if x else 1", "scaler"),
        ("GradScaler() if x else y", "scaler"),
    ],
)
def test_212_fix_of_a_scaler(made: str, enabled: str) -> None:
    text = f"{HEAD}scaler = {made}\nwith torch.autocast('cuda', enabled={{}}):\n    pass\n"
    assert fix(text.format("scaler"), settings=only("AMP212"), unsafe=True) == text.format(enabled)


LOSSES = "import torch.nn.functional as F\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("F.nll_loss(out, y.half())", 1),
        ("F.nll_loss(out, target=y.bfloat16())", 1),
        ("F.nll_loss(out, y.to('cuda', torch.half))", 1),
        ("F.nll_loss(out, y.to(dtype=torch.bfloat16)); y.half()", 1),
        ("F.nll_loss(out.half(), y)", 0),
        ("F.nll_loss(out, y.half().long())", 0),
        ("F.nll_loss(out, y.half().to(torch.long))", 0),
        ("F.nll_loss(out, half(y)); y.half()", 0),
        ("F.nll_loss(*both, y.half())", 0),
        ("F.nll_loss(out, y.half().cuda().view(-1))", 1),
        ("F.nll_loss(out, y.half() if x else y)", 0),
        ("nn.NLLLoss()(out, y.half())", 1),
        ("loss = nn.NLLLoss()\nloss(out, y.half())", 1),
        ("loss = nn.NLLLoss() if x else z\nloss(out, y.half())", 0),
        ("F.cross_entropy(out, y.half())", 0),
        ("F.cross_entropy(out, y.half(), ignore_index=255)", 1),
        ("F.cross_entropy(out, y.half().view(-1))", 1),
        ("F.cross_entropy(out.view(-1, 10), y.view(-1).half())", 1),
        ("F.cross_entropy(out.view(-1), y.half().view(-1))", 0),
        ("F.cross_entropy(out, y.half().view(-1, 10))", 0),
        ("F.cross_entropy(out, F.one_hot(y, 10).half())", 0),
        ("F.cross_entropy(out, torch.randint(10, (4,)).half())", 1),
        ("F.cross_entropy(out, torch.tensor([1, 2]).half())", 1),
        ("F.cross_entropy(out, torch.tensor([0.1, 0.9]).half())", 0),
        ("F.cross_entropy(out, y.long().cuda()[0].half())", 1),
        ("y = torch.randint(10, (4,))\nF.cross_entropy(out, y.half())", 1),
        ("y = torch.randint(10, (4,))\nif x:\n    y = F.one_hot(y)\nF.cross_entropy(out, y.half())", 0),
        ("y = y.half()\nF.cross_entropy(out, y)\nprint(out.argmax(1) == y)", 1),
        ("best = out.argmax(1)\nF.cross_entropy(out, y.half())\nprint(best.eq(y))", 1),
        ("F.cross_entropy(out, y.half())\nprint(out.argmax(1) == y.argmax(1))", 0),
        ("x, y = x.half(), y.half()\nF.nll_loss(x, y)", 1),
        ("y = g()\nif x:\n    y = y.half()\nF.nll_loss(out, y)", 0),
        ("loss = nn.CrossEntropyLoss(ignore_index=-1)\nloss(out, y.half())", 1),
        ("class A:\n  def f(self):\n    self.c = nn.NLLLoss()\n  def g(self, o, y):\n    self.c(o, y.half())", 1),
    ],
)
def test_215(text: str, findings: int) -> None:
    assert count("AMP215", f"{LOSSES}# autocast float16\n{text}") == findings


@pytest.mark.parametrize(
    ("before", "after", "safe"),
    [
        ("F.nll_loss(out, y.half())", "F.nll_loss(out, y)", True),
        ("F.nll_loss(out, (y + 1).half().view(-1))", "F.nll_loss(out, (y + 1).view(-1))", True),
        ("F.nll_loss(out, y.to(d, torch.float16))", "F.nll_loss(out, y.to(d))", True),
        ("F.nll_loss(out, y.to(torch.float16, non_blocking=True))", "F.nll_loss(out, y)", True),
        ("F.nll_loss(out, y.to(d, dtype=torch.half, copy=True))", "F.nll_loss(out, y.to(d, copy=True))", True),
        ("F.nll_loss(out, y.to(  # there\n    torch.half))", "F.nll_loss(out, y.to(  # there\n    torch.half))", True),
        ("y = y.half()\nF.nll_loss(out, y)", "F.nll_loss(out, y)", True),
        ("y = y.half()  # why\nF.nll_loss(out, y)\nprint(y)", "# why\nF.nll_loss(out, y)\nprint(y)", True),
        ("y = y.half()\nprint(y)\nF.nll_loss(out, y)", "print(y)\nF.nll_loss(out, y)", False),
        ("x, y = x.half(), y.half()\nF.nll_loss(f(x), y)", "x, y = x.half(), y\nF.nll_loss(f(x), y)", True),
        ("z = y.half()\nF.nll_loss(out, z)", "z = y\nF.nll_loss(out, z)", True),
    ],
)
def test_215_fix(before: str, after: str, safe: bool) -> None:
    head = f"{HEAD}{LOSSES}# float16 autocast .half(\n"
    assert fix(f"{head}{before}\n", settings=only("AMP215"), unsafe=not safe) == f"{head}{after}\n"
    if not safe:
        assert fix(f"{head}{before}\n", settings=only("AMP215")) == f"{head}{before}\n"
