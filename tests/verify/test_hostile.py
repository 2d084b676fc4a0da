"""Hostile programs under `amplint verify`: nothing of them happens, and the files beside them are still verified."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import some

pytest.importorskip("torch")

# A step with hostile code at module level, in a class, in a helper, in the step, and as arguments and defaults.
PROGRAM = """\
import builtins, ctypes, os, pathlib, pickle, shutil, signal, socket, subprocess, sys, threading
import torch
from torch import nn

HERE

def helper(x, evil=EXPRESSION):
    STATEMENTS
    return x

class Trainer:
    attribute = EXPRESSION

    def __init__(self, model):
        self.model = model
        self.secret = EXPRESSION
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def fit(self, loader, clip=1.0):
        for batch in loader:
            STATEMENTS_DEEPER
            helper(batch, EXPRESSION)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = self.model(batch, self.secret, self.attribute)
            self.scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
"""

# The clip in the step sees scaled gradients, which its run shows where it is reached.
SEEN = ("misbehaves", "confirmed", "not checkable")
# What would leave a trace, end or change the process, or never come back.
_ALL = {
    "os.system": "os.system('touch TRACE')",
    "open": "open('TRACE', 'w').write('x')",
    "with open": "with open('TRACE', 'w') as file: file.write('x')",
    "__import__": "__import__('os').system('touch TRACE')",
    "import": "import os as o; o.mkdir('TRACE')",
    "subprocess": "subprocess.run(['touch', 'TRACE'])",
    "pathlib": "pathlib.Path('TRACE').write_text('x')",
    "exec": "exec(\"open('TRACE', 'w')\")",
    "eval": "eval(\"open('TRACE', 'w')\")",
    "getattr": "getattr(os, 'sys' + 'tem')('touch TRACE')",
    "builtins": "builtins.open('TRACE', 'w')",
    "dunders": "().__class__.__bases__[0].__subclasses__()[0]",
    "globals": "globals()['torch'] = None",
    "torch.save": "torch.save({}, 'TRACE')",
    "torch.load": "torch.load('TRACE')",
    "torch.ops": "torch.ops.load_library('TRACE')",
    "torch.utils": "torch.utils.cpp_extension.load('x', ['TRACE'])",
    "shutil": "shutil.copy(__file__, 'TRACE')",
    "pickle": "pickle.loads(b'cos\\nsystem\\n(S\"touch TRACE\"\\ntR.')",
    "socket": "socket.create_connection(('localhost', 1))",
    "thread": "threading.Thread(target=os.system, args=('touch TRACE',)).start()",
    "ctypes": "ctypes.CDLL(None).system(b'touch TRACE')",
    "sys.exit": "sys.exit(3)",
    "os._exit": "os._exit(3)",
    "os.abort": "os.abort()",
    "kill": "os.kill(os.getpid(), 9)",
    "signal": "signal.signal(signal.SIGALRM, print); signal.alarm(1)",
    "endless": "while True: pass",
    "endless generator": "list(iter(int, 1))",
    "long loops": "for i in range(10**12):\n    for j in range(10**12):\n        for k in range(10**12): x = i + j + k",
    "comprehensions": "x = [a for a in range(10**9) for b in range(10**9) for c in range(10**9) for d in range(10**9)]",
    "recursion": "helper(helper(helper(x)))",
    "power": "x = 10 ** 10 ** 10",
    "shift": "x = 1 << 10 ** 12",
    "factorial": "x = 2\nfor i in range(10**6): x = x * x",
    "long string": "x = 'a' * 10**12",
    "long list": "x = [0] * 10**12",
    "growing list": "x = [1]\nfor i in range(10**6): x = x + x",
    "appending": "x = []\nwhile len(x) < 10**12: x.append(x)",
    "large tensor": "x = torch.zeros(10**12)",
    "growing tensor": "x = torch.ones_like(torch.zeros(4))\nfor i in range(10**6): x = torch.stack([x, x])",
    "monkeypatching": "torch.optim.SGD.step = os.system\ntorch.amp.GradScaler.update = None",
    "shadowing": "torch = os",
    "sys.modules": "sys.modules['torch'] = None",
    "setattr": "setattr(torch, 'autocast', None); setattr(torch.Tensor, 'backward', print)",
    "format": "x = '{:>1000000000000}'.format(1); y = f'{1:>1000000000000}'",
    "lambda": "(lambda f: f(f))(lambda f: f(f))",
    "yield": "x = [(yield)]",
    "del": "del torch.nn",
    "raise": "raise SystemExit(open('TRACE', 'w'))",
    "environment": "os.environ['LD_PRELOAD'] = 'TRACE'; os.environ.clear()",
    "chdir": "os.chdir('/'); os.umask(0)",
    "fork": "while True: os.fork()",
    "at the end": "import atexit; atexit.register(open, 'TRACE', 'w')",
    "frames": "sys._getframe(1).f_globals.clear(); sys.settrace(print)",
    "code object": "helper.__code__ = (lambda x: os.system('touch TRACE')).__code__",
    "import hook": "sys.meta_path.insert(0, os); sys.path.insert(0, 'TRACE')",
    "decorator": "@(lambda f: os.system('touch TRACE'))\ndef decorated(): pass",
    "metaclass": "class M(type):\n    def __new__(*a): os.system('touch TRACE')\nclass C(metaclass=M): pass",
    "attribute hook": "class A:\n    def __getattr__(s, n): os.system('touch TRACE')\nA().x; A.y = property(os.system)",
    "operator": "class A:\n    def __mul__(s, n): return os.system('touch TRACE')\nx = A() * 2",
    "context": "class A:\n    def __enter__(s): os.mkdir('TRACE')\n    def __exit__(s, *a): pass\nwith A(): pass",
    "loop over": "class A:\n    def __iter__(s): os.mkdir('TRACE')\nfor a in A(): pass",
    "finally": "try:\n    raise ValueError\nfinally:\n    os.mkdir('TRACE')",
    "match": "match os.mkdir('TRACE'):\n    case None: os.mkdir('TRACE')",
    "walrus": "x = [n := 10**9, [0] * n, {i: i for i in range(n)}]",
    "format's attributes": "x = '{0.__class__.__init__.__globals__}'.format(helper)",
    "regular expression": "import re; re.match('(a+)+$', 'a' * 99 + 'b')",
    "digits": "x = str(10 ** 10 ** 6); y = int('9' * 10**7)",
    "flood": "while True: print('x' * 10**6)",
    "flood of warnings": "import warnings\nwhile True: warnings.warn('x' * 10**6)",
    "log file": "import logging; logging.basicConfig(filename='TRACE'); logging.warning('x')",
    "database": "import sqlite3; sqlite3.connect('TRACE')",
    "input": "x = input()",
    "breakpoint": "breakpoint()",
    "hooks": "sys.excepthook = os.system; builtins.print = os.system; warnings = None",
    "tensor hook": "torch.ones(1, requires_grad=True).register_hook(lambda g: os.system('touch TRACE'))",
    "module hook": "nn.Module.__call__ = os.system; nn.modules.module.register_module_forward_hook(os.system)",
    "torch.jit": "torch.jit.load('TRACE'); torch.jit.script(helper)",
    "torch.hub": "torch.hub.load('TRACE', 'x', source='local'); torch.hub.set_dir('TRACE')",
    "torch.multiprocessing": "torch.multiprocessing.spawn(os.system, args=('touch TRACE',))",
    "torch.distributed": "torch.distributed.init_process_group('gloo', 'file://TRACE', rank=0, world_size=1)",
    "torch.from_file": "x = torch.from_file('TRACE', shared=True, size=4)",
    "tofile": "torch.ones(4).numpy().tofile('TRACE')",
    "profile": "torch.profiler.profile().export_chrome_trace('TRACE')",
    "torch.set": "torch.set_num_threads(10**6); torch.set_default_device('meta')",
    "torch.library": "torch.library.define('x::y', '() -> ()'); torch.classes.load_library('TRACE')",
    "autograd": "torch.set_grad_enabled(False); torch.inference_mode().__enter__()",
    "repeat": "x = torch.ones_like(torch.zeros(4)).repeat(10**12)",
    "range": "x = torch.arange(10**13)",
    "outer": "x = torch.ones(10**5)\nfor i in range(9): x = torch.outer(x.flatten(), x.flatten())",
    "negative": "x = torch.zeros(-1); y = torch.ones(3)[10**30]; z = torch.ones(2, 3) @ torch.ones(2, 3)",
    "matrix": "x = torch.ones_like(x)\nfor i in range(10**6): x = x @ x",
}
STATEMENTS = dict(some(_ALL.items(), 15))


def program(statements: str, trace: Path) -> str:
    """The program with hostile statements wherever they can stand."""
    lines = statements.replace("TRACE", str(trace))
    expression = lines if "\n" not in lines and _is_expression(lines) else "None"

    def indented(depth: int) -> str:
        return lines.replace("\n", "\n" + " " * depth)

    text = PROGRAM.replace("STATEMENTS_DEEPER", indented(12)).replace("STATEMENTS", indented(4))
    here = lines if not lines.startswith(("x = [(yield", "x = torch.ones_like(x)", "helper")) else ""
    return text.replace("EXPRESSION", expression).replace("HERE", here)


def _is_expression(text: str) -> bool:
    try:
        compile(text, "", "eval")
    except SyntaxError:
        return False
    return True


class Run(NamedTuple):
    """One run over all hostile programs, with a harmless one behind every third: what one damages stays damaged."""

    folder: Path
    seconds: float
    code: int
    err: str
    verdicts: dict[str, dict[str, Any]]  # by file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("hostile")
    for at, name in enumerate(STATEMENTS):
        (folder / f"{at:02}_hostile.py").write_text(program(STATEMENTS[name], folder / f"trace{at}"))
        if _has_harmless(at):
            (folder / f"{at:02}_then_harmless.py").write_text(program("pass", folder))
    command = [sys.executable, "-m", "amplint", "verify", str(folder), "--timeout", "20", "--output-format", "json"]
    started = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    found = {Path(each["path"]).name: each for each in json.loads(ran.stdout)}
    return Run(folder, time.monotonic() - started, ran.returncode, ran.stderr, found)


def _has_harmless(at: int) -> bool:
    return at % 3 == 2 or at == len(STATEMENTS) - 1


def test_nothing_hostile_happens(run: Run) -> None:
    """All in one test: processes that share the tests would each run the programs."""
    wrong = [
        (name, verdict)
        for at, name in enumerate(STATEMENTS)
        if (verdict := run.verdicts[f"{at:02}_hostile.py"]["verdict"]) not in SEEN
        or (run.folder / f"trace{at}").exists()
    ]
    assert wrong == []
    harmless = {name: row["verdict"] for name, row in run.verdicts.items() if name.endswith("_then_harmless.py")}
    assert len(harmless) >= len(STATEMENTS) / 3
    assert {name for name, verdict in harmless.items() if verdict != "confirmed"} == set()


def test_the_run_ends_well(run: Run) -> None:
    assert (run.code, run.err) == (2, "")
    assert len(list(run.folder.iterdir())) == len(run.verdicts)
    seen = [row for row in run.verdicts.values() if row["verdict"] != "not checkable"]
    assert len(seen) > 0.9 * len(run.verdicts)
