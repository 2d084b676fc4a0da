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
