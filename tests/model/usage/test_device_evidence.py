"""Where the code trains: what a device can be, and what a file shows of it."""

from __future__ import annotations

import pytest

from amplint.model.inference.devices import devices
from amplint.model.syntax import ir
from amplint.model.usage.device_evidence import evidence
from amplint.sources.source import Source
from amplint.verify.program.files import lowered

PARSER = "import argparse\nparser = argparse.ArgumentParser()\n{}\nargs = parser.parse_args()\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("use('cuda:1')", [("str", "cuda:1")]),
        ("use(torch.device('xpu'))", [("object", "xpu")]),
        ("use(torch.device('xpu').type)", [("str", "xpu")]),
        ("use('cuda' if torch.cuda.is_available() else 'cpu')", [("str", "cuda"), ("str", "cpu")]),
        ("def pick():\n    if x:\n        return 'mps'\n    return torch.device('cpu')\nuse(pick())",
         [("str", "mps"), ("object", "cpu")]),
        ("use(torch.accelerator.current_accelerator())", [("object", None)]),
        (PARSER.format("parser.add_argument('--device', default='cuda')") + "use(args.device)",
         [("str", "cuda"), ("other", None)]),
        (PARSER.format("parser.add_argument('-d', '--my-dev', default='cpu', choices=['cpu', 'xpu'])")
         + "use(args.my_dev)", [("str", "cpu"), ("str", "xpu")]),
        (PARSER.format("parser.add_argument('--device', type=torch.device)") + "use(args.device)", [("other", None)]),
        (PARSER.format("parser.add_argument('--gpu', dest='device', type=int)") + "use(args.device)",
         [("other", None)]),
        (PARSER.format("parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])")
         + "args.device = torch.device(args.device)\nuse(args.device)",
         [("other", "cuda"), ("other", "cpu"), ("other", None)]),
        (PARSER.format("parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])")
         + "class A:\n    def __init__(self):\n        self.device = args.device\nuse(args.device)",
         [("str", "cuda"), ("str", "cpu")]),
        ("use(args.device)", [("other", None)]),
    ],
)  # fmt: skip
def test_a_device_is_what_its_sources_say(text: str, wanted: list[tuple[str, str | None]]) -> None:
    module = lowered(Source("train.py", f"import torch\n{text}\n"))
    (call,) = [each for each in module.calls if ir.last_name(each.func) == "use"]
    assert [(each.kind, each.name) for each in devices(module, call.positional[0])] == wanted


@pytest.mark.parametrize(
    ("text", "types", "line"),
    [
        ("model.cuda()", {"cuda"}, 2),
        ("\nmodel.npu()", {"npu"}, 3),
        ("x.to('xpu:0')", {"xpu"}, 2),
        ("torch.ones(3, device='mps')", {"mps"}, 2),
        ("torch.set_default_device('cuda')", {"cuda"}, 2),
        ("import intel_extension_for_pytorch as ipex", set(), 0),
        ("import torch_npu\nimport habana_frameworks.torch.core", set(), 0),
        ("from torch_npu.contrib import transfer_to_npu\nmodel.npu()", set(), 0),
        ("torch.cuda.synchronize()\nx.to(torch.float16)\ntorch.autocast('cuda')", set(), 0),
    ],
)
def test_what_a_file_shows_is_kept_with_its_place(text: str, types: set[str], line: int) -> None:
    module = lowered(Source("train.py", f"import torch\n{text}\n"))
    shown = evidence(module)
    assert shown.types == types
    assert all(module.line(shown.places[each][0]) == f"line {line}" for each in types)
