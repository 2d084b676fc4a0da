"""Settings at the top of a file that code which can't be seen may set otherwise: `exec(open("settings.py").read())`."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch

dtype = "{dtype}"
exec(open("settings.py").read())
ptdtype = {{"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}}[dtype]
model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled={enabled})
for x, y in loader:
    with torch.autocast("cuda", dtype=ptdtype):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("enabled", "codes"),
    [
        ('dtype == "float16"', []),
        ('dtype != "float32"', []),
        ('dtype == "float32"', ["AMP210"]),
        ('dtype == "bfloat16"', ["AMP210"]),
        ("False", ["AMP210"]),
    ],
)
def test_a_scaler_follows_the_dtype_that_the_settings_may_name(dtype: str, enabled: str, codes: list[str]) -> None:
    found = check(TEXT.format(dtype=dtype, enabled=enabled))
    assert [each.code for each in found if each.code in ("AMP207", "AMP210")] == codes
