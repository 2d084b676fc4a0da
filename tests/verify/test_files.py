"""Steps whose functions, classes and objects are in other files of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.base.paths import look_again
from amplint.config.settings import Settings
from amplint.model.project.resolve_import import module_file
from amplint.registry import all_rules
from amplint.verify.steps.judge import RIGHT, WRONG
from amplint.verify.steps.verify import Verifier
from tests import some
from tests.interpreting import Ran, interpret, interpret_file, project

SCALER = """
import torch

class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, parameters, clip_grad=None):
        self._scaler.scale(loss).backward()
        if clip_grad is not None:
            UNSCALE
            torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
        self._scaler.step(optimizer)
        self._scaler.update()
"""
TRAIN = """
import torch
from IMPORT

def train(model, criterion, loader, optimizer, max_norm):
    scaler = NativeScaler()
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(inputs), targets)
        scaler(loss, optimizer, model.parameters(), max_norm)
"""


def ran(path: Path) -> Ran:
    (found,) = interpret_file(path)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["beside", "package", "relative", "src", "passed_on"])
@pytest.mark.parametrize(("unscale", "state"), [("pass", WRONG), ("self._scaler.unscale_(optimizer)", RIGHT)])
def test_a_scaler_class_of_another_file_is_followed(tmp_path: Path, how: str, unscale: str, state: str) -> None:
    scaler = SCALER.replace("UNSCALE", unscale)
    if how == "beside":
        project(tmp_path, train=TRAIN.replace("IMPORT", "misc import NativeScaler"), misc=scaler)
    elif how == "package":
        project(tmp_path, train=TRAIN.replace("IMPORT", "util.misc import NativeScaler"), util__misc=scaler)
    elif how == "relative":
        text = TRAIN.replace("IMPORT", "..util.misc import NativeScaler")
        project(tmp_path, pkg__engine__train=text, pkg__util__misc=scaler)
    elif how == "src":
        project(tmp_path, train=TRAIN.replace("IMPORT", "pkg.misc import NativeScaler"), src__pkg__misc=scaler)
    else:
        project(tmp_path, train=TRAIN.replace("IMPORT", "util import NativeScaler"), util__misc=scaler)
        (tmp_path / "util" / "__init__.py").write_text("from .misc import NativeScaler\n")
    (path,) = tmp_path.rglob("train.py")
    found = ran(path)
    assert found.judged.state == state
    if state == WRONG:
        assert "clip saw 512 x the true norm" in found.judged.faults[0].text


def test_a_region_an_object_and_a_base_class_of_another_file_are_too(tmp_path: Path) -> None:
    project(
        tmp_path,
        common="""
import torch

SCALER = torch.amp.GradScaler("cuda")

def region(enabled):
    return torch.autocast("cuda", enabled=enabled)

class Base:
    def use(self, loss):
        SCALER.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        SCALER.step(self.optimizer)
        SCALER.update()
        self.optimizer.zero_grad()
""",
        train="""
import common

class Trainer(common.Base):
    def __init__(self, model):
        self.model = model
        self.optimizer = make_optimizer(model)

    def step(self, batch, amp):
        with common.region(amp):
            loss = self.model(batch).mean()
        self.use(loss)
""",
    )
    found = ran(tmp_path / "train.py")
    assert found.step.name == "Trainer.step"
    assert found.runs.paths[0].observed.regions[:1] == ["cuda float16"]
    assert "clip saw 512 x the true norm" in found.judged.faults[0].text


def test_what_its_caller_decides_need_not_be_reached(tmp_path: Path) -> None:
    text = TRAIN.replace("IMPORT", "misc import NativeScaler").replace(", max_norm)\n", ")\n")
    project(tmp_path, train=text, misc=SCALER.replace("UNSCALE", "pass"))
    found = ran(tmp_path / "train.py")
    assert (found.judged.state, found.judged.reason) == (RIGHT, "")


def test_a_release_of_torch_that_another_file_asks_for_is_no_choice(tmp_path: Path) -> None:
    project(
        tmp_path,
        compat="""
import torch
from packaging.version import parse

def is_new():
    return parse(torch.__version__) >= parse("2.3")
""",
        train="""
import torch
from compat import is_new

if is_new():
    GradScaler = torch.amp.GradScaler
else:
    GradScaler = torch.cuda.amp.GradScaler

def train(model, loader, optimizer):
    scaler = GradScaler()
    for batch in loader:
        with torch.autocast("cuda"):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
    )
    found = ran(tmp_path / "train.py")
    assert (found.judged.state, found.shown) == (RIGHT, set())


@pytest.mark.parametrize("decorator", ["", "@chooses('2.0')\n"])
def test_of_functions_with_one_name_a_decorator_may_choose(tmp_path: Path, decorator: str) -> None:
    made = f"{decorator}def make():\n    return torch.amp.GradScaler('cuda')\n"
    old = f"{decorator}def make():\n    return torch.cuda.amp.GradScaler()\n"
    text = TRAIN.replace("from IMPORT", SCALER.replace("UNSCALE", "self._scaler.unscale_(optimizer)"))
    text = text.replace('torch.amp.GradScaler("cuda")', "make()").replace("class Nat", f"{made}\n{old}\nclass Nat")
    project(tmp_path, train=text)
    assert ("warning" in ran(tmp_path / "train.py").shown) is not bool(decorator)


def test_files_that_import_each_other(tmp_path: Path) -> None:
    scaler = SCALER.replace("UNSCALE", "train.unscale(self._scaler, optimizer)").replace(
        "import torch", "import torch\nimport train"
    )
    text = (
        TRAIN.replace("IMPORT", "misc import NativeScaler")
        + "\ndef unscale(scaler, optimizer):\n    scaler.unscale_(optimizer)\n"
    )
    project(tmp_path, train="broken, and not what is verified", misc=scaler)
    (found,) = interpret(text, filename=str(tmp_path / "train.py"))
    assert found.judged.state == RIGHT


def test_what_is_said_of_another_file_names_it(tmp_path: Path) -> None:
    broken = SCALER.replace("UNSCALE", "self._scaler.unscale_(optimizer); self._scaler.unscale_(optimizer)")
    project(tmp_path, train=TRAIN.replace("IMPORT", "misc import NativeScaler"), misc=broken)
    (fault, *_) = ran(tmp_path / "train.py").judged.faults
    assert fault.text.startswith("line 11 of misc.py: RuntimeError: unscale_() has already been called")


def test_a_step_of_another_file_is_that_files(tmp_path: Path) -> None:
    project(
        tmp_path,
        engine=TRAIN.replace("from IMPORT", SCALER.replace("UNSCALE", "pass")),
        main="import engine\n\ndef main(args):\n    engine.train(args.model, args.loss, args.loader, args.opt, 1.0)\n",
    )
    assert interpret_file(tmp_path / "main.py") == []
    assert len(interpret_file(tmp_path / "engine.py")) == 1


def test_the_command_follows_them_as_well(tmp_path: Path) -> None:
    text = TRAIN.replace("IMPORT", "misc import NativeScaler")
    project(tmp_path, train=text, misc=SCALER.replace("UNSCALE", "pass"))
    with Verifier() as verifier:
        settings = Settings(frozenset(all_rules()), isolated=True)
        (row,) = verifier.verify(str(tmp_path / "train.py"), text.encode(), settings)
    assert row.verdict == "misbehaves"
    assert row.functions == ["train"]


def test_nothing_of_another_file_is_executed(tmp_path: Path) -> None:
    hit = tmp_path / "hit"
    act = f"__import__('pathlib').Path({str(hit)!r}).touch()"
    scaler = SCALER.replace("UNSCALE", f"{act}; self._scaler.unscale_(optimizer)")
    scaler = scaler.replace("import torch", f"import torch\n{act}\nopen({str(hit)!r}, 'w')")
    text = TRAIN.replace("IMPORT", "misc import NativeScaler")
    project(tmp_path, train=text, misc=scaler)
    with Verifier() as verifier:
        (row,) = verifier.verify(
            str(tmp_path / "train.py"), text.encode(), Settings(frozenset(all_rules()), isolated=True)
        )
    assert row.verdict == "clean"
    assert not hit.exists()


@pytest.mark.parametrize("text", ["def broken(:", "\0", "import train\n" * 9, "x = 1\n" * 400_000])
def test_a_file_that_can_t_be_read_is_out_of_sight(tmp_path: Path, text: str) -> None:
    project(tmp_path, train=TRAIN.replace("IMPORT", "misc import NativeScaler"), misc=f"# autocast\n{text}")
    assert interpret_file(tmp_path / "train.py") == []  # no step is in sight


def test_only_files_of_the_project_are_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "misc.py").write_text(SCALER)
    (outside / "torch.py").write_text(SCALER)
    (tmp_path / "own").mkdir()
    own = project(tmp_path / "own", train="", torch=SCALER)
    (own / "link.py").symlink_to(outside / "misc.py")
    train = str(own / "train.py")
    assert module_file(train, "link") is None  # it leads out of the project
    assert module_file(train, "..outside.misc") is None
    assert module_file(train, "torch") is None
    assert module_file(train, "missing") is None
    assert module_file("nowhere.py", "link") is None


MOVES = """
def optimizer_to(optim, device):
    for state in optim.state.values():
        for key, value in state.items():
            if key != "step":
                state[key] = value.to(device)
    for group in optim.param_groups:
        for p in group["params"]:
            p.data = p.data.to(device)
    for hook in optim.hooks:
        hook.device = device
    for other in optim.others:
        other.device = device
    for last in optim.lasts:
        last.device = device
    return optim
"""
STEPS = """
def optimizer_to(optim, device):
    for each in optim.others:
        step_elsewhere(each)
    train_with(optim)
    optim.step()
"""
MOVED = """
import torch
IMPORT

def train(model, loader, device, FREE):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    CALL(optimizer, device)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
AMP = "import torch\n\ndef half():\n    return torch.autocast('cuda')\n"


CALLED = (
    ("import utils", "utils.optimizer_to"),
    ("import utils as U", "U.optimizer_to"),
    ("from utils import optimizer_to", "optimizer_to"),
    ("from utils import optimizer_to as move", "move"),
    ("from utils import *", "optimizer_to"),
)
PASSED_ON = ("from .common import *", "from .common import optimizer_to", "from .other import *\nfrom .more import *")


@pytest.mark.parametrize(
    ("line", "call", "passed_on", "own"),
    # Each pair with or without a word about AMP; with AMPLINT_TEST_ALL=1 with and without.
    [
        each
        for called in CALLED
        for passed_on in PASSED_ON
        for each in some([(*called, passed_on, own) for own in ("", AMP)], 1)
    ],
)
@pytest.mark.sampled(6)
def test_what_a_package_passes_on_is_followed(tmp_path: Path, line: str, call: str, passed_on: str, own: str) -> None:
    text = MOVED.replace("IMPORT", line).replace("CALL", call)
    project(tmp_path, train=text, utils__common=own + MOVES, utils__other=AMP, utils__more="from .common import *\n")
    (tmp_path / "utils" / "__init__.py").write_text(f"{passed_on}\n")
    found = ran(tmp_path / "train.py")
    assert (found.judged.state, found.judged.reason) == (RIGHT, "")
    (tmp_path / "utils" / "common.py").write_text(own + STEPS)
    look_again()
    assert ran(tmp_path / "train.py").judged.state != RIGHT
