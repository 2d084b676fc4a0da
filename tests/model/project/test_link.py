"""More than one file: what a file's findings are where it uses others of its project."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import libcst as cst
import pytest

from amplint import cli
from amplint.base.paths import look_again
from amplint.base.target import nothing_declared
from amplint.config.selection import enabled_codes
from amplint.config.settings import Settings
from amplint.engine import prefilter
from amplint.engine.code_words import without_prose
from amplint.engine.file import check_bytes, fix_bytes
from amplint.engine.reading import read
from amplint.model import CannotRead
from amplint.model.syntax import ir, lazy_lowering
from amplint.registry import all_rules
from amplint.sources.source import Source
from amplint.testing import expected_in, settings_for
from tests import some
from tests.test_fixtures import SILENT, VARIANTS

WRAPPER = """\
import torch


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, update_grad=True):
        self._scaler.scale(loss).backward()
        if update_grad:
            self._scaler.unscale_(optimizer)
            if clip_grad is not None:
                torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()
"""
HELPER = """\
def adjust_learning_rate(optimizer, epoch):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (epoch + 1)


def clip(parameters, bound):
    import torch

    torch.nn.utils.clip_grad_norm_(parameters, bound)


def save(path, state):
    import torch

    torch.save(state, path)
"""
ENGINE = """\
import torch


def train_one_epoch(model, criterion, loader, optimizer, {scaler}):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        {step}
"""
MAIN = """\
import torch

from engine import train_one_epoch
{imports}

def main(model, criterion, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = {made}
    for epoch in range(3):
        train_one_epoch(model, criterion, loader, optimizer, scaler)
"""
LOOP = """\
import torch
{imports}

def train(model, criterion, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        {before}
        scaler.step(optimizer)
        scaler.update()
"""

Project = Callable[[dict[str, str]], "Checked"]


class Checked:
    """A project on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def findings(self, name: str) -> list[tuple[int, str, str]]:
        """What is found in one of the files: line, code, message."""
        path = self.root / name
        look_again()
        result = check_bytes(path.read_bytes(), str(path), Settings(enabled_codes([]), isolated=True, suspicions=True))
        assert result.source is not None or not result.findings
        return [(result.source.row(each.start), each.code, each.message) for each in result.findings if result.source]

    def codes(self, name: str) -> list[tuple[int, str]]:
        """The same without the messages."""
        return [(row, code) for row, code, _ in self.findings(name)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    def write(files: dict[str, str]) -> Checked:
        (tmp_path / ".git").mkdir()
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Checked(tmp_path)

    return write


def row_of(text: str, words: str) -> int:
    """The line of a text, from 1, that has some words."""
    return next(number for number, line in enumerate(text.splitlines(), start=1) if words in line)


IMPORTS = {
    "beside": ("from helpers import {name}", "helpers.py", "{name}"),
    "with another name": ("from helpers import {name} as other", "helpers.py", "other"),
    "its module": ("import helpers", "helpers.py", "helpers.{name}"),
    "its module with another name": ("import lib.helpers as h", "lib/helpers.py", "h.{name}"),
    "from a package": ("from lib.helpers import {name}", "lib/helpers.py", "{name}"),
    "a module from a package": ("from lib import helpers", "lib/helpers.py", "helpers.{name}"),
}


@pytest.mark.parametrize("how", IMPORTS)
def test_a_helper_of_another_file_is_followed(project: Project, how: str) -> None:
    statement, path, called = (each.format(name="clip") for each in IMPORTS[how])
    main = LOOP.format(imports=statement, before=f"{called}(model.parameters(), 1.0)")
    found = project({path: HELPER, "lib/__init__.py": "", "main.py": main})
    ((row, code, message),) = found.findings("main.py")
    assert (row, code) == (row_of(main, f"{called}("), "AMP401")
    assert message.startswith(f"this runs line {row_of(HELPER, 'clip_grad_norm_')} of {path}, where ")
    assert found.codes(path) == []


def test_a_module_from_a_folder_without_init_is_followed(project: Project) -> None:
    main = LOOP.format(imports="from lib import helpers", before="helpers.clip(model.parameters(), 1.0)")
    found = project({"lib/helpers.py": HELPER, "main.py": main})
    assert found.codes("main.py") == [(row_of(main, "helpers.clip("), "AMP401")]


def test_a_name_that_a_package_passes_on_is_followed(project: Project) -> None:
    main = LOOP.format(imports="from lib import clip", before="clip(model.parameters(), 1.0)")
    files = {"lib/__init__.py": "from .inner.helpers import clip", "lib/inner/__init__.py": "", "main.py": main}
    found = project({**files, "lib/inner/helpers.py": HELPER})
    assert found.codes("main.py") == [(row_of(main, " clip("), "AMP401")]


PASSED_ON = {
    "plainly": "from torch.cuda.amp import GradScaler, autocast\n",
    "the new names": "from torch.amp import GradScaler, autocast\n",
    "by a star": "from torch.cuda.amp import *\n",
    "where it is there": "try:\n    from torch.cuda.amp import GradScaler, autocast\n"
    "except ImportError:\n    class GradScaler:\n        pass\n\n    autocast = None\n",
    "through another file": "from lib.inner import GradScaler, autocast\n",
}


@pytest.mark.parametrize("how", PASSED_ON)
@pytest.mark.parametrize("imports", ["from lib.compat import GradScaler, autocast", "from lib.compat import *"])
def test_a_class_of_torch_that_a_file_passes_on_is_that_class(project: Project, how: str, imports: str) -> None:
    loop = LOOP.format(imports=imports, before="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    main = loop.replace('torch.amp.GradScaler("cuda")', "GradScaler()")
    assert main != loop
    inner = "from torch.cuda.amp import GradScaler, autocast\n"
    files = {"lib/__init__.py": "", "lib/inner.py": inner, "lib/compat.py": PASSED_ON[how], "main.py": main}
    codes = project(files).codes("main.py")
    assert (row_of(main, "clip_grad_norm_("), "AMP401") in codes
    # What is deprecated stands where it is imported from torch.
    assert not any(code.startswith("AMP1") for _, code in codes)


def test_a_star_import_among_other_statements_leaves_the_file_readable(project: Project) -> None:
    star = "try:\n    from more import *\n    print('there')\nexcept ImportError:\n    print('not there')\n"
    main = LOOP.format(imports="from helpers import clip", before="clip(model.parameters(), 1.0)")
    found = project({"helpers.py": f"{star}\n{HELPER}", "more.py": "SIZE = 3\n", "main.py": main})
    assert found.codes("main.py") == [(row_of(main, " clip("), "AMP401")]


SHARED_SCALER = """\
{imports}


def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
UTIL = 'import torch\nfrom torch import nn\n\nscaler = torch.amp.GradScaler("cuda")\ncriterion = nn.MSELoss()\n'


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("import torch\nfrom util import criterion, scaler", {}),
        ("from util import criterion, scaler, torch", {}),
        ("from util import *", {}),
        ("from more import *\nfrom numpy import *", {"more.py": "from util import *\n"}),
        (
            "from more import *",
            {"more.py": "from even import *\n", "even.py": "from more import *\nfrom util import *\n"},
        ),
        ("from more import *", {"more.py": "from numpy import *\nfrom util import *\nfrom math import *\n"}),
        ("from fastai.vision.all import *\nfrom util import scaler", {}),
    ],
)
def test_a_scaler_that_another_file_makes(project: Project, imports: str, files: dict[str, str]) -> None:
    main = SHARED_SCALER.format(imports=imports)
    found = project({"util.py": UTIL, "main.py": main, **files})
    assert found.codes("main.py") == [(row_of(main, "clip_grad_norm_("), "AMP401")]


OWN_SCALER = "class Scaler:\n    pass\n\n\nscaler = Scaler()\n"


@pytest.mark.parametrize(("util", "own"), [(UTIL, OWN_SCALER), (f"import torch\n\n\n{OWN_SCALER}", "")])
def test_another_scaler_than_torchs_by_a_star_import(project: Project, util: str, own: str) -> None:
    main = SHARED_SCALER.format(imports=f"from util import *\n\n\n{own}")
    assert project({"util.py": util, "main.py": main}).codes("main.py") == []


def test_deprecated_names_after_a_torch_that_a_star_import_gives(project: Project) -> None:
    main = "from util import *\n\nscaler = torch.cuda.amp.GradScaler()\n"
    assert project({"util.py": "import torch\n", "main.py": main}).codes("main.py") == [(3, "AMP102")]


def test_a_class_of_the_project_by_the_name_of_torchs_is_not_that_class(project: Project) -> None:
    loop = LOOP.format(imports="from lib.compat import GradScaler", before="clip_grad_norm_(model.parameters(), 1.0)")
    main = loop.replace('torch.amp.GradScaler("cuda")', "GradScaler()")
    compat = "class GradScaler:\n    def unscale_(self, optimizer):\n        pass\n"
    assert project({"lib/__init__.py": "", "lib/compat.py": compat, "main.py": main}).codes("main.py") == []


def test_in_a_src_layout_too(project: Project) -> None:
    main = LOOP.format(imports="from lib.helpers import clip", before="clip(model.parameters(), 1.0)")
    found = project({"src/lib/__init__.py": "", "src/lib/helpers.py": HELPER, "scripts/main.py": main})
    assert found.codes("scripts/main.py") == [(row_of(main, " clip("), "AMP401")]


@pytest.mark.parametrize(
    "added",
    [
        'sys.path.append("./libs/")',
        'sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "libs"))',
        'sys.path.insert(0, str(Path(__file__).parent.parent / "libs"))',
        'LIBS = os.path.join(ROOT, "libs")\nsys.path.append(LIBS)',
    ],
)
def test_in_a_folder_that_the_file_adds_to_the_path(project: Project, added: str) -> None:
    assert tamed(project, added) == ["AMP401"]


@pytest.mark.parametrize("added", ["sys.path.append(ROOT)", 'sys.path.append("/libs")', 'sys.path.append(f"{x}/libs")'])
def test_a_folder_that_is_not_written_out_is_out_of_sight(project: Project, added: str) -> None:
    assert tamed(project, added) == []


def test_a_folder_that_is_added_comes_before_a_package_of_the_name_above(project: Project) -> None:
    """As in Python: the program's own folder and those that it adds, and not the folder that the program's is in."""
    main = LOOP.format(
        imports="import sys\nsys.path.append('core')\nfrom raft import tame", before="tame(model.parameters())"
    )
    helper = "import torch\n\n\ndef tame(parameters):\n    torch.nn.utils.clip_grad_norm_(parameters, 1.0)\n"
    files = {"README.md": "", "raft/__init__.py": "", "raft/core/raft.py": helper, "raft/main.py": main}
    assert project(files).codes("raft/main.py") == [(row_of(main, " tame("), "AMP401")]


def tamed(project: Project, added: str) -> list[str]:
    """The codes of a step with a clip in a folder that no import of its own finds."""
    main = LOOP.format(imports=f"{added}\nfrom helpers import tame", before="tame(model.parameters())")
    helper = "import torch\n\n\ndef tame(parameters):\n    torch.nn.utils.clip_grad_norm_(parameters, 1.0)\n"
    found = project({"libs/helpers.py": helper, "scripts/main.py": main})
    return [code for _, code in found.codes("scripts/main.py")]


def test_a_call_that_does_nothing_to_gradients_hides_nothing(project: Project) -> None:
    lines = "adjust_learning_rate(optimizer, epoch)\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    main = LOOP.format(imports="from helpers import adjust_learning_rate", before=lines)
    assert project({"helpers.py": HELPER, "main.py": main}).codes("main.py") == [(row_of(main, "clip_"), "AMP401")]


def test_one_that_goes_by_a_short_name_through_another_file_hides_nothing_either(project: Project) -> None:
    tune = "from more import adjust_learning_rate\n\n\ndef tune(opt, epoch):\n    adjust_learning_rate(opt, epoch)\n"
    lines = "tune(optimizer, epoch)\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    main = LOOP.format(imports="from helpers import tune", before=lines)
    found = project({"helpers.py": tune, "more.py": HELPER, "main.py": main})
    assert found.codes("main.py") == [(row_of(main, "clip_"), "AMP401")]


def test_what_is_not_there_stays_out_of_sight(project: Project) -> None:
    lines = "adjust_learning_rate(optimizer, epoch)\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    main = LOOP.format(imports="from installed import adjust_learning_rate", before=lines)
    assert project({"main.py": main}).codes("main.py") == []


DEEP = f"def adjust_learning_rate(optimizer, epoch):\n    optimizer{'.again()' * 5000}\n"  # libcst would die of it


@pytest.mark.parametrize("broken", ["def (", "x = '\udcff'", "\0", "def adjust_learning_rate(:\n    pass", DEEP])
def test_a_file_that_can_not_be_read_is_out_of_sight(project: Project, broken: str) -> None:
    lines = "adjust_learning_rate(optimizer, epoch)\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    main = LOOP.format(imports="from helpers import adjust_learning_rate", before=lines)
    found = project({"main.py": main})
    (found.root / "helpers.py").write_bytes(broken.encode("utf-8", "surrogateescape"))
    assert found.codes("main.py") == []


@pytest.mark.parametrize("before", ["\\\n", "import os\n\\\n", "import os\n\f"])
def test_a_file_that_libcst_reads_otherwise_is_out_of_sight(project: Project, before: str) -> None:
    main = LOOP.format(imports="from helpers import clip", before="clip(model.parameters(), 1.0)")
    assert project({"helpers.py": before + HELPER, "main.py": main}).codes("main.py") == []


@pytest.mark.parametrize(
    ("helper", "codes"),
    [
        (HELPER.replace("    import torch\n", "    newer = torch\n"), ["AMP102"]),
        (HELPER + "if True:\n    newer()\n", ["AMP401", "AMP102"]),
    ],
    ids=["where it is asked about", "elsewhere"],
)
def test_what_only_python_can_read_of_another_file(
    project: Project, monkeypatch: pytest.MonkeyPatch, helper: str, codes: list[str]
) -> None:
    """As when libcst is older than the interpreter."""
    read_piece = lazy_lowering._tree

    @lru_cache
    def refusing(text: str) -> cst.Module:
        if "newer" in text:
            raise CannotRead("newer", 1)
        return read_piece(text)

    monkeypatch.setattr(lazy_lowering, "_tree", refusing)
    main = LOOP.format(imports="from helpers import clip", before="clip(model.parameters(), 1.0)")
    main = f"{main}\nold = torch.cuda.amp.GradScaler()\n"
    assert [code for _, code in project({"helpers.py": helper, "main.py": main}).codes("main.py")] == codes


def test_files_that_import_each_other(project: Project) -> None:
    main = LOOP.format(imports="from helpers import clip", before="clip(model.parameters(), 1.0)")
    helper = f"from main import train\n{HELPER}\n\ndef again(model):\n    train(model, None, [])\n"
    assert project({"helpers.py": helper, "main.py": main}).codes("main.py") == [(row_of(main, " clip("), "AMP401")]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("scaler(loss, optimizer, parameters=model.parameters())", None),
        ("scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())", None),
        ("scaler(loss, optimizer); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "AMP419"),
        ("scaler(loss, optimizer, update_grad=False); optimizer.step()", "AMP402"),
        ("scaler(loss, optimizer); optimizer.step()", "AMP402"),
    ],
)
def test_a_wrapper_class_a_loop_and_what_brings_them_together(project: Project, step: str, code: str | None) -> None:
    """Three files: what the loop does wrong shows only where the wrapper is made and passed on."""
    engine = ENGINE.format(scaler="scaler", step=step)
    main = MAIN.format(imports="from util.misc import NativeScaler", made="NativeScaler()")
    found = project({"util/misc.py": WRAPPER, "engine.py": engine, "main.py": main})
    expected = [] if code is None else [(row_of(main, "train_one_epoch(model"), code)]
    assert (found.codes("main.py"), found.codes("engine.py"), found.codes("util/misc.py")) == (expected, [], [])


def test_what_a_file_shows_by_itself_is_told_there_alone(project: Project) -> None:
    lines = "scaler.scale(loss).backward()\n        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    engine = ENGINE.format(scaler="scaler", step=f"{lines}\n        scaler.step(optimizer)\n        scaler.update()")
    main = MAIN.format(imports="", made='torch.amp.GradScaler("cuda")')
    found = project({"engine.py": engine, "main.py": main})
    assert (found.codes("main.py"), found.codes("engine.py")) == ([], [(row_of(engine, "clip_"), "AMP401")])


@pytest.mark.parametrize(("more", "codes"), [("", ["AMP413"]), (", 'scaler': scaler.state_dict()", [])])
def test_a_checkpoint_helper_of_another_file(project: Project, more: str, codes: list[str]) -> None:
    state = f"{{'model': model.state_dict(), 'optimizer': optimizer.state_dict(){more}}}"
    main = LOOP.format(imports="from helpers import save", before=f"save('last.pt', {state})")
    found = project({"helpers.py": HELPER, "main.py": main})
    assert [code for _, code in found.codes("main.py")] == codes


RIGHT = HELPER.replace("def clip(parameters, bound):", "def clip(parameters, bound, scaler, optimizer):").replace(
    "    torch.nn", "    scaler.unscale_(optimizer)\n    torch.nn"
)
NOT_THAT_ONE = {
    "a star import behind it": ("from wrong import clip\nfrom right import *", "clip", {}),
    "a star import behind it, in a package": (
        "from lib import clip",
        "clip",
        {"lib/__init__.py": "from wrong import clip\nfrom right import *"},
    ),
    "set anew": ("from lib import clip", "clip", {"lib.py": "import right\nfrom wrong import clip\nclip = right.clip"}),
    "either of two": (
        "from lib import clip",
        "clip",
        {"lib.py": "try:\n    from right import clip\nexcept ImportError:\n    from wrong import clip"},
    ),
    "a function and an import": ("from lib import clip", "clip", {"lib.py": f"{HELPER}\nfrom right import clip"}),
    "a function and another in an if": (
        "from lib import clip",
        "clip",
        {"lib.py": f"{HELPER}\nif FAST:\n    def clip(*args):\n        pass"},
    ),
    "replaced from here": ("import right, wrong\nwrong.clip = right.clip", "wrong.clip", {}),
    "replaced as one of two": ("import right, wrong\nwrong.clip, _ = right.clip, 1", "wrong.clip", {}),
    "replaced in a function": (
        "import wrong\ndef patch():\n    import right\n    import wrong as w\n    w.clip = right.clip\npatch()",
        "wrong.clip",
        {},
    ),
    "a package of the same name": (
        "from lib import clip",
        "clip",
        {"lib.py": HELPER, "lib/__init__.py": "from right import clip"},
    ),
}


@pytest.mark.parametrize("how", NOT_THAT_ONE)
def test_a_name_that_may_stand_for_something_else(project: Project, how: str) -> None:
    imports, called, files = NOT_THAT_ONE[how]
    main = LOOP.format(imports=imports, before=f"{called}(model.parameters(), 1.0, scaler, optimizer)")
    assert project({"wrong.py": HELPER, "right.py": RIGHT, **files, "main.py": main}).codes("main.py") == []


def test_a_name_that_is_only_read_stands_for_what_it_is(project: Project) -> None:
    main = LOOP.format(imports="import helpers\nprint(helpers.clip, 1)", before="helpers.clip(model.parameters(), 1.0)")
    found = project({"helpers.py": HELPER, "main.py": main}).codes("main.py")
    assert found == [(row_of(main, "helpers.clip(model"), "AMP401")]


@pytest.mark.parametrize(
    ("file", "main"),
    [
        ("READY = False\nif torch.cuda.is_available():\n    print('ready')\n    READY = True", ""),
        ("READY = False\ndef setup():\n    global READY\n    READY = True", "helpers.setup()"),
        ("READY = False", "helpers.READY = True"),
    ],
)
def test_a_variable_of_another_file_that_something_sets(project: Project, file: str, main: str) -> None:
    """What sets it is not taken with the function that reads it."""
    helper = f"import torch\n{file}\n\n\ndef clip(model, scaler, optimizer):\n    if READY:\n"
    helper += "        scaler.unscale_(optimizer)\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    main = LOOP.format(imports=f"import helpers\n{main}", before="helpers.clip(model, scaler, optimizer)")
    found = project({"helpers.py": helper, "main.py": main}).findings("main.py")
    assert ["`READY` is false" in message for _, _, message in found] == [True]


LOSSES = """\
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.bce = nn.BCELoss()

    def forward(self, x, y):
        return self.bce(x, y)


def weighted(x, y):
    return 0.5 * torch.nn.functional.binary_cross_entropy(x, y)
"""


@pytest.mark.parametrize(
    ("imports", "called"),
    [
        ("from losses import weighted", "weighted"),
        ("import losses", "losses.weighted"),
        ("from losses import Loss\ncriterion = Loss()", "criterion"),
        ("import losses\ncriterion = losses.Loss().cuda()", "criterion"),
    ],
)
def test_a_loss_of_another_file_that_a_region_forbids(project: Project, imports: str, called: str) -> None:
    main = f"import torch\n{imports}\n\nwith torch.autocast('cuda'):\n    loss = {called}(model(x).sigmoid(), y)\n"
    found = project({"losses.py": LOSSES, "main.py": main})
    assert (found.codes("main.py"), found.codes("losses.py")) == ([(main.count("\n"), "AMP304")], [])


def test_what_a_file_between_leads_to_is_told_there_alone(project: Project) -> None:
    engine = "from losses import weighted\nimport torch\n\n\ndef run(model, x, y):\n    with torch.autocast('cuda'):\n"
    engine += "        return weighted(model(x).sigmoid(), y)\n"
    main = "import torch\nfrom engine import run\n\nscaler = torch.amp.GradScaler('cuda')\nrun(model, x, y)\n"
    found = project({"losses.py": LOSSES, "engine.py": engine, "main.py": main})
    assert (found.codes("main.py"), found.codes("engine.py")) == ([], [(7, "AMP304")])


def test_a_class_inherits_from_another_file(project: Project) -> None:
    base = """\
import torch


class Base:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def optimize(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
"""
    main = """\
import torch
from base import Base


class Trainer(Base):
    def fit(self, loader):
        for x, y in loader:
            with torch.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
                self.optimize(loss)
"""
    found = project({"base.py": base, "main.py": main})
    assert [code for _, code in found.codes("main.py")] == ["AMP301"]


def test_no_fix_changes_another_file(project: Project) -> None:
    main = LOOP.format(imports="from helpers import clip", before="clip(model.parameters(), 1.0)")
    found = project({"helpers.py": HELPER, "main.py": main})
    settings = Settings(frozenset(all_rules()), isolated=True)
    path = found.root / "main.py"
    assert fix_bytes(path.read_bytes(), str(path), settings, unsafe=True).data == path.read_bytes()
    (finding,) = check_bytes(path.read_bytes(), str(path), settings).findings
    assert (finding.code, finding.fix, finding.withheld) == (
        "AMP401",
        None,
        "a fix can change only one file, and helpers.py may have to change too; make the change by hand",
    )


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "# comment"])
def test_the_end_of_a_file_stays_its_own(project: Project, end: str) -> None:
    """What is taken from another file stands behind the text: the last line must not run into it."""
    main = LOOP.format(imports="from helpers import clip", before="").replace("        \n", "").rstrip("\n")
    main = main.replace("\n        scaler.update()", "") + end
    found = project({"helpers.py": HELPER, "main.py": main + "\n\n\nclip([], 1.0)"})
    path = found.root / "main.py"
    settings = Settings(frozenset(all_rules()), isolated=True)
    fixed = fix_bytes(path.read_bytes(), str(path), settings, unsafe=True).data.decode()
    assert "scaler.update()" in fixed
    ast.parse(fixed)


# --- one file, taken apart -------------------------------------------------------------------------------------------


def taken_apart(text: str) -> tuple[str, str] | None:
    """A program without its functions and classes, and those in a file of their own, every line where it was.

    None where they need more than each other and imports.
    """
    tree = ast.parse(text)
    imports = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    parts = [each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    rest = [each for each in tree.body if each not in imports and each not in parts]
    bound = {name.id for each in rest for name in ast.walk(each) if isinstance(name, ast.Name)}
    if not imports or not parts or any(name.id in bound - {part.name for part in parts} for name in _reads(parts)):
        return None
    moved = {row for part in parts for row in range(_first(part), (part.end_lineno or 0) + 1)}
    shared = {row for each in imports for row in range(each.lineno, (each.end_lineno or 0) + 1)}
    lines = text.split("\n")
    main = [line if row not in moved else "" for row, line in enumerate(lines, start=1)]
    last = imports[-1].end_lineno or 0
    main[last - 1] += f"; from parts import {', '.join(part.name for part in parts)}"
    return "\n".join(main), "\n".join(line if row in moved | shared else "" for row, line in enumerate(lines, start=1))


def _first(part: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([part.lineno, *(each.lineno for each in part.decorator_list)])


def _reads(parts: list[ast.stmt]) -> list[ast.Name]:
    builtin = {"range", "len", "print", "sum", "zip", "enumerate", "super", "list", "max", "min", "float", "int"}
    reads = [name for part in parts for name in ast.walk(part) if isinstance(name, ast.Name)]
    return [name for name in reads if isinstance(name.ctx, ast.Load) and name.id not in builtin | {"torch", "nn", "F"}]


def _programs(code: str) -> Iterator[tuple[Path, tuple[str, str]]]:
    """A rule's fixtures that can be taken apart, but for those in which an old name is found."""
    bad = [each.bad for each in VARIANTS if each.code == code and not each.bad.is_dir()]
    for path in (*bad, *(each.path for each in SILENT if each.code == code)):
        if all(found >= "AMP2" for *_, found in expected_in(path)):
            apart = taken_apart(path.read_text("utf-8"))
            if apart is not None:
                yield path, apart


_BY_CALLERS = ("AMP210", "AMP423")


@pytest.mark.parametrize("code", sorted({each.code for each in VARIANTS if each.code >= "AMP2"}))
@pytest.mark.sampled(25)
def test_programs_in_two_files_are_found_to_do_what_they_do_in_one(code: str, tmp_path: Path) -> None:
    wrong = {}
    for number, (path, apart) in enumerate(some(_programs(code), 2)):
        folder = tmp_path / str(number)
        (folder / ".git").mkdir(parents=True)
        expected = Counter({(row, found): count for (_, row, found), count in expected_in(path).items()})
        suspicions = "confidence=suspicion" in path.read_text("utf-8").partition("\n")[0]
        settings = settings_for(code, path)._replace(suspicions=suspicions)
        found, opened = _found_apart(apart, folder, settings)
        # What the callers' arguments rule out, a file that has only the function can't know.
        found = Counter({key: count for key, count in found.items() if key[1] not in _BY_CALLERS or key in expected})
        # A file without a word about AMP in its code isn't read: what it brings together is not found.
        if not (found == expected or (not opened and not found - expected)):
            wrong[path] = (found - expected, expected - found)
    assert wrong == {}


def _found_apart(apart: tuple[str, str], folder: Path, settings: Settings) -> tuple[Counter[tuple[int, str]], bool]:
    """What is found in the two files, by its line in the one that they were, and whether both are read."""
    found: Counter[tuple[int, str]] = Counter()
    opened = True
    for name, text in zip(("main.py", "parts.py"), apart, strict=True):
        (folder / name).write_text(text, "utf-8")
    for name, text in zip(("main.py", "parts.py"), apart, strict=True):
        result = check_bytes(text.encode(), str(folder / name), settings)
        code = without_prose(text, ast.parse(text), prefilter.roots(settings.codes))
        opened = opened and prefilter.opens(code.encode(), settings.codes)
        for each in result.findings if result.source is not None else ():
            leads = re.match(r"this runs line (\d+) of parts.py", each.message)
            found[int(leads[1]) if leads else result.source.row(each.start), each.code] += 1
    return found, opened


def test_what_is_linted_beside_a_file_changes_nothing(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory, its files one by one and in another order, in one process and in two: the same findings."""
    step = "scaler(loss, optimizer); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    found = project(
        {
            "util/misc.py": WRAPPER,
            "losses.py": LOSSES,
            "helpers.py": HELPER,
            "engine.py": ENGINE.format(scaler="scaler", step=step),
            "main.py": MAIN.format(imports="from util.misc import NativeScaler", made="NativeScaler()"),
            "loop.py": LOOP.format(imports="from helpers import clip", before="clip(model.parameters(), 1.0)"),
        }
    )
    files = [str(each) for each in sorted(found.root.rglob("*.py"))]

    def lint(*arguments: str) -> list[str]:
        cli.main([*arguments, "--isolated", "--output-format", "concise", "--quiet"])
        return sorted(line for line in capsys.readouterr().out.splitlines() if ": AMP" in line)

    whole = lint(str(found.root))
    assert len(whole) == 2
    assert sorted(line for file in files for line in lint(file)) == whole
    assert lint(*reversed(files), "--jobs", "1") == whole
    assert lint(str(found.root), "--jobs", "2") == whole


def test_a_finding_stands_at_the_call_that_leads_there(project: Project) -> None:
    """Not at an earlier one, which is given an object that might be called as well."""
    helper = "def forward(model, optimizer, x):\n    optimizer.zero_grad()\n    return model(x).mean()\n"
    main = """\
import torch

from forward import forward
from util.misc import NativeScaler


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = NativeScaler()
    for x in loader:
        loss = forward(model, optimizer, x)
        with torch.autocast("cuda"):
            scaler(loss, optimizer)
"""
    found = project({"forward.py": helper, "util/misc.py": WRAPPER, "main.py": main})
    assert found.codes("main.py") == [(13, "AMP301")]


def test_a_finding_stands_at_the_call_that_leaves_the_file(project: Project) -> None:
    checkpoint = """\
import torch


def save_checkpoint(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""
    main = """\
import torch
from checkpoint import save_checkpoint


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self, loader):
        self.keep()
        for x, y in loader:
            with torch.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()

    def keep(self):
        save_checkpoint(self.model, self.optimizer, "last.pt")
"""
    found = project({"checkpoint.py": checkpoint, "main.py": main})
    assert found.codes("main.py") == [(main.count("\n"), "AMP413")]
    # Selected alone, too: the rule's words stand in the other file.
    path, alone = found.root / "main.py", Settings(frozenset({"AMP413"}), isolated=True, suspicions=True)
    assert [each.code for each in check_bytes(path.read_bytes(), str(path), alone).findings] == ["AMP413"]


@pytest.mark.parametrize(
    ("imports", "called"), [("import helpers", "helpers.shifted"), ("from helpers import shifted", "shifted")]
)
def test_half_precision_is_followed_into_another_file(project: Project, imports: str, called: str) -> None:
    helper = "def shifted(other, loss):\n    return (loss + 1e-8).log()\n"
    main = f"""\
import torch
{imports}


def run(x):
    layer = torch.nn.Linear(4, 4)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = layer(x)
        return {called}(x, loss)
"""
    assert project({"helpers.py": helper, "main.py": main}).codes("main.py") == [(row_of(main, "return"), "AMP501")]


@pytest.mark.parametrize("cast", ["", ".float()"])
@pytest.mark.parametrize("given", [True, False])
def test_a_criterion_of_another_file_is_followed_to_its_loss(project: Project, cast: str, *, given: bool) -> None:
    losses = f"""\
import torch


class Focal(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.criterion = torch.nn.CrossEntropyLoss(reduction="none")

    def forward(self, outputs, targets):
        loss = self.criterion(outputs{cast}, targets)
        return ((1 - torch.exp(-loss)) ** 2 * loss).mean()
"""
    main = f"""\
import torch
from losses import Focal


def compute(model, {"criterion, " if given else ""}x, y):
    {"" if given else "criterion = Focal()"}
    with torch.autocast("cuda", dtype=torch.float16):
        outputs = model(x)
    return criterion(outputs, y)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    {"criterion = Focal().cuda()" if given else ""}
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(compute(model, {"criterion, " if given else ""}x, y)).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    found = project({"losses.py": losses, "main.py": main}).codes("main.py")
    assert found == ([] if cast else [(row_of(main, "criterion(outputs"), "AMP303")])


def test_a_file_that_changes_while_others_are_linted(project: Project) -> None:
    """What was read of it is read again: of itself, of what takes it, and whether it is there at all."""
    engine = "from losses import weighted\nimport torch\n\n\ndef run(model, x, y):\n    with torch.autocast('cuda'):\n"
    engine += "        return weighted(model(x).sigmoid(), y)\n"
    main = "import torch\nfrom engine import run\n\nscaler = torch.amp.GradScaler('cuda')\nrun(model, x, y)\n"
    safe = LOSSES.replace("binary_cross_entropy(", "binary_cross_entropy_with_logits(")
    found = project({"engine.py": engine, "main.py": main})
    seen = [(found.codes("main.py"), found.codes("engine.py"))]
    for text in (LOSSES, f"# One line more.\n{LOSSES}", safe, LOSSES):
        (found.root / "losses.py").write_text(text)
        seen.append((found.codes("main.py"), found.codes("engine.py")))
    there = [], [(7, "AMP304")]
    assert seen == [([], []), there, there, ([], []), there]


def test_a_name_that_another_file_comes_to_offer(project: Project) -> None:
    step = "clip(model.parameters(), 1.0)"
    main = LOOP.format(imports="from helpers import clip", before=step)
    found = project({"helpers.py": "from more import clip\nfrom most import *\n", "more.py": HELPER, "main.py": main})
    (found.root / "most.py").write_text("")
    codes = [found.codes("main.py")]
    (found.root / "most.py").write_text("def clip(parameters, bound): ...\n")
    codes.append(found.codes("main.py"))
    assert codes == [[(row_of(main, "clip(model"), "AMP401")], []]


def test_fixing_a_project_leaves_what_another_run_finds(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that a run has fixed are seen as they are then by the files that take something from them."""
    old = "scaler = torch.cuda.amp.GradScaler()\n\n\ndef clip(optimizer, parameters, bound):\n"
    helper = f"import torch\n\n{old}    torch.nn.utils.clip_grad_norm_(parameters, bound)\n    scaler.step(optimizer)\n"
    main = LOOP.format(imports="from helpers import clip", before="clip(optimizer, model.parameters(), 1.0)")
    found = project({"helpers.py": helper, "main.py": main, "also.py": main})

    def lint(*arguments: str) -> str:
        cli.main([*arguments, "--isolated", "--output-format", "concise", "--jobs", "1", str(found.root)])
        return "".join(line for line in capsys.readouterr().out.splitlines(keepends=True) if ": AMP" in line)

    remaining = lint("--fix", "--unsafe-fixes")
    assert "torch.amp.GradScaler" in (found.root / "helpers.py").read_text()
    assert lint() == remaining


def test_only_what_is_used_of_a_file_is_taken(project: Project) -> None:
    """Not what stands between two statements of it that are."""
    helper = "import torch\nA = 1\n\n\ndef unused(parameters):\n    {}\n\n\nclass Unused:\n    pass\n\n\nB = 2\n\n\n{}"
    clip = "torch.nn.utils.clip_grad_norm_(parameters, A)"
    main = LOOP.format(imports="from helpers import clip", before="clip(model.parameters())")
    found = project({"helpers.py": helper.format(clip, f"def clip(parameters):\n    {clip}\n"), "main.py": main})
    path = found.root / "main.py"
    module = read(Source(str(path), main), nothing_declared())
    (other,) = module.whole.files[1:]
    names = [each.name for each in other.program.body.statements if isinstance(each, (ir.Function, ir.Class))]
    assert names == ["clip"]
    assert [each for piece in other.pieces for each in re.findall("Unused|unused", piece.text)] == []
    assert found.codes("main.py") == [(row_of(main, " clip("), "AMP401")]


USES_CONSTANT = """\
import torch
{imports}

def evaluate(model, x):
    with torch.autocast("cpu", dtype={read}):
        return model(x)
"""
DTYPE = "import torch\n{}DTYPE = torch.float32\n"


@pytest.mark.parametrize(
    ("imports", "read", "files"),
    [
        ("from config import DTYPE", "DTYPE", {"config.py": DTYPE.format("")}),
        ("from config import DTYPE as kind", "kind", {"config.py": DTYPE.format("")}),
        ("import config", "config.DTYPE", {"config.py": DTYPE.format("")}),
        ("import pkg.config as c", "c.DTYPE", {"pkg/__init__.py": "", "pkg/config.py": DTYPE.format("")}),
        (
            "from pkg import DTYPE",
            "DTYPE",
            {"pkg/__init__.py": "from .config import DTYPE", "pkg/config.py": DTYPE.format("")},
        ),
        ("from config import KINDS", 'KINDS["a"]', {"config.py": 'import torch\nKINDS = {"a": torch.float32}\n'}),
        ("from config import KIND", "KIND", {"config.py": DTYPE.format("") + "KIND = DTYPE\n"}),
    ],
)
def test_a_constant_of_another_file(project: Project, imports: str, read: str, files: dict[str, str]) -> None:
    main = USES_CONSTANT.format(imports=imports, read=read)
    found = project({**files, "main.py": main}).codes("main.py")
    assert found == [(row_of(main, "torch.autocast"), "AMP205")]


@pytest.mark.parametrize(
    ("config", "main"),
    [
        (DTYPE.format("") + "DTYPE = torch.bfloat16\n", ""),
        (DTYPE.format("") + "if torch.cuda.is_available():\n    DTYPE = torch.bfloat16\n", ""),
        (DTYPE.format("") + "def setup():\n    global DTYPE\n    DTYPE = torch.bfloat16\n", ""),
        (DTYPE.format("") + "from other import *\n", ""),
        (DTYPE.format(""), "import config\nconfig.DTYPE = torch.bfloat16"),
        (DTYPE.format(""), "DTYPE = torch.bfloat16"),
        ("import torch\ndef choose():\n    return torch.float32\nDTYPE = choose()\n", ""),
        ("import torch\nclass DTYPE:\n    pass\n", ""),
        ("import torch\n(\n", ""),
    ],
)
def test_what_may_be_no_constant_of_another_file(project: Project, config: str, main: str) -> None:
    main = USES_CONSTANT.format(imports=f"from config import DTYPE\n{main}", read="DTYPE")
    assert project({"config.py": config, "other.py": "DTYPE = 3\n", "main.py": main}).codes("main.py") == []


def test_constants_alone_are_taken_of_a_file_of_which_nothing_else_is_used(project: Project) -> None:
    unused = "MODEL = make_model()\nSCALER = torch.amp.GradScaler()\nMODELS = 3\n\n\ndef unused():\n    pass\n\n\n"
    config = DTYPE.format(unused) + "\n\ndef unused_too():\n    pass\n\n\nMODELS_TOO = 4\n"
    main = USES_CONSTANT.format(imports="from config import DTYPE", read="DTYPE")
    found = project({"config.py": config, "main.py": main})
    module = read(Source(str(found.root / "main.py"), main), nothing_declared())
    (other,) = module.whole.files[1:]
    assert [each for piece in other.pieces for each in re.findall("MODEL|unused", piece.text)] == []
    assert len(found.codes("main.py")) == 1


ENTERS_REGION = """\
import torch
from config import {name}


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        with {entered}:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
"""
FLOAT16 = 'torch.autocast("cuda", dtype=torch.float16)'


@pytest.mark.parametrize(
    ("config", "entered"),
    [
        (f"import torch\nAMP_CTX = {FLOAT16}\n", "AMP_CTX"),
        (f"import torch\ndef amp_ctx():\n    return {FLOAT16}\n", "amp_ctx()"),
        ('import torch\nfrom torch import autocast\nctx = autocast("cuda", torch.float16)\n', "ctx"),
        (
            'import functools, torch\nctx = functools.partial(torch.autocast, "cuda", torch.float16)\n',
            "ctx()",
        ),
        (
            "import torch\nfrom contextlib import nullcontext\n"
            f"ctx = {FLOAT16} if torch.cuda.is_available() else nullcontext()\n",
            "ctx",
        ),
        (
            "import torch\nclass Config:\n    lr = 1\n    def __init__(self):\n        self.dtype = torch.float16\n"
            "cfg = Config()\n",
            'torch.autocast("cuda", dtype=cfg.dtype)',
        ),
        (
            f"import torch\nclass Config:\n    lr = 1\n    def __init__(self):\n        self.ctx = {FLOAT16}\n"
            "amp = Config()\n",
            "amp.ctx",
        ),
    ],
)
@pytest.mark.parametrize(("dtype", "codes"), [("float16", ["AMP207"]), ("bfloat16", [])])
def test_a_region_that_another_file_makes(
    project: Project, config: str, entered: str, dtype: str, codes: list[str]
) -> None:
    name = re.findall(r"\w+", entered.replace("torch.autocast", "").replace('"cuda", dtype=', ""))[0]
    main = ENTERS_REGION.format(name=name, entered=entered)
    found = project({"config.py": config.replace("float16", dtype), "main.py": main}).codes("main.py")
    assert [code for _, code in found] == codes


GAN = """\
import torch
from stepper import Stepper

class Trainer:
    def __init__(self, gen, critic):
        self.gen, self.critic = gen, critic
        self.opt_gen = torch.optim.Adam(gen.parameters())
        self.opt_critic = torch.optim.Adam(critic.parameters())
        self.step_gen = Stepper(gen, self.opt_gen)
        self.step_critic = Stepper(critic, self.opt_critic)

    def run(self, batches):
        for x in batches:
            for p in self.critic.parameters():
                p.requires_grad = False
            self.opt_gen.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.critic(self.gen(x)).mean()
            self.step_gen(loss)
            for p in self.critic.parameters():
                p.requires_grad = True
            self.opt_critic.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.critic(self.gen(x).detach()).mean()
            self.step_critic(loss)
"""
STEPPER = """\
import torch

class Stepper:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


def test_an_attribute_of_anything_else_that_is_set_does_not_change_what_an_object_keeps(project: Project) -> None:
    checked = project({"gan.py": GAN, "stepper.py": STEPPER})
    assert not checked.findings("gan.py")
