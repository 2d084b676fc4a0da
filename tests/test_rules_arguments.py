"""Details of AMP212, AMP214 and AMP215: what counts as evidence, what a fix may touch."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.settings import Settings

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
        (
            "def f(x: int):\n    if not isinstance(x, bool):\n        x = bool(x)\n    torch.autocast('cpu', enabled=x)",
            0,
        ),
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
