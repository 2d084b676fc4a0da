"""What is asked once, or answered by a quick look, is what it would be if it were asked each time, and slowly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amplint.base.paths import look_again
from amplint.base.target import nothing_declared
from amplint.config.selection import enabled_codes
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes
from amplint.engine.reading import read_alone
from amplint.model.flow.analysis import flows
from amplint.model.project import link, module_index
from amplint.model.project.module_index import Place, find
from amplint.sources.parsing import with_room
from amplint.sources.source import Source

ENGINE = """\
import torch
from torch.amp import GradScaler


class Engine:
    def __init__(self, model):
        self.scaler = GradScaler("cuda")
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def back(self, loss):
        self.scaler.scale(loss).backward()

    def finish(self):
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()


class Trainer:
    def __init__(self, model):
        self.engine = Engine(model)


"""
MADE_HERE = """\
def main(model, data):
    t = Trainer(model)
    for x in data:
        t.engine.back(model(x).sum())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        t.engine.finish()
"""
MADE_ABOVE = """\
import torch
from torch.amp import GradScaler


class Engine:
    def __init__(self, model):
        self.gs = GradScaler("cuda")

    def back(self, loss):
        self.gs.scale(loss).backward()


class Trainer:
    def __init__(self, model):
        self.engine = Engine(model)

    def go(self, loss):
        self.engine.back(loss)


model = torch.nn.Linear(1, 1)
t = Trainer(model)


def undo(opt):
    t.engine.gs.update()
    x = opt.grad


def main(data, opt):
    opt.zero_grad()
    undo(opt)
    t.go(model(data).sum())
    undo(opt)
    undo(opt)
"""
ALIASED = """\
import torch

torch_optim = torch.optim


def main(model, data):
    scaler = torch.amp.GradScaler("cuda")
    sgd = torch_optim.SGD(model.parameters(), lr=0.1)
    for x in data:
        sgd.zero_grad()
        scaler.scale(model(x).sum()).backward()
        sgd.step()
        scaler.update()
"""
LOOP = """\
import torch
from helpers import help_out

scaler = torch.amp.GradScaler("cuda")


def main(model, data, optimizer):
    for x in data:
        optimizer.zero_grad()
        loss = model(x).sum()
        scaler.scale(loss).backward()
        {before}
        scaler.step(optimizer)
        scaler.update()
"""
ON_TOP = """\
import torch
from helpers import help_out


def main(model, data, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        optimizer.zero_grad()
        loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.update()
        scaler.scale(loss).backward()
        {call}
"""
CLIPS = "import torch\ndef help_out(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
STEPS = 'def help_out(o, text="", more=""):\n    o.step()\n'


def codes(folder: Path, files: dict[str, str]) -> list[str]:
    """What is found in the first of some files."""
    for name, text in files.items():
        (folder / name).write_text(text)
    look_again()
    first = folder / next(iter(files))
    settings = Settings(enabled_codes([]) - {"AMP310"}, isolated=True)  # none of them opens a region
    result = check_bytes(first.read_bytes(), str(first), settings)
    return [each.code for each in result.findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(ENGINE + MADE_HERE, ["AMP401"]), (MADE_ABOVE, ["AMP410"]), (ALIASED, ["AMP402"])],
    ids=["made in the function", "made at the top", "another name of a package"],
)
def test_what_an_object_is_may_turn_out_late(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert codes(tmp_path, {"train.py": text}) == expected


@pytest.mark.parametrize(
    "helpers",
    ['"""Help.\n\ndef help_out(model):\n    is what you want.\n"""\nfrom clips import help_out\n',
     'from clips import (\n    other,\n    help_out,\n)\nEXAMPLE = """\ndef help_out(model):\n"""\n'],
)  # fmt: skip
def test_what_a_string_shows_is_not_defined(tmp_path: Path, helpers: str) -> None:
    files = {
        "train.py": LOOP.format(before="help_out(model)"),
        "helpers.py": helpers,
        "clips.py": CLIPS + "other = 1\n",
    }
    assert codes(tmp_path, files) == ["AMP401"]


def test_what_is_found_among_some_files(tmp_path: Path) -> None:
    """Others may not be found; what is found is what is found without."""
    (tmp_path / "main.py").touch()
    (tmp_path / "package").mkdir()
    files = {
        "package/__init__.py": "from .inner import there\n\ndef within(a):\n    pass\n",
        "package/inner.py": "def there(a):\n    pass\n",
        "package/within.py": "",
        "package/other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    look_again()
    main, package, inner = (str(tmp_path / name) for name in ("main.py", "package/__init__.py", "package/inner.py"))
    for name, found, among in [
        ("there", Place(inner, "there"), inner),
        # The function hides the module of its name, whichever files are asked for.
        ("within", Place(package, "within"), inner),
        ("other", str(tmp_path / "package/other.py"), inner),
        ("nowhere", None, inner),
    ]:
        assert find(main, "package", name) == found
        assert find(main, "package", name, among={among}) == found
    assert find(main, "package.inner", "there", among={package}) is None


@pytest.mark.parametrize(
    "call", ['help_out(text="a\\n", o=optimizer, more="b")', 'help_out(optimizer, f"{loss}")', "help_out(optimizer)"]
)
def test_a_call_is_handed_what_stands_between_strings(tmp_path: Path, call: str) -> None:
    assert codes(tmp_path, {"train.py": ON_TOP.format(call=call), "helpers.py": STEPS}) == ["AMP411"]


@pytest.mark.parametrize(("words", "roots"), [(module_index.WORDS, module_index._ROOTS), (link._NAMES, link._ROOTS)])
def test_each_word_has_a_root(words: re.Pattern[str], roots: tuple[str, ...]) -> None:
    depth, alternatives = 0, [""]
    for char in re.sub(r"\\(\W)", "!", words.pattern):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            alternatives.append("")
        else:
            alternatives[-1] += char
    assert len(alternatives) > 5
    for each in alternatives:
        assert any(root.rstrip("(") in each for root in roots), each


CASTS = """\
import torch
from helpers import autocast_if


class Attention(torch.nn.Module):
    def forward(self, q, k):
        with autocast_if("cuda", {given}):
            if self.training:
                q = q.float()
            return q @ k
"""
REGION = """\
import contextlib

import torch


def autocast_if(device, enabled=True):
    if torch.is_autocast_enabled(device) or enabled:
        return torch.autocast(device, torch.float16, enabled=enabled)
    return contextlib.nullcontext()
"""


@pytest.mark.parametrize(
    ("given", "more", "expected"),
    [
        ("True", "", ["AMP504"]),
        ("enabled=False", "", []),
        ("enabled=False", "def other(x):\n    with autocast_if(x.device.type):\n        return x @ x\n", []),
        ("enabled=False", "run(autocast_if)\n", []),
        ("enabled=False", "regions = [autocast_if]\n", []),
    ],
)
def test_a_helpers_region_is_what_the_call_makes_of_it(
    tmp_path: Path, given: str, more: str, expected: list[str]
) -> None:
    text = CASTS.format(given=given) + more
    assert codes(tmp_path, {"attention.py": text, "helpers.py": REGION}) == expected


PRECISION = """\
import torch


class Precision:
    def __init__(self):
        self.on = False

    def autocast(self):
        return torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.on)
"""
SWITCHED = """\
import torch
from base import Precision


class Mine(Precision):
    def __init__(self, config):
        super().__init__()
        self.on = config.amp

    def fit(self, model, x, optimizer):
        with self.autocast():
            loss = model(x)
            loss.backward()
        optimizer.step()
"""


def test_a_flag_that_is_set_later_switches_a_region(tmp_path: Path) -> None:
    assert codes(tmp_path, {"main.py": SWITCHED, "base.py": PRECISION}) == ["AMP301"]


BASE = """\
import torch


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def forward(self, x):
        with torch.autocast("cuda"):
            return self.model(x)

    def back(self, loss):
        self.scaler.scale(loss).backward()

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def finish(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
"""
ISLAND = """\
import torch
from base import Trainer


class Mine(Trainer):
    def criterion(self, out, y):
        with torch.autocast("cuda", enabled=False):
            return torch.nn.functional.mse_loss(out.float(), y)

    def fit(self, x, y):
        self.back(self.criterion(self.forward(x), y))
        self.clip()
        self.finish()
"""


def test_a_file_of_switched_off_regions_trains_by_what_it_inherits(tmp_path: Path) -> None:
    assert codes(tmp_path, {"main.py": ISLAND, "base.py": BASE}) == ["AMP401"]


STEPPED = """\
import torch


def forward(model, x):
    with torch.autocast("cuda"):
        return model(x)


def clip_and_step(model, scaler, optimizer):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
PACKAGED = """\
import torch
from package import forward, clip_and_step


def train(x, model, scaler, optimizer):
    loss = forward(model, x)
    scaler.scale(loss).backward()
    clip_and_step(model, scaler, optimizer)
"""


@pytest.mark.parametrize(
    "package",
    [
        "from .inner import forward, clip_and_step\n",
        "from .inner import (  # (the first\n    forward,\n    clip_and_step,  # ) and the last\n)\n",
        "# from .old import (forward,\n#     clip)\nfrom .inner import (\n    forward,\n    clip_and_step,\n)\n",
        '"""What others import (see there."""\nfrom .inner import (\n    forward,\n    clip_and_step,\n)\n',
        "import os; from .inner import (\n    forward,\n    clip_and_step,\n)\n",
        "# not import this \\\nfrom .inner import forward, clip_and_step\n",
        "from .inner import \\\n    forward, \\\n    clip_and_step\n",
        "from.inner import(forward,clip_and_step)\n",
        "try:\n    from .inner import forward, clip_and_step\nexcept ImportError:\n    raise\n",
    ],
)
def test_what_a_package_imports_is_found(tmp_path: Path, package: str) -> None:
    (tmp_path / "package").mkdir()
    files = {"train.py": PACKAGED, "package/__init__.py": package, "package/inner.py": STEPPED}
    assert codes(tmp_path, files) == ["AMP401"]


LATE = """\
import torch
from torch.amp import GradScaler


def train(model, optimizer, data):
    from helpers import help_out as tidy

    scaler = GradScaler("cuda")
    for x in data:
        scaler.scale(model(x).sum()).backward()
        tidy(scaler, optimizer)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
"""
UNSCALES = "def help_out(scaler, optimizer):\n    scaler.unscale_(optimizer)\n"


def test_an_import_in_a_function_is_followed(tmp_path: Path) -> None:
    assert codes(tmp_path, {"train.py": LATE, "helpers.py": UNSCALES}) == ["AMP405"]


DISTRIBUTED = """\
import torch


def train(net, data, args):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    if args.compiled:
        net = torch.compile(net)
    if args.distributed:
        net = torch.nn.parallel.DistributedDataParallel(net)
    for x in data:
        scaler.scale(net(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def test_a_model_that_is_wrapped_is_the_model_that_the_optimizer_owns() -> None:
    """What is bound to its name anew tells no paths apart."""
    module = with_room(lambda: read_alone(Source("train.py", DISTRIBUTED), nothing_declared()))
    (flow,) = with_room(lambda: flows(module))
    backward = next(each for each in flow.in_order if each.event.kind == "backward")
    assert len(set(backward.states)) == 2  # in the first round, and in others
