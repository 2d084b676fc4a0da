"""The command `explain`, as one uses it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.explain.messages import known
from amplint.explain.output import list_text
from tests import ROOT
from tests.conftest import Ran
from tests.explaining import TRACEBACK

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

RUN = "  (executes it, and names the cause)"
UNSCALE = "unscale_() has already been called on this optimizer since the last update()."


class TestTheCommand:
    BAD = """\
import torch


def train(model, optimizer, scaler, batches):
    for x, y in batches:
        with torch.autocast("cuda"):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""

    def traceback(self, path: str, row: int = 10) -> str:
        text = TRACEBACK.replace("/home/user/project/train.py", path).replace("line 27", f"line {row}")
        return text.replace("line 31", "line 5").replace("    train()\n", "    for x, y in batches:\n")

    @pytest.fixture
    def stdin(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
        def feed(data: str | bytes) -> None:
            given = data.encode() if isinstance(data, str) else data
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))

        return feed

    def test_exit_codes(self, project: Write, amplint: Run) -> None:
        project({})
        assert amplint("explain", UNSCALE).code == 0
        assert amplint("explain", "nothing of the kind").code == 1
        assert amplint("explain", "").code == 2
        assert amplint("explain", "x", "--list").code == 2
        assert amplint("explain", "--nonsense").code == 2

    def test_a_file(self, project: Write, amplint: Run) -> None:
        project({"log.txt": TRACEBACK, "other.log": TRACEBACK.encode("utf-16"), "empty": ""})
        assert "AMP405 repeated-unscale" in amplint("explain", "log.txt").out
        assert amplint("explain", "log.txt").out == amplint("explain", "other.log").out
        assert amplint("explain", "empty") == (2, "", "amplint: error: the text is empty\n")

    def test_only_words_are_a_question(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        log = "done, accuracy stays at 0.98, amp off\n"
        project({"log.txt": log})
        stdin(log)
        assert amplint("explain").code == amplint("explain", "log.txt").code == 1
        assert amplint("explain", log).code == 0

    def test_a_pipe_from_a_process(self, project: Write, amplint: Run) -> None:
        """As in `amplint explain <(cat log.txt)`."""
        project({})
        source, sink = os.pipe()
        os.write(sink, TRACEBACK.encode())
        os.close(sink)
        assert "AMP405 repeated-unscale" in amplint("explain", f"/dev/fd/{source}").out
        os.close(source)

    def test_what_never_ends(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        project({})
        monkeypatch.setattr("amplint.explain.log_reader.LARGEST", 100)
        ran = amplint("explain", "/dev/zero")
        assert ran.code == 2
        assert ran.err.startswith("amplint: error: the text has more than")

    @pytest.mark.parametrize("path", ["lgo.txt", "LOG.TXT", "slurm-1.out", "a.err", "train.py", "logs/today", "/no"])
    def test_a_file_that_is_not_there(self, project: Write, amplint: Run, path: str) -> None:
        project({})
        assert amplint("explain", path) == (2, "", f"amplint: error: {path}: No such file or directory\n")

    def test_what_is_no_path(self, project: Write, amplint: Run) -> None:
        project({"src/a.py": ""})
        assert amplint("explain", "src/") == (2, "", "amplint: error: src/: Is a directory\n")
        for words in (["src"], ["no such lgo.txt"], ["look", "in", "lgo.txt"], ["a / b"], ["x" * 5000]):
            ran = amplint("explain", *words)
            assert (ran.code, ran.err) == (1, "")
        assert amplint("explain", "\x1b[2J.txt").err.count("\n") == 1
        assert "\x1b" not in amplint("explain", "\x1b[2J.txt").err

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, project: Write, amplint: Run) -> None:
        root = project({"log.txt": TRACEBACK})
        (root / "log.txt").chmod(0)
        assert amplint("explain", "log.txt") == (2, "", "amplint: error: log.txt: Permission denied\n")

    def test_a_rule_is_told_where_its_page_is(self, project: Write, amplint: Run) -> None:
        project({})
        ran = amplint("explain", "amp401")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == "amplint: error: AMP401 is a rule, not a message: `amplint rule AMP401` prints its page\n"

    def test_words_need_no_quotes(self, project: Write, amplint: Run) -> None:
        project({})
        assert amplint("explain", *UNSCALE.split()) == amplint("explain", UNSCALE)

    def test_what_is_said(self, project: Write, amplint: Run) -> None:
        project({})
        ran = amplint("explain", f"RuntimeError: {UNSCALE}")
        assert ran.err == ""
        assert ran.out.startswith(f"{UNSCALE}\n  [torch 1.6 and later]\n\n")
        assert "Found by AMP405 repeated-unscale." in ran.out
        assert "       -scaler.unscale_(optimizer)\n" in ran.out
        assert ran.out.endswith(f"\nNext: amplint check FILE\nNext: amplint run train.py{RUN}\n")
        assert max(map(len, ran.out.splitlines())) <= 100

    @pytest.mark.parametrize("dash", [[], ["-"]])
    def test_standard_input_and_the_file_that_is_here(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None], dash: list[str]
    ) -> None:
        root = project({"train.py": self.BAD})
        stdin(self.traceback(f"{root}/train.py"))
        ran = amplint("explain", *dash)
        assert (ran.code, ran.err) == (0, "")
        assert f"comes from {root}/train.py:10" in ran.out
        assert "In train.py amplint finds:\n  train.py:10:9: AMP405 [*] error: " in ran.out
        assert ran.out.endswith(
            f"Next: amplint check train.py\nNext: amplint check --diff train.py\nNext: amplint run train.py{RUN}\n"
        )

    def test_the_file_of_a_log_of_another_machine(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        project({"src/train.py": self.BAD, "train.py": "x = 1\n"})
        stdin(self.traceback("/workspace/job/src/train.py"))
        assert "In src/train.py amplint finds:" in amplint("explain").out
        # Another file of that name is not the one: the line is another.
        stdin(self.traceback("/workspace/job/src/train.py", row=9))
        assert "In src/train.py amplint finds:" in amplint("explain").out
        path = "/workspace/job/src/train.py"
        stdin(self.traceback(path, row=3).replace("line 5", "line 4"))
        ran = amplint("explain")
        assert "amplint finds" not in ran.out
        assert ran.out.endswith(f"Next: amplint check {path}\nNext: amplint run {path}{RUN}\n")

    def test_nothing_found_in_the_file(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        root = project({"train.py": self.BAD.replace("        scaler.unscale_(optimizer)\n", "", 1)})
        stdin(self.traceback(f"{root}/train.py"))
        out = amplint("explain").out
        assert "None of AMP404, AMP405, AMP411, AMP421, AMP601, AMP602 finds anything in train.py." in out
        elsewhere = "Next: amplint check .  (the cause may be in another file)\n"
        assert out.endswith(f"{elsewhere}Next: amplint run train.py{RUN}\n")

    def test_an_unsafe_fix_is_shown_as_one(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        code = self.BAD.replace("        scaler.unscale_(optimizer)\n", "")
        project({"train.py": code.replace("        scaler.step", "        optimizer.zero_grad()\n        scaler.step")})
        stdin(
            'Traceback (most recent call last):\n  File "train.py", line 10, in train\n    scaler.step(optimizer)\n'
            "AssertionError: No inf checks were recorded for this optimizer.\n"
        )
        out = amplint("explain").out
        assert "train.py:10:9: AMP407 error: line 9 clears the gradients" in out
        diff = "Next: amplint check train.py\nNext: amplint check --diff --unsafe-fixes train.py\n"
        assert out.endswith(f"{diff}Next: amplint run train.py{RUN}\n")

    def test_a_run_is_offered_where_it_shows_more(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        project({"bin/start it.py": self.BAD})
        for text in ("loss is nan after some epochs", "gradient overflow. skipping step, loss scaler 0 reducing"):
            assert amplint("explain", text).out.endswith(f"Next: amplint run train.py{RUN}\n")
        deprecated = "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated."
        assert "amplint run" not in amplint("explain", deprecated).out
        assert "amplint run" not in amplint("explain", "nothing of the kind").out
        # The program is the one in which the traceback begins, and not the file that raises.
        stdin(
            'Traceback (most recent call last):\n  File "bin/start it.py", line 13, in <module>\n    engine.train()\n'
            '  File "/x/lib/python3.11/runpy.py", line 1, in run\n    run()\n'
            '  File "/x/engine.py", line 10, in train\n    scaler.step(optimizer)\n'
            "AssertionError: No inf checks were recorded for this optimizer.\n"
        )
        assert amplint("explain").out.endswith(f"Next: amplint run 'bin/start it.py'{RUN}\n")

    def test_a_rule_that_is_off(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        code = self.BAD.replace("        scaler.unscale_(optimizer)\n", "") + "        scheduler.step()\n"
        project({"train.py": code.replace("batches):", "batches, scheduler):")})
        stdin(
            "train.py:12: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch\n"
            "  scheduler.step()\n"
        )
        out = amplint("explain").out
        assert "train.py:12:9: AMP412" in out
        assert "Next: amplint check --extend-select AMP412 train.py\n" in out

    def test_nothing_is_run(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        root = project({"train.py": "open('ran', 'w')\n" + self.BAD})
        stdin(self.traceback(f"{root}/train.py", row=11))
        assert "AMP405" in amplint("explain").out
        assert not (root / "ran").exists()

    def test_files_that_are_not_read(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        root = project({"train.txt": self.BAD})
        os.mkfifo(root / "pipe.py")
        for path in (f"{root}/train.txt", "//host/share/train.py", "\\\\host\\share\\train.py", f"{root}/pipe.py"):
            stdin(self.traceback(path))
            ran = amplint("explain")
            assert (ran.code, "amplint finds" in ran.out) == (0, False)

    def test_a_file_with_an_error_of_syntax(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        root = project({"train.py": "def f(:\n    scaler.unscale_(optimizer)\n"})
        stdin(self.traceback(f"{root}/train.py", row=2))
        ran = amplint("explain")
        assert ran.code == 0
        assert "train.py:1:7: AMP001" in ran.out

    def test_json(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        root = project({"train.py": self.BAD})
        stdin(self.traceback(f"{root}/train.py"))
        document = json.loads(amplint("explain", "--output-format=json").out)
        (message,) = document["messages"]
        assert message["id"] == "unscale-twice"
        assert message["place"] == {"path": f"{root}/train.py", "row": 10}
        assert message["line"] == 8
        assert message["causes"][0]["rules"] == [{"code": "AMP405", "name": "repeated-unscale"}]
        assert message["causes"][0]["before"].count("unscale_") == 2
        assert message["causes"][0]["after"].count("unscale_") == 1
        (file,) = document["files"]
        assert [each["code"] for each in file["findings"]] == ["AMP405"]
        assert document["next"] == [
            "amplint check train.py",
            "amplint check --diff train.py",
            f"amplint run train.py{RUN}",
        ]

    NEAR = (
        (-0.6, "no-inf-checks-for-optimizer"),
        (-0.65, "several-optimizers"),
        (-0.7, "gtx-16"),
        (-0.9, "gan-not-finite"),
        (-0.99, "none"),
    )

    def test_not_sure(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """What it may be is explained, with how that differs."""
        project({})
        monkeypatch.setattr("amplint.explain.search.ranked", lambda _: list(self.NEAR))
        ran = amplint("explain", "checks of my optimizers with amp")
        document = json.loads(amplint("explain", "--output-format=json", "checks of my optimizers with amp").out)
        assert ran.code == 1
        assert ran.out.startswith("amplint is not sure which of these it is.")
        first, _, rest = ran.out.partition("\n2. GAN training with amp (several-optimizers)\n   if ")
        assert (
            "\n1. no inf check was recorded for my optimizer (no-inf-checks-for-optimizer)\n   if `scaler.step`"
            in first
        )
        assert "\n   a. " in first
        assert "\n   c. " in first
        assert "\n   d. " not in first
        assert "\n3. " in rest
        assert "\n4. " not in rest
        assert rest.endswith(
            "`amplint explain no-inf-checks-for-optimizer` prints all causes.\n\n"
            f"Next: amplint check --extend-select AMP510 FILE\nNext: amplint run train.py{RUN}\n"
        )
        assert document["messages"] == []
        assert [each["id"] for each in document["candidates"]] == [name for _, name in self.NEAR[:3]]

    def test_without_a_word_of_half_precision(
        self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project({})
        monkeypatch.setattr("amplint.explain.search.ranked", lambda _: list(self.NEAR))
        ran = amplint(
            "explain", "the checks of all my optimizers and schedulers do not do what I want them to do at all"
        )
        assert ran.out.startswith("The text doesn't say that mixed precision is on. Switch it off first")

    def test_a_log_of_a_loss_says_nothing_of_half_precision(self, project: Write, amplint: Run) -> None:
        """What scripts print with or without AMP is explained as what AMP may cause."""
        project({})
        log = "It is a detector with resnext101 as its backbone. Epoch 0, iteration 2: Loss is nan, stopping training"
        assert amplint("explain", log).out.startswith("The text doesn't say that mixed precision is on.")
        assert amplint("explain", f"fp16. {log}").out.startswith(f"fp16. {log}\n  [DeiT")

    def test_an_error_that_is_not_known(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        """Of an error about half precision its words say what it may be, and of any other nothing."""
        project({})
        error = "NotImplementedError: the fused gather of frobnicate has no path: bfloat16 is not supported yet"
        asked = amplint("explain", error)
        stdin(error)
        logged = amplint("explain")
        for ran in (asked, logged):
            assert ran.code == 1
            assert ran.out.startswith(
                "amplint does not know this error. By its words it may be this.\n\n1. half precision on"
            )
        assert "not-implemented-for-half" not in amplint("explain", error.replace("bfloat16", "int64")).out

    def test_the_name_of_a_message(self, project: Write, amplint: Run) -> None:
        project({})
        ran = amplint("explain", "loss-nan-later")
        assert ran.code == 0
        assert ran.out.startswith("Understood as: loss becomes NaN after some epochs (loss-nan-later)\n")

    def test_nothing_is_near(self, project: Write, amplint: Run) -> None:
        project({})
        far = amplint("explain", "Segmentation fault (core dumped)")
        assert "nearest" not in far.out
        assert "amplint explain --list" in far.out

    def test_list(self, project: Write, amplint: Run) -> None:
        project({})
        ran = amplint("explain", "--list")
        assert (ran.code, ran.out) == (0, list_text(known()))
        assert "unscale-twice: AMP405, AMP404, AMP411, AMP421, AMP601, AMP602\n" in ran.out
        assert "{" not in ran.out.replace("{'loss'", "")
        listed = json.loads(amplint("explain", "--list", "--output-format=json").out)
        assert [each["id"] for each in listed] == [each.id for each in known()]

    def test_what_acts_on_a_terminal(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        project({})
        stdin("\x1b]0;x\x07Attempted step\x07 but _scale is None.\x9b2J \u202e")
        out = amplint("explain").out
        assert all(line.isprintable() for line in out.splitlines())
        stdin(self.traceback("/x/\x1b[2J\u202etrain.py"))
        assert all(line.isprintable() for line in amplint("explain").out.splitlines())

    def test_too_long_a_text(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project({})
        monkeypatch.setattr("amplint.explain.log_reader.LARGEST", 100)
        stdin("x" * 101)
        ran = amplint("explain")
        assert ran.code == 2
        assert ran.err.startswith("amplint: error: the text has more than")

    def test_empty_input(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        project({})
        for given in ("", " \n\r\n"):
            stdin(given)
            assert amplint("explain") == (2, "", "amplint: error: the text is empty\n")

    def test_a_terminal_is_not_waited_for(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        project({})
        stdin = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", stdin)
        assert amplint("explain").err.startswith("amplint: error: give a message, such as")

    @pytest.mark.parametrize(
        "data", [b"\x00" * 1000, b"\xff\xfe\xff", bytes(range(256)) * 20, b"(" * 5000, b"\n" * 9999]
    )
    def test_no_input_is_too_much(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None], data: bytes
    ) -> None:
        project({})
        stdin(data)
        assert amplint("explain").code in (1, 2)

    def test_a_program_piped_in(self, project: Write) -> None:
        """The whole way: a program that raises under the real torch, and its output into the command."""
        root = project({"train.py": PROGRAM})
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = f"{sys.executable} train.py 2>&1 | {sys.executable} -m amplint explain"
        done = subprocess.run(
            command, shell=True, cwd=root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        assert "AMP404 missing-update" in done.stdout
        assert "train.py:15:5: AMP404" in done.stdout


PROGRAM = """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")

for step in range(3):
    x, y = torch.ones(8, 4), torch.zeros(8, 2)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = torch.nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    print(f"step {step} loss {loss.item():.4f}")
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
"""


def test_rules_that_are_off_are_named_as_such_and_selected(amplint: Run) -> None:
    ran = amplint("explain", "RuntimeError: expected scalar type Half but found Float")
    assert "AMP209 manual-cast-under-autocast (off by default)" in " ".join(ran.out.split())
    assert re.search(r"^Next: amplint check --extend-select \S*AMP209\S* FILE$", ran.out, re.MULTILINE)


def test_whether_a_rule_is_off_is_said_by_the_program_alone() -> None:
    said = [text for each in known() for cause in each.causes for text in (cause.why, cause.do)]
    assert not [each for each in said if "off by default" in each]


def test_of_many_causes_the_likeliest_are_told_in_full(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project({})
    monkeypatch.setenv("COLUMNS", "120")
    text = "RuntimeError: expected scalar type Half but found Float"
    (message,) = (each for each in known() if each.id == "dtype-mismatch")
    short, long = amplint("explain", text).out, amplint("explain", "--all", text).out
    assert short.count("Found by") + short.count("No rule finds this.") == 3
    assert long.count("Found by") + long.count("No rule finds this.") == len(message.causes)
    assert all(f"{number}. {cause.sign}\n" in short for number, cause in enumerate(message.causes, 1))
    assert "--all` prints the other 12 in full" in short
    assert "--all" not in long
    assert len(short.splitlines()) < 50 < len(long.splitlines())
    assert amplint("explain", UNSCALE).out == amplint("explain", "--all", UNSCALE).out


def test_what_a_text_is_about_is_the_first_of_many_causes(project: Write, amplint: Run) -> None:
    project({})
    out = amplint("explain", "LSTM: RuntimeError: expected scalar type Half but found Float").out
    assert "\n    1. the op is of an RNN" in out
    assert "\n  1. An RNN, or a cell" in out


def test_where_a_message_has_many_causes_each_has_a_sign() -> None:
    for message in known():
        signs = {each.sign for each in message.causes}
        assert len(signs) == len(message.causes) if len(message.causes) > 7 else signs == {""}, message.id
        assert all(len(each) <= 90 for each in signs)
