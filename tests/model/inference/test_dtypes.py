"""What a dtype-like value can be, and in which dtype a region can run."""

from __future__ import annotations

import pytest

from amplint.model.inference.dtypes import region_dtypes
from amplint.model.objects.autocast_objects import regions
from amplint.sources.source import Source
from amplint.verify.program.files import lowered

HEAD = "import torch\nfrom torch.cuda.amp import autocast\n"


def run_in(text: str) -> list[tuple[str | None, list[bool | str]]]:
    """The dtypes of a text's only region, each with how the choices come out that lead to it."""
    module = lowered(Source("train.py", HEAD + text))
    (region,) = regions(module)
    return [(each.name, [test.truth for test in each.leaf.tests]) for each in region_dtypes(module, region)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("torch.autocast('cuda', torch.half)", ["float16"]),
        ("torch.autocast('cuda', dtype=torch.bfloat16)", ["bfloat16"]),
        ("torch.autocast('cuda')", ["float16"]),
        ("torch.autocast('cuda', dtype=None)", ["float16"]),
        ("torch.autocast('cpu')", ["bfloat16"]),
        ("torch.autocast('npu')", [None]),
        ("torch.autocast('cuda:0')", ["float16"]),
        ("torch.autocast(sys.argv[1])", [None]),
        ("torch.autocast('cuda' if torch.cuda.is_available() else 'cpu')", ["float16", "bfloat16"]),
        ("autocast()", ["float16"]),
        ("autocast(dtype=torch.bfloat16)", ["bfloat16"]),
        ("torch.autocast(*given)", [None]),
        ("BF = torch.bfloat16\ntorch.autocast('cuda', dtype=BF)", ["bfloat16"]),
        ("torch.autocast('cuda', dtype=getattr(torch, 'bfloat16'))", ["bfloat16"]),
        ("torch.autocast('cuda', dtype=getattr(torch, name))", [None]),
        ("T = {'a': torch.half, 'b': torch.bfloat16}\ntorch.autocast('cuda', dtype=T['b'])", ["bfloat16"]),
        ("T = {'a': torch.half, 'b': torch.bfloat16}\ntorch.autocast('cuda', dtype=T[x])", ["float16", "bfloat16"]),
        ("T = {'a': torch.half}\ntorch.autocast('cuda', dtype=T.get(x, torch.float))", ["float16", "float32"]),
        ("def pick():\n    return torch.bfloat16\ntorch.autocast('cuda', dtype=pick())", ["bfloat16"]),
        ("def f(dtype=torch.bfloat16):\n    torch.autocast('cuda', dtype=dtype)", [None, "bfloat16"]),
        ("class A:\n    def __init__(self):\n        self.t = torch.half\n"
         "    def f(self):\n        torch.autocast('cuda', dtype=self.t)", ["float16"]),
    ],
)  # fmt: skip
def test_a_region_runs_in_what_its_values_say(text: str, names: list[str | None]) -> None:
    assert [name for name, _ in run_in(text)] == names


@pytest.mark.parametrize(
    "text",
    [
        "dtype = torch.bfloat16 if bf16 else torch.float16\ntorch.autocast('cuda', dtype=dtype)",
        "torch.autocast('cuda', dtype=torch.bfloat16 if bf16 else torch.float16)",
        "if bf16:\n    dtype = torch.bfloat16\nelse:\n    dtype = torch.float16\ntorch.autocast('cuda', dtype=dtype)",
        "torch.autocast('cuda', dtype=torch.bfloat16 if bf16 else None)",
    ],
)
def test_the_choices_that_lead_to_a_dtype_are_known(text: str) -> None:
    assert run_in(text) == [("bfloat16", [True]), ("float16", [False])]


def test_a_dtype_that_is_made_of_itself_is_followed_so_far() -> None:
    text = "dtype = 'half'\nfor _ in x:\n    dtype = getattr(torch, dtype)\ntorch.autocast('cuda', dtype=dtype)"
    assert {name for name, _ in run_in(text)} == {"float16", None}
