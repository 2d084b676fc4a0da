"""A program under `amplint run` does what it does under Python: both are started, and what they do is compared."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

Write = Callable[[dict[str, str | bytes]], Path]
Done = subprocess.CompletedProcess[bytes]

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
for each in ("NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED", "RANK", "WORLD_SIZE"):
    ENVIRONMENT.pop(each, None)
HELLO = b"amplint run executes your program, %s, and watches it; the report follows at the end\n"
NOTHING = b"amplint run: nothing found, no step of an optimizer was seen\n"
NO_TORCH = b"  note: the program never imported torch: it had nothing to watch\n"
SCRIPT = (sys.executable, str(Path(sys.executable).with_name("amplint")), "run")
MODULE = (sys.executable, "-m", "amplint", "run")


def start(*command: str, **more: object) -> Done:
    given: Any = {"env": ENVIRONMENT, "capture_output": True, "timeout": 240, **more}
    return subprocess.run(command, check=False, **given)


def alone(done: Done, program: str) -> bytes:
    """What the program itself has written to stderr."""
    said = done.stderr
    for each in (HELLO % program.encode(), NOTHING, NO_TORCH):
        assert said.count(each) == 1, said
        said = said.replace(each, b"")
    return said


def compare(*program: str, how: tuple[str, ...] = MODULE, **more: object) -> tuple[Done, Done]:
    """A program under Python and under `amplint run`, which are to differ in what the doctor says alone."""
    plain = start(sys.executable, *program, **more)
    run = start(*how, *program, **more)
    assert run.stdout == plain.stdout
    assert run.returncode == plain.returncode
    assert alone(run, program[program[0] == "-m"]) == plain.stderr
    return plain, run


LOOK = """\
'''What a program can see of how it was started.'''
import sys
print(sys.argv, sys.path, __name__, __file__, __doc__, __package__, __cached__)
print(__spec__ and __spec__.name, type(__loader__))
print(sorted(globals()), sys.modules["__main__"].__dict__ is globals(), __builtins__.__name__, sys.flags)
"""


@pytest.mark.parametrize("how", [MODULE, SCRIPT])
def test_what_a_program_sees(project: Write, how: tuple[str, ...]) -> None:
    if not Path(how[1]).exists() and how is SCRIPT:
        pytest.skip("amplint is not installed")
    root = project({"look.py": LOOK, "deep/er/look.py": LOOK, "deep/er/side.py": ""})
    (root / "link.py").symlink_to("deep/er/look.py")
    compare("look.py", how=how)
    for path in ("deep/er/look.py", str(root / "deep/er/look.py"), "link.py", "deep/../look.py"):
        compare(path, "--stop", "-m", "--", "--report", "x", how=how)
    compare("look.py", how=how, env={**ENVIRONMENT, "PYTHONSAFEPATH": "1"})
    compare("look.py", how=how, env={**ENVIRONMENT, "PYTHONPATH": f"{root}:{ROOT}"})


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="a shell's `<(...)` has no name here")
def test_a_program_in_a_pipe(project: Write) -> None:
    project({"look.py": LOOK})
    plain, run = (
        start("/bin/sh", "-c", f"cat look.py | {' '.join(command)} /dev/fd/0 x")
        for command in ((sys.executable,), MODULE)
    )
    assert plain.stdout.startswith(b"['/dev/fd/0', 'x']")
    assert (run.returncode, run.stdout, alone(run, "/dev/fd/0")) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize("how", [MODULE, SCRIPT])
def test_modules_folders_and_archives(project: Write, how: tuple[str, ...]) -> None:
    if not Path(how[1]).exists() and how is SCRIPT:
        pytest.skip("amplint is not installed")
    fails = f"{LOOK}if len(sys.argv) > 1: raise ValueError(sys.argv[1])\n"
    root = project(
        {"pack/__init__.py": "", "pack/__main__.py": fails, "pack/look.py": fails, "folder/__main__.py": LOOK}
    )
    for module in ("pack", "pack.look"):
        compare("-m", module, how=how)
        compare("-m", module, "--report", how=how)
    compare("folder", "--stop", how=how)
    with zipfile.ZipFile(root / "app.pyz", "w") as file:
        file.writestr("__main__.py", LOOK)
    compare("app.pyz", "x", how=how)
    compare("-m", "pack.nowhere", how=how)


def test_from_the_folder_that_amplint_lies_in(project: Write) -> None:
    path = project({"look.py": LOOK}) / "look.py"
    compare(str(path), cwd=ROOT)
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "PYTHONPATH"}
    compare(str(path), cwd=ROOT, env=environment)


@pytest.mark.parametrize(
    "end",
    [
        "sys.exit()",
        "sys.exit(0)",
        "sys.exit(5)",
        "sys.exit(-1)",
        "sys.exit(True)",
        "sys.exit('it is over')",
        "sys.exit(('a', 1))",
        "raise SystemExit",
        "raise SystemExit(1, 2)",
        "raise ValueError('no')",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "raise Exception('a\\udc80b')",
        "1 / 0",
        "import nowhere",
        "print('\\udc80')",
        "def f(x: undefined): pass",
        "sys.excepthook = lambda *_: print('hooked', _[0], file=sys.stderr); 1 / 0",
        "sys.excepthook = lambda *_: sys.exit(9); 1 / 0",
        "sys.stdout.write('no end of a line')",
        "sys.stdout.buffer.write(bytes(range(256)))",
        "print(sys.stdin.read())",
        "del sys.excepthook; 1 / 0",
        "sys.stderr = None; 1 / 0",
        "sys.stderr = None; sys.exit('over')",
    ],
)
def test_how_a_program_ends(project: Write, end: str) -> None:
    project({"end.py": f"import sys\n\n\ndef inner():\n    print('here')\n\n\ninner()\n{end}\n"})
    compare("end.py", input=b"given")


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n",
        "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n".encode("latin-1"),
        "\ufeffprint(1)\r\nprint(2)",
        "",
        "try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('then') from error\n",
        "try:\n    1 / 0\nexcept Exception:\n    raise ValueError('meanwhile')\n",
        "import atexit\natexit.register(print, 'at the end', flush=True)\nprint(1)\nraise ValueError\n",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()\nprint(1)\n",
        "import threading\nthreading.Thread(target=lambda: 1 / 0).start()\n",
        "import sys\nsys.stdout.close()\n",
        "import sys\nsys.exit(__name__ != '__main__')\n",
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if not pid else 'parent', flush=True)\n",
        "import os, sys\npid = os.fork()\nif not pid: raise ValueError('child')\nos.waitpid(pid, 0)\n",
        "import warnings\nwarnings.warn('old', DeprecationWarning)\n",
    ],
)
def test_programs(project: Write, text: str | bytes) -> None:
    project({"program.py": text})
    compare("program.py")


def test_a_program_that_ends_at_once(project: Write) -> None:
    project({"end.py": "import os\nprint('said', flush=True)\nos._exit(7)\n"})
    done = start(*MODULE, "end.py")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"said\n", HELLO % b"end.py")


def test_the_report_comes_last(project: Write) -> None:
    text = "import sys\nprint('out', flush=False)\nprint('err', file=sys.stderr)\nraise ValueError('why')\n"
    project({"end.py": text})
    done = start(*MODULE, "end.py", capture_output=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout.startswith(HELLO % b"end.py" + b"err\nTraceback (most recent call last):\n")
    assert done.stdout.endswith(b"ValueError: why\nout\n" + NOTHING + NO_TORCH)


def test_threads_are_waited_for(project: Write) -> None:
    late = "import threading, time, sys\ndef work():\n    time.sleep(0.3)\n    print('late', file=sys.stderr)\n"
    project({"program.py": f"{late}threading.Thread(target=work).start()\n"})
    assert start(*MODULE, "program.py").stderr == HELLO % b"program.py" + b"late\n" + NOTHING + NO_TORCH
    pool = "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(print, 'pooled')\n"
    project({"program.py": pool})
    compare("program.py")


def test_an_interrupt(project: Write) -> None:
    project({"wait.py": "import signal\nsignal.raise_signal(signal.SIGINT)\n"})
    _, run = compare("wait.py")
    assert run.returncode == -signal.SIGINT
    assert run.stderr.endswith(b"KeyboardInterrupt\n" + NOTHING + NO_TORCH)


def test_nothing_is_run(project: Write) -> None:
    root = project({"train.py": "print('running')\n", "libraries/torch/__init__.py": ""})
    needs = 'pip install "amplint[verify] @ git+https://github.com/amplint/amplint"'
    # -S leaves all out that is installed; what amplint itself needs is put back.
    packaging = str(Path(str(importlib.util.find_spec("packaging").origin)).parent)  # type: ignore[union-attr]
    (root / "libraries/packaging").symlink_to(packaging)
    paths = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT}{os.pathsep}{root / 'libraries'}"}
    bare = (sys.executable, "-S", *MODULE[1:])
    assert start(*bare, "train.py", env=paths).stdout == b"running\n"
    info = root / "libraries/torch-2.3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.3.1\n")
    old = start(*bare, "train.py", env=paths)
    (root / "libraries/torch").rename(root / "libraries/other")
    none = start(*bare, "train.py", env=paths)
    away = start(*bare, "nowhere.py", env=paths)
    assert {(each.returncode, each.stdout) for each in (old, none, away)} == {(2, b"")}
    too_old = f"amplint: error: amplint run needs torch 2.4 or later, this is 2.3.1: {needs}\n"
    missing = f"amplint: error: torch is not installed, which amplint run needs: {needs}\n"
    assert (old.stderr.decode(), none.stderr.decode()) == (too_old, missing)
    assert away.stderr == b"amplint: error: nowhere.py: No such file or directory\n"


PROCESSES = """\
import multiprocessing, os, pickle, sys
from concurrent.futures import ProcessPoolExecutor

print("imported as", __name__, flush=True)


class Mine:
    def __init__(self, value):
        self.value = value


def work(mine, queue=None):
    result = mine.value + 1, __name__, sys.argv, "amplint.doctor.start" in sys.modules
    if queue is not None:
        queue.put(result)
    return result


if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Mine(3))).value, Mine.__module__)
    for how in sys.argv[1:]:
        context = multiprocessing.get_context(how)
        queue = context.Queue()
        process = context.Process(target=work, args=(Mine(1), queue))
        process.start()
        print(queue.get()[:3])
        process.join()
        print(process.exitcode)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            print(pool.submit(work, Mine(2)).result()[:3 if how == "fork" else 4], flush=True)
"""


def test_processes_of_the_program(project: Write) -> None:
    project({"program.py": PROCESSES, "pack/__init__.py": "", "pack/program.py": PROCESSES})
    for program in (("program.py",), ("-m", "pack.program")):
        plain = start(sys.executable, *program, "spawn", "fork", "forkserver")
        run = start(*MODULE, *program, "spawn", "fork", "forkserver")
        assert plain.stdout.count(b"imported as __mp_main__") == 4
        assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout) == (0, plain.stdout)
        assert alone(run, program[-1]).startswith(b"  note: processes that the program starts itself are not watched")


def test_closed_streams(project: Write) -> None:
    project({"program.py": "import sys\nprint('x')\nsys.exit(4)\n"})
    for closed in ("1>&-", "2>&-", "1>&- 2>&-", "0<&-"):
        ends = [
            start("/bin/sh", "-c", f"exec {' '.join(command)} program.py {closed}").returncode
            for command in ((sys.executable,), MODULE)
        ]
        assert ends[0] == ends[1], closed


class TestASession:
    """What a session says and does, with a stand-in for it and for torch."""

    TRAIN = "import torch\n\nprint('before', flush=True)\ntorch.step()\nprint('after')\n"
    STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")), "run")

    def run(self, project: Write, does: str, *options: str, train: str = TRAIN) -> Done:
        project({"torch/__init__.py": "def step():\n    print('step', flush=True)\n", "train.py": train})
        return start(*self.STAND_IN, *options, "train.py", env={**ENVIRONMENT, "STAND_IN": does})

    def test_it_is_there_when_torch_is(self, project: Write) -> None:
        done = self.run(project, "")
        assert (done.returncode, done.stdout) == (0, b"before\nstep\nafter\n")
        head = HELLO % b"train.py" + b"installed: stop=False careful=False replay=True\n"
        assert done.stderr == head + b"amplint run: healthy, 3 steps, none skipped\n"
        once_more = f"import sys, torch\ndel sys.modules['torch']\n{self.TRAIN}"
        assert self.run(project, "", train=once_more).stderr == done.stderr

    def test_its_options(self, project: Write) -> None:
        done = self.run(project, "", "--stop", "--careful", "--no-replay")
        assert b"installed: stop=True careful=True replay=False\n" in done.stderr

    def test_stop(self, project: Write) -> None:
        done = self.run(project, "stop", "--stop", "--report", "report.json")
        assert (done.returncode, done.stdout) == (3, b"before\n")
        assert done.stderr.endswith(b"AMP404 train.py:4  nothing was updated [seen]\n  the linter doesn't see this\n")
        assert b"Traceback" not in done.stderr
        assert json.loads(Path("report.json").read_text("utf-8"))["findings"][0]["path"] == "train.py"

    def test_it_is_told_what_ended_the_program(self, project: Write) -> None:
        done = self.run(project, "error", train=f"{self.TRAIN}1 / 0\n")
        assert done.returncode == 1
        assert b"  note: ended by ZeroDivisionError at line 6\n" in done.stderr
        assert b"  note: ended by None\n" in self.run(project, "error").stderr

    def test_what_ended_it_is_explained(self, project: Write) -> None:
        known = 'raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")\n'
        done = self.run(project, "", train=self.TRAIN + known)
        said = " ".join(done.stderr.decode().split())
        explain = "amplint explain 'unscale_() has already been called on this optimizer since the last update().'"
        assert f" note: what ended the program is explained by {explain}" in said
        for end in ("raise RuntimeError('x' * 999)", "raise SystemExit('nan')"):
            assert b"amplint explain" not in self.run(project, "", train=f"{self.TRAIN}{end}\n").stderr

    def test_its_frames_are_not_shown(self, project: Write) -> None:
        text = "import torch\ntry:\n    torch.step()\nexcept ValueError as error:\n    raise KeyError from error\n"
        done = self.run(project, "wrap", train=text)
        assert b"stand_in" in done.stderr  # which is no part of amplint
        assert b"start.py" not in done.stderr
        assert b"amplint/" not in done.stderr
        assert b"ValueError: in the hook\n\nThe above exception was the direct cause" in done.stderr

    @pytest.mark.parametrize("does", ["install fails", "finish fails"])
    def test_a_bug_in_it(self, project: Write, does: str) -> None:
        done = self.run(project, does)
        assert (done.returncode, done.stdout) == (0, b"before\nstep\nafter\n")
        note = b"amplint stopped watching because of a bug of its own: RuntimeError: no luck"
        assert b"  note: " + note in done.stderr.replace(b"\n    ", b" ")
        assert b"(stand_in.py:" in done.stderr
        assert b"\namplint run: amplint disabled itself, " in done.stderr
        assert (b"\namplint: " + note in done.stderr) == (does == "install fails")
        assert b"Traceback" not in done.stderr

    def test_forks_say_nothing(self, project: Write) -> None:
        fork = "import os\nif not (pid := os.fork()):\n    torch.step()\n    raise SystemExit(3)\nos.waitpid(pid, 0)\n"
        done = self.run(project, "talk", train=self.TRAIN + fork)
        assert done.returncode == 0
        assert done.stderr.count(b"a step") == 1
        assert done.stderr.count(b"amplint run:") == 1

    def test_it_stays_where_it_was_started(self, project: Write) -> None:
        gone = "import os\nos.mkdir('sub')\nos.chdir('sub')\n"
        done = self.run(project, "stop", "--report", "a.json", "-o", "a.txt", train=gone + self.TRAIN)
        assert b"AMP404 train.py:7  nothing" in done.stderr
        assert json.loads(Path("a.json").read_text("utf-8"))["findings"][0]["path"] == "train.py"
        assert Path("a.txt").read_text("utf-8").startswith("amplint run: 1 problem, 3 steps, none skipped\n\nAMP404 tr")

    def test_a_file_that_changed_is_not_linted(self, project: Write) -> None:
        change = "import os, time\nos.utime('train.py', (time.time() + 5,) * 2)\n"
        done = self.run(project, "stop", train=change + self.TRAIN)
        assert done.stderr.endswith(b"AMP404 train.py:6  nothing was updated [seen]\n")


class TestTorch:
    def test_what_is_set_before_its_import_has_its_effect(self, project: Write) -> None:
        look = (
            "import os, sys\nassert 'torch' not in sys.modules\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\n"
            "print(torch.get_num_threads(), torch.__loader__ is torch.__spec__.loader, type(torch.__loader__))\n"
            "print([type(each) for each in sys.meta_path])\n"
        )
        project({"program.py": look})
        environment = {key: value for key, value in ENVIRONMENT.items() if key != "OMP_NUM_THREADS"}
        plain = start(sys.executable, "program.py", env=environment)
        run = start(*MODULE, "program.py", env=environment)
        assert plain.stdout.startswith(b"1 True")
        assert (run.stdout, run.returncode) == (plain.stdout, 0)
        assert run.stderr == HELLO % b"program.py" + NOTHING

    def test_workers_of_a_loader(self, project: Write) -> None:
        text = """\
import sys
import torch


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.mm(torch.ones(2, 2), torch.full((2, 2), float(at)))[0, 0].float()


if __name__ == "__main__":
    for how in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Data(), 4, num_workers=2, multiprocessing_context=how)
        print([each.tolist() for each in loader], flush=True)
"""
        project({"program.py": text})
        run = start(*MODULE, "program.py")
        assert run.stdout == b"[[0.0, 2.0, 4.0, 6.0], [8.0, 10.0, 12.0, 14.0]]\n" * 2
        assert run.returncode == 0
        assert run.stderr.startswith(HELLO % b"program.py" + NOTHING)
        assert run.stderr.count(b"amplint run") == 2

    def test_ranks(self, project: Write) -> None:
        text = """\
import sys
import torch

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
torch.distributed.destroy_process_group()
sys.stdout.write(f"{sys.argv[1:]}\\n")  # at once
"""
        root = project({"program.py": text})
        launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
        (root / "out").mkdir()
        done = start(*launch, "-m", "amplint", "run", "--report", "out/report.json", "program.py", "--lr", "1")
        assert (done.returncode, done.stdout) == (0, b"['--lr', '1']\n" * 2), done.stderr
        assert done.stderr.count(HELLO % b"program.py") == done.stderr.count(b"executes") == 1
        for rank in (b"0", b"1"):
            assert b"[rank %s] amplint run: " % rank in done.stderr
        assert sorted(each.name for each in (root / "out").iterdir()) == ["report.rank0.json", "report.rank1.json"]
