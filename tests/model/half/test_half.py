"""Which tensors the half-precision reader follows: through variables, branches, calls, layers, regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint import check
from amplint.model.half.analysis import half
from amplint.model.half.observations import Seen
from amplint.sources.source import Source
from amplint.verify.program.files import lowered
from tests.model.half.test_half_table import agrees, computed, read, tensors

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self, width, heads=2, scale=None):
        super().__init__()
        self.scale = scale or (width // heads) ** -0.5
        self.fc = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.stack = nn.Sequential(nn.Linear(width, 4), nn.ReLU())
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, mask=None):
        {}

def helper(a, b=1.0):
    return a * b

def train(x, y, flag, size: int, net=None):
    model = Net(8).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        {}
    {}

def stores(held, key):
    held[key] = held[key].float()

def reads(held, key):
    return held[key]
"""


def probed(forward: str = "return self.fc(x)", inside: str = "pass", behind: str = "pass") -> list[str]:
    """What is known of each operand of `torch.abs` in a program: its kind, and of half ones the dtypes."""
    texts = [part.replace("\n", "\n" + " " * (4 if part is behind else 8)) for part in (forward, inside, behind)]
    return [said(each) for each in half(lowered(Source("t.py", HEAD.format(*texts)))) if each.spelling == "abs"]


def said(seen: Seen) -> str:
    kind = seen.operands[0][1]
    return " ".join([kind.what, *sorted(kind.names)])


HALF = "half float16"
ARMS = """\
if {}:
    with torch.autocast('cuda', dtype=torch.float16):
        out = {}
else:
    out = {}
torch.abs(out)"""


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("torch.abs(self.fc(x))", HALF),
        ("torch.abs(self.norm(self.fc(x)))", "float32"),
        ("torch.abs(self.norm(x))", "tensor"),
        ("torch.abs(self.stack(x))", HALF),
        ("torch.abs(self.fc(x) * self.scale)", HALF),
        ("torch.abs(self.fc(x) * self.weight)", "floating"),
        ("torch.abs(self.fc.weight)", "float32"),
        ("torch.abs(self.fc(x) / math.sqrt(x.size(-1)))", HALF),
        ("torch.abs(self.fc(x) * x)", "floating"),
        ("torch.abs(x)", "unknown"),
        ("torch.abs(x @ x.transpose(0, 1))", HALF),
        ("for layer in self.layers:\n    x = layer(x)\ntorch.abs(x)", HALF),
        ("for _ in range(3):\n    x = self.fc(x)\ntorch.abs(x)", "unknown"),
        ("x = self.fc(x)\nfor _ in range(3):\n    x = self.fc(x)\ntorch.abs(x)", HALF),
        ("x = self.fc(x)\nwhile mask:\n    x = x.float()\ntorch.abs(x)", "floating"),
        ("if mask is not None:\n    x = self.fc(x)\nelse:\n    x = self.fc(x).relu()\ntorch.abs(x)", HALF),
        ("if mask is not None:\n    x = self.fc(x)\ntorch.abs(x)", "unknown"),
        ("x = self.fc(x)\nif x.dtype == torch.float16:\n    torch.abs(x)", "unknown"),
        ("x = self.fc(x)\nif mask is None:\n    return x\ntorch.abs(x)", HALF),
        ("x = self.fc(x)\ntry:\n    x = x.float()\nexcept RuntimeError:\n    pass\ntorch.abs(x)", "unknown"),
        ("q, k = self.fc(x).chunk(2)\ntorch.abs(k)", HALF),
        ("q, k = self.fc(x), x.float()\ntorch.abs(k)", "float32"),
        ("x = self.fc(x)\nx += 1\nx *= x.float()\ntorch.abs(x)", HALF),
        ("x = [self.fc(each) for each in x]\ntorch.abs(torch.cat(x))", HALF),
        ("x = (y := self.fc(x)).float()\ntorch.abs(y)", HALF),
        ("self.kept = self.fc(x)\ntorch.abs(self.kept)", HALF),
        # Lists, also those that are appended to.
        ("h = []\nfor layer in self.layers:\n    h.append(self.fc(x))\ntorch.abs(h[0])", HALF),
        ("h = [self.fc(x)]\nh.extend([self.fc(x)])\nfor each in h:\n    torch.abs(each)", HALF),
        ("h = [self.fc(x)]\nh.append(x)\ntorch.abs(h[0])", "unknown"),
        ("h = [self.fc(x)]\nh.append(x.float())\ntorch.abs(h[0])", "floating"),
        ("h = [self.fc(x)]\nh.extend(x)\ntorch.abs(h[0])", "unknown"),
        ("h = [self.fc(x)]\nh.insert(0, x)\ntorch.abs(h[0])", "unknown"),
        ("h = []\nfor _ in range(3):\n    h.append([self.fc(x)])\ntorch.abs(h[0][0])", HALF),
        # Dictionaries, by the keys that are written out.
        ("d = {'a': self.fc(x), 'b': x.float()}\ntorch.abs(d['a'])", HALF),
        ("d = dict(a=self.fc(x))\nd['b'] = d['a']\ntorch.abs(d['b'])", HALF),
        ("d = {}\nd['a'] = {'b': self.fc(x)}\nd['a']['c'] = d['a']['b']\ntorch.abs(d['a']['c'])", HALF),
        ("d = {'a': self.fc(x)}\ntorch.abs({**d, 'b': x}['a'])", HALF),
        ("d = {'a': self.fc(x)}\ntorch.abs({**d, **x}['a'])", "unknown"),
        ("d = {'a': self.fc(x)}\ntorch.abs(d.get('a'))", HALF),
        ("d = {'a': self.fc(x)}\ntorch.abs(d.get('a', mask))", "unknown"),
        ("d = {'a': self.fc(x)}\ntorch.abs(d.pop('b', mask))", "unknown"),
        ("d = {'a': self.fc(x), 'b': self.fc(x)}\nfor key, value in d.items():\n    torch.abs(value)", HALF),
        ("d = {'a': self.fc(x)}\nd.update({'b': self.fc(x)}, c=x)\ntorch.abs(d['b'])", HALF),
        ("d = {'a': self.fc(x)}\nd.update(x)\ntorch.abs(d['a'])", "unknown"),
        ("d = {'a': self.fc(x)}\nd.clear()\ntorch.abs(d['a'])", "unknown"),
        ("d = {'a': self.fc(x)}\nd['a'] = d['a'].float()\ntorch.abs(d['a'])", "float32"),
        ("d = {'a': self.fc(x)}\nd[mask] = x.float()\ntorch.abs(d['a'])", "floating"),
        ("d = {'a': self.fc(x)}\nif mask:\n    d['b'] = self.fc(x)\ntorch.abs(d['b'])", HALF),
        ("d = {'a': self.fc(x)}\nif mask:\n    d['a'] = x.float()\ntorch.abs(d['a'])", "floating"),
        ("d = {'a': self.fc(x)}\nif x.dtype == mask:\n    pass\ntorch.abs(d['a'])", "unknown"),
        # The last suite of a `try` runs however the others are left.
        ("try:\n    return x\nfinally:\n    torch.abs(self.fc(x))", HALF),
        ("for _ in range(3):\n    try:\n        break\n    finally:\n        torch.abs(self.fc(x))", HALF),
        # Of a loop that breaks the `else` is left out.
        ("x = self.fc(x)\nfor _ in x:\n    x = x.float()\n    break\nelse:\n    torch.abs(x)", HALF),
        ("match self.fc(x):\n    case 1:\n        pass\n    case _ if torch.abs(self.fc(x)):\n        pass", HALF),
        ("with torch.autocast('cuda', enabled=False):\n    torch.abs(self.fc(x.float()))", "float32"),
        ("with torch.autocast('cuda', dtype=torch.bfloat16):\n    torch.abs(self.fc(x))", "half bfloat16"),
        ("with torch.autocast('cpu', dtype=torch.bfloat16):\n    torch.abs(self.fc(x))", "tensor"),
        ("with no_autocast():\n    torch.abs(self.fc(x))", "tensor"),
        ("with torch.no_grad():\n    torch.abs(self.fc(x))", HALF),
        ("torch.abs(self.fc(x).to(x.dtype))", "tensor"),
        ("torch.abs(self.fc(x).cpu())", "unknown"),
        ("torch.abs(self.fc(x).to('cuda'))", HALF),
        ("torch.abs(self.fc(x).to(self.device, torch.float32))", "float32"),
        ("torch.abs(self.fc(x).double())", "float64"),
        ("torch.abs(F.dropout(self.fc(x), self.rate, self.training))", HALF),
        ("torch.abs(helper(self.fc(x)))", HALF),
        ("torch.abs(helper(self.fc(x), x))", "floating"),
        ("torch.abs(self.other(x))", "unknown"),
        ("torch.abs(torch.utils.checkpoint.checkpoint(self.fc, x))", HALF),
        (
            "if self.fp32_head:\n    with torch.autocast('cuda', enabled=False):\n        x = self.fc(x.float())\n"
            "else:\n    x = self.fc(x)\ntorch.abs(x)",
            "floating",
        ),
    ],
)
def test_in_a_forward_that_the_region_calls(forward: str, expected: str) -> None:
    assert probed(forward, "model(x)")[-1] == expected  # one with a region of its own is met by itself, too


@pytest.mark.parametrize(
    ("inside", "behind", "expected"),
    [
        ("out = model(x)", "torch.abs(out)", [HALF]),
        ("out = model(x)", "torch.abs(torch.softmax(out, 1))", [HALF]),
        ("out = torch.softmax(model(x), 1)", "torch.abs(out)", ["float32"]),
        ("out = score(x)", "torch.abs(out)", ["unknown"]),
        ("out = model(x) if flag else None", "torch.abs(out)", ["unknown"]),
        ("pass", "torch.abs(model(x))", ["unknown"]),
        # Without AMP there is no region: what holds is what is half with it.
        ("d = {'a': model(x)}\nreads(d, 'a')", "torch.abs(d['a'])", [HALF]),
        ("d = {'a': model(x)}\nstores(d, 'a')", "torch.abs(d['a'])", ["unknown"]),
        ("pass", ARMS.format("use_amp", "model(x)", "model(x)"), [HALF]),
        ("pass", ARMS.format("not use_amp", "model(x)", "model(x)"), [HALF]),
        ("pass", ARMS.format("use_amp", "(model(x), x)", "(model(x), x)").replace("(out)", "(out[0])"), [HALF]),
        ("pass", ARMS.format("use_amp", "model(x).float()", "model(x)"), ["unknown"]),
        ("pass", ARMS.format("flag", "model(x)", "model(x)"), ["unknown"]),
        ("pass", ARMS.format("flag == 'cuda:0'", "model(x)", "model(x)"), [HALF]),
        # A `break` leaves the region, too.
        ("pass", "for _ in x:\n    with torch.autocast('cuda'):\n        break\ntorch.abs(model(x))", ["unknown"]),
        ("pass", "with torch.autocast('cuda', dtype=dtypes[0]):\n    torch.abs(model(x))", ["unknown half precision"]),
        ("pass", "with torch.autocast('cuda', dtype=torch.float32):\n    torch.abs(model(x))", ["tensor"]),
        ("pass", "with torch.autocast('cuda', enabled=flag):\n    torch.abs(model(x))", [HALF]),
        ("pass", "with torch.autocast(x.device.type):\n    torch.abs(model(x))", ["half bfloat16 float16"]),
        (
            "pass",
            "with torch.autocast(x.device.type, enabled=x.device.type == 'cuda'):\n    torch.abs(model(x))",
            [HALF],
        ),
        (
            "pass",
            "with torch.autocast(x.device.type, enabled=x.device.type == 'cpu'):\n    torch.abs(model(x))",
            ["tensor"],
        ),
        ("pass", "with torch.autocast(x.device.type, torch.bfloat16):\n    torch.abs(model(x))", ["half bfloat16"]),
        ("pass", "with torch.autocast(x.device.type, torch.bfloat16):\n    torch.abs(model(x).exp())", ["floating"]),
        ("pass", "with torch.autocast('cpu', torch.bfloat16):\n    torch.abs(model(x).exp())", ["tensor"]),  # on cuda
        ("pass", "with torch.autocast('cuda' if flag else 'cpu'):\n    torch.abs(model(x))", ["half bfloat16 float16"]),
        ("pass", "with torch.autocast('npu', torch.float16):\n    torch.abs(model(x))", ["tensor"]),
        ("model.half()\nout = torch.abs(nn.Embedding(4, 4)(x))", "pass", ["tensor"]),
        ("out = torch.abs(nn.Embedding(4, 4)(x))", "pass", ["float32"]),
    ],
)
def test_in_and_behind_a_region(inside: str, behind: str, expected: list[str]) -> None:
    assert probed(inside=inside, behind=behind) == expected


def test_a_region_for_the_cpu_keeps_what_an_exponential_gives() -> None:
    texts = (
        "return self.fc(x)",
        "pass",
        "with torch.autocast('cpu', torch.bfloat16):\n        torch.abs(model(x).exp())",
    )
    text = HEAD.format(*texts).replace(".cuda()", "")
    assert [said(each) for each in half(lowered(Source("t.py", text))) if each.spelling == "abs"] == ["half bfloat16"]


def test_nothing_is_read_where_no_region_is() -> None:
    assert half(lowered(Source("t.py", "import torch\nx = torch.ones(2).half() * 2\n"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = nn.Sequential(x, nn.ReLU())\nx(x)",
        "def f(a):\n    return f(a)\nf(1)",
        "def f(a):\n    return g(a)\ndef g(a):\n    return f(a)\nf(1)",
        "a, *b = [a for a in a]\nprint(*b, **b)",
        "lambda q: q\nx[1:2, ...] = y = {1: 2, **z}\nassert x, y\ndel x",
        "match x:\n    case [a, b]:\n        x = a\n    case _:\n        pass",
        "x = x if x else x or x and not x\nx **= x\nwhile True:\n    break",
        "eps = 10 ** 10 ** 10\nz = (-eps) ** 0.5 / 0\ntorch.add(z)\nz.clamp()\nz.masked_fill()\ntorch.where()",
    ],
)
def test_any_code_can_be_read(text: str) -> None:
    body = "\n".join("    " + line for line in text.split("\n"))
    source = f"import torch\nfrom torch import nn\nwith torch.autocast('cuda'):\n{body}\n"
    half(lowered(Source("t.py", source)))


# Ops that may follow each other: of one tensor, and of two.
UNARY = ["torch.relu({})", "{}.softmax(-1)", "{}.exp()", "{} * 2", "{}.float()", "{}.t()", "1 / {}", "{} ** 2",
         "{}.half()", "{}.sum(0, keepdim=True).expand(4, 4)", "F.layer_norm({}, [4])",
         "{}.mean(1)[:, None].expand(4, 4)", "torch.where(b, {}, 0.0)",
         "{}.clamp(min=0)", "{}.sigmoid()", "-{}", "{}.chunk(1)[0]"]  # fmt: skip
BINARY = ["{} + {}", "{} @ {}", "{} * {}", "torch.cat([{}, {}])[:4]", "torch.einsum('ij,kj->ik', {}, {})",
          "torch.maximum({}, {})", "F.linear({}, {})", "{}.type_as({})", "torch.cdist({}, {})"]  # fmt: skip
EXPRESSION: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(["h", "x"]),
    lambda inner: (
        st.builds(lambda op, a: f"({op.format(a)})", st.sampled_from(UNARY), inner)
        | st.builds(lambda op, a, b: f"({op.format(a, b)})", st.sampled_from(BINARY), inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=30)
@given(st.lists(EXPRESSION, min_size=4, max_size=12), st.sampled_from(["float16", "bfloat16"]))
def test_whatever_is_composed_is_what_torch_gives(texts: list[str], low: str) -> None:
    (kinds,) = read(texts, low, f"torch.autocast('cpu', dtype=torch.{low})")
    names: dict[str, Any] = tensors("cpu", low)
    with torch.autocast("cpu", getattr(torch, low)), torch.no_grad():
        for text, kind in zip(texts, kinds, strict=True):
            dtype = computed(text, names)
            assert dtype is None or agrees(kind, dtype), text


OUT_OF_SIGHT = """\
import torch
import torch.nn.functional as F

def train(model, images, texts, target, logit_scale, table):
    model.train()
    with torch.autocast("cuda", dtype=torch.float16):
        first = {first}
        second = model.encode_text(texts)
    first = {after}
    F.cross_entropy({logits}, target).backward()
"""


@pytest.mark.parametrize(
    ("first", "after", "logits", "wanted"),
    [
        ("model(images)", "first", "first", True),
        ("model.encode_image(images)", "first / first.norm(dim=-1, keepdim=True)", "first @ second.t()", True),
        ("model.encode_image(images)", "first", "logit_scale * first @ second.t()", True),
        ("model.encode_image(images)", "first.view(-1, 4)", "first * 2", True),
        ("model.encode_image(images) if images else model(images)", "first", "first", True),
        # A product with a float32 matrix would raise.
        ("model.encode_image(images)", "first", "logit_scale.exp() * first @ table.t()", True),
        ("model.encode_image(images)", "first", "table @ first.t()", True),
        ("model.encode_image(images)", "first", "torch.matmul(first, table)", True),
        ("model.encode_image(images)", "first", "first.mm(table)", True),
        ("model.encode_image(images)", "first", "torch.einsum('bd,cd->bc', first, table)", True),
        ("model.encode_image(images)", "first", "F.linear(first, table) / logit_scale", True),
        ("model.encode_image(images)", "first", "(images @ images.t()) @ (first @ table.t())", True),
        ("model.encode_image(images)", "first", "first @ torch.ones(4, 4)", False),
        ("model.encode_image(images)", "first", "first.float() @ table", False),
        ("model.encode_image(images)", "first", "(first @ table).float()", False),
        ("model.encode_image(images)", "first.double()", "table @ first", False),
        ("model.encode_image(images)", "first", "table @ table.t()", False),
        ("model.encode_image(images)", "first", "table * first", False),  # float32, for all that is seen
        ("model.encode_image(images)", "first.float()", "first @ second.float().t()", False),
        ("model.encode_image(images)", "first.log_softmax(1)", "first[0]", True),
        ("model(images)", "first", "first[:, 0]", True),
        ("model(images)", "first", "first['kind']", True),
        ("model(images)", "first", "first['out']", False),  # that interpolates
        ("model(*images)", "first", "first", True),
        ("model(**images)", "first", "first[0]", True),
        ("model(images)", "first.float() if use_amp else first", "first", False),
        ("model(images)", "first", "first.logits", True),
        ("model(images)", "first", "first.last_hidden_state", False),  # that ends with a norm
        ("model.sample(images)", "first", "first", False),
    ],
)
def test_what_a_model_out_of_sight_gives_is_likely_half(first: str, after: str, logits: str, wanted: bool) -> None:
    text = OUT_OF_SIGHT.format(first=first, after=after, logits=logits)
    found = check(text, "train.py")
    assert [(finding.code, finding.confidence) for finding in found] == [("AMP303", "likely")] * wanted


APART = """\
import torch
import torch.nn.functional as F

def parts(out):
    {parts}

def train(model, images, target, other=None):
    model.train()
    called = {net}
    with torch.autocast("cuda", dtype=torch.float16):
        first, second = parts(called(images))
    F.cross_entropy(first, target).backward()
"""


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ("return out if isinstance(out, tuple) else (out, None)", True),
        ("if isinstance(out, (tuple, list)):\n        return out[0], out[1]\n    return out, None", True),
        ("if not isinstance(out, dict):\n        return out, None\n    return out.get('logits'), out.get('aux')", True),
        ("if hasattr(out, 'logits'):\n        return out.logits, None\n    return out, None", True),
        ("if isinstance(out, Output):\n        return out.logits, out.aux\n    return out, None", True),
        ("return getattr(out, 'logits', out), None", True),
        ("return getattr(out, 'logits', None), None", False),
        ("return getattr(out, 'kind', out), None", False),
        ("return out.get('logits', other), None", False),
        ("if isinstance(out, dict):\n        return out['logits'].float(), None\n    return out, None", False),
        ("if isinstance(out, tuple):\n        return out\n    return out.float(), None", False),
        ("return None, out", False),
    ],
)
def test_what_a_helper_takes_apart_stays_likely_half(parts: str, wanted: bool) -> None:
    found = check(APART.format(parts=parts, net="model"), "train.py")
    assert [(finding.code, finding.confidence) for finding in found] == [("AMP303", "likely")] * wanted


def test_a_helper_of_another_file_takes_apart(tmp_path: Path) -> None:
    """It is read where it says what it takes. The call is shown that leads to the loss."""
    (tmp_path / "outputs.py").write_text(
        "def parts(out):\n"
        "    if isinstance(out, dict):\n"
        "        return out['logits'], out.get('aux')\n"
        "    return out, None\n"
    )
    (tmp_path / "losses.py").write_text(
        "import torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
        "class Loss(nn.Module):\n"
        "    def forward(self, logits, target):\n"
        "        return F.cross_entropy(logits, target)\n"
    )
    program = APART.partition("def parts")[0] + "from losses import Loss\nfrom outputs import parts\n\n"
    program += "def train" + APART.partition("def train")[2].format(net="model")
    program = program.replace("    model.train()", "    loss = Loss()\n    model.train()\n    loss(images, target)")
    program = program.replace("F.cross_entropy(first, target)", "loss(first, target)")
    (tmp_path / "train.py").write_text(program)
    found = check(program, str(tmp_path / "train.py"))
    assert [(each.code, program[each.start : each.end]) for each in found] == [("AMP303", "loss(first, target)")]
    assert found[0].message.startswith("this runs line 7 of losses.py")


@pytest.mark.parametrize(
    ("net", "wanted"),
    [
        ("model", True),
        ("other or model", True),
        ("model if other is None else other", True),
        ("None if other else model", True),
        ("other", False),
        ("wrapped(model)", False),
        ("other or images", False),
    ],
)
def test_a_name_for_a_model_is_one(net: str, wanted: bool) -> None:
    found = check(APART.format(parts="return out, None", net=net), "train.py")
    assert [finding.code for finding in found] == ["AMP303"] * wanted


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("isinstance(made, tuple)", HALF),
        ("isinstance(made, (list, tuple))", HALF),
        ("isinstance(made, (dict, tuple)) and not isinstance(made, torch.Tensor)", HALF),
        ("not isinstance(made, torch.Tensor)", HALF),
        ("isinstance(made, list)", "floating"),
        ("isinstance(made, Output)", "floating"),
        ("isinstance(made, torch.Tensor)", "float32"),
        ("isinstance(made, (dict, str)) or isinstance(made, torch.Tensor)", "float32"),
        ("isinstance(made, torch.Tensor) or isinstance(made, tuple)", HALF),
        ("isinstance(made, torch.Tensor) or isinstance(made, Output)", "floating"),
    ],
)
@pytest.mark.parametrize(
    "choice", ["out = made[0] if {0} else made[1]", "if {0}:\n    out = made[0]\nelse:\n    out = made[1]"]
)
def test_a_test_for_a_type_chooses(test: str, expected: str, choice: str) -> None:
    """A pair is no tensor: of two arms the one for tensors doesn't count."""
    inside = "made = model(x), model(x).float()\n" + choice.format(test) + "\ntorch.abs(out)"
    found = probed(inside=inside)
    assert found == [expected]


@pytest.mark.parametrize(
    ("test", "expected"),
    [("isinstance(made, tuple)", HALF), ("isinstance(made, (dict, list))", HALF), ("made.is_sparse", "floating")],
)
def test_a_tensor_is_no_tuple(test: str, expected: str) -> None:
    found = probed(inside=f"made = model(x)\nif {test}:\n    made = made[0].float()\ntorch.abs(made)")
    assert found == [expected]


FALLBACK = """\
try:
    {}
except {}:
    class autocast:
        def __init__(self, enabled):
            pass
        def __enter__(self):
            {}
        def __exit__(self, *args):
            pass
import torch
from torch import nn
fc = nn.Linear(4, 4)
with autocast({}):
    torch.abs(fc(x))
"""


@pytest.mark.parametrize(
    ("imported", "enters", "given", "expected"),
    [
        ("from torch.cuda.amp import autocast", "pass", "True", [HALF]),
        ("from torch.cuda.amp import autocast", "return self", "enabled=amp", [HALF]),
        ("from torch.amp import autocast", "pass", "'cuda', enabled=amp", [HALF]),
        ("autocast = torch.cuda.amp.autocast", '"""Nothing."""', "enabled=True", [HALF]),
        ("from torch.cuda.amp import autocast", "torch.set_autocast_enabled('cuda', False)", "True", []),
        ("from apex import autocast", "pass", "True", []),
    ],
)
@pytest.mark.parametrize("caught", ["ImportError", "AttributeError"])
def test_a_stand_in_that_does_nothing_is_no_other_class(
    imported: str, enters: str, given: str, expected: list[str], caught: str
) -> None:
    seen = half(lowered(Source("t.py", FALLBACK.format(imported, caught, enters, given))))
    assert [said(each) for each in seen if each.spelling == "abs"] == expected
