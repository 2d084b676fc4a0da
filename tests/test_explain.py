"""`amplint explain`: what torch prints leads to the rules, whatever stands round it, and nothing else does."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint.explain.finding import find
from amplint.explain.messages import Text, known, leading_to, plain
from amplint.explain.patterns import literals
from amplint.explain.reading import Log, decode, place_of
from amplint.explain.show import list_text
from amplint.report.rules_doc import proofs
from amplint.rules import all_rules
from tests.conftest import Ran
from tests.explaining import programs
from tests.explaining.programs import PROGRAMS
from tests.explaining.sources import LIBRARIES, in_binary, prints, torch_file

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

ROOT = Path(__file__).parents[1]
LOGS = sorted((ROOT / "tests" / "explaining" / "logs").iterdir())
UNSCALE = "unscale_() has already been called on this optimizer since the last update()."
# What a program on a CPU can't show: symptoms, other libraries, and CUDA.
NOT_SHOWN = {
    "loss-nan-at-once",
    "loss-nan-later",
    "nan-in-evaluation",
    "scale-collapses",
    "scale-at-minimum",
    "overflow-skipped",
    "does-not-learn",
    "worse-than-float32",
    "slower-with-amp",
    "worse-after-resume",
    "transformers-fp16-and-bf16",
    "transformers-removed-arguments",
    "fp16-needs-an-accelerator",
    "lightning-precision",
    "lightning-bf16-with-scaler",
    "clipping-with-fused-optimizer",
    "prepared-model-pickled",
    "cuda-without-bfloat16",
    "unscale-without-kernel",
}


def ids(text: str) -> list[str]:
    return [hit.message.id for hit in find(text).hits]


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What the programs print, by their names."""
    command = [sys.executable, "-m", "tests.explaining.programs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


class TestTheTable:
    def test_ids_are_unique_and_rules_exist(self) -> None:
        names = [each.id for each in known()]
        assert len(names) == len(set(names)) > 60
        for message in known():
            assert message.causes, message.id
            assert message.says or message.asked, message.id
            assert set(message.codes) <= all_rules().keys(), message.id

    def test_no_wording_stands_twice(self) -> None:
        texts = [text.text for message in known() for text in message.says]
        assert len(texts) == len(set(texts))

    @pytest.mark.parametrize("message", known(), ids=lambda each: each.id)
    def test_changes_are_programs_before_and_after(self, message: Any) -> None:
        for cause in message.causes:
            assert all(line[:1] in (" ", "-", "+") for line in cause.change.split("\n") if line)
            for code in (cause.before, cause.after):
                ast.parse(textwrap.dedent(_whole(code)))
            assert not cause.change or cause.before != cause.after

    def test_every_origin_is_known(self) -> None:
        origins = {text.origin for message in known() for text in message.says if not text.origin.startswith("torch/")}
        assert origins <= {"libtorch", "cuda", "python", "earlier", "apex", "scripts", *LIBRARIES}

    def test_what_torch_prints_is_in_torch(self, printed: dict[str, str]) -> None:
        """Each wording of this release's is in its sources, or a program has made it print it."""
        shown = {each for text in printed.values() for hit in find(text).hits if (each := hit.text)}
        for text in (each for message in known() for each in message.says):
            if text.origin.startswith("torch/"):
                assert text in shown or prints(text.text, torch_file(text.origin)), text
            elif text.origin == "libtorch":
                assert text in shown or all(map(in_binary, literals(text.text))), text

    def test_what_only_earlier_releases_print_is_not_in_torch(self) -> None:
        files = ["torch/amp/grad_scaler.py", "torch/amp/autocast_mode.py", "torch/cuda/amp/autocast_mode.py"]
        texts = [each for file in files for each in torch_file(file)]
        for text in (each for message in known() for each in message.says if each.origin == "earlier"):
            assert not prints(text.text, texts), text
            assert any(number.isdigit() for number in text.releases.split("torch ")[1]), text

    def test_every_message_that_a_cpu_can_show_has_a_program(self) -> None:
        assert {each.id for each in known()} - {message for message, _ in PROGRAMS} == NOT_SHOWN


def _whole(code: str) -> str:
    """Code as a program: a statement that ends in a colon gets a body."""
    return f"{code}\n{' ' * 99}..." if code.rstrip().endswith(":") else code


# A message that is only printed has no traceback, and in that of a simulated device there are amplint's own frames.
_WITH_A_PLACE = [each for _, each in PROGRAMS if each not in (programs.loss_nan, programs.bce_on_cuda)]


class TestWhatTorchPrints:
    @pytest.mark.parametrize(("message", "program"), PROGRAMS, ids=lambda each: getattr(each, "__name__", each))
    def test_leads_to_its_message_and_to_no_other(
        self, printed: dict[str, str], message: str, program: Callable[[], object]
    ) -> None:
        assert ids(printed[program.__name__]) == [message]

    @pytest.mark.parametrize("program", _WITH_A_PLACE)
    def test_comes_from_the_programs_own_line(self, printed: dict[str, str], program: Callable[[], object]) -> None:
        first = program.__code__.co_firstlineno
        (hit,) = find(printed[program.__name__]).hits
        place = place_of(list(hit.stack))
        assert place is not None
        assert place.path == programs.__file__ or place.path.endswith("tests/explaining/programs.py")
        # `Step.backward` raises for some of them.
        assert first < place.row < first + 25 or place.source == "self.scaler.scale(loss).backward()"

    @pytest.mark.parametrize(("message", "program"), PROGRAMS, ids=lambda each: getattr(each, "__name__", each))
    @pytest.mark.parametrize("width", [40, 79])
    def test_wrapped_anywhere(
        self, printed: dict[str, str], message: str, program: Callable[[], object], width: int
    ) -> None:
        lines = printed[program.__name__].splitlines()
        cut = [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]
        assert ids("\n".join(cut)) == [message]

    @pytest.mark.parametrize(("message", "program"), PROGRAMS, ids=lambda each: getattr(each, "__name__", each))
    def test_alone(self, printed: dict[str, str], message: str, program: Callable[[], object]) -> None:
        """The last line, as one pastes it; for a warning, the line that has the message."""
        lines = printed[program.__name__].splitlines()
        said = [line for line in lines if re.match(r"(\S+:\d+: )?\w+(Error|Warning): |Loss", line)]
        assert message in ids(said[-1])

    # What fixtures say themselves, and what is said of many other things too.
    NOT_OURS = (
        "diverge",
        "gradient is not finite",
        "gradients are not finite",
        "gradients explode",
        "exploding gradients",
        "gradients exploded",
        "bad gradient",
        "different weights",
        "it does not learn",
        "name 'clip_grad' is not defined",
        "state_dict to be dict-like",
        "Can't call numpy() on Tensor that requires grad",
        "'forward'",
        "cannot convert float NaN to integer",
        "evaluation gives NaN",
    )

    @pytest.mark.parametrize("code", proofs())
    def test_what_the_fixtures_raise_leads_to_their_rule(self, code: str) -> None:
        for proof in proofs()[code]:
            kind, _, said = proof["before"].partition(": ")
            if said and kind.endswith(("Error", "Warning")) and not any(each in said for each in self.NOT_OURS):
                hits = find(proof["before"]).hits
                assert any(code in hit.message.codes for hit in hits), proof["before"]


TRACEBACK = """\
Traceback (most recent call last):
  File "/home/user/project/train.py", line 31, in <module>
    train()
  File "/home/user/project/train.py", line 27, in train
    scaler.unscale_(optimizer)
  File "/opt/conda/lib/python3.11/site-packages/torch/amp/grad_scaler.py", line 342, in unscale_
    raise RuntimeError(
RuntimeError: unscale_() has already been called on this optimizer since the last update().
"""


def _each(prefix: str, text: str = TRACEBACK) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


class TestWhatStandsRoundIt:
    @pytest.mark.parametrize(
        "text",
        [
            TRACEBACK,
            TRACEBACK.replace("\n", "\r\n"),
            TRACEBACK.replace("\n", "\r"),
            _each("[rank3]: "),
            _each("[1,0]<stderr>:"),
            _each("3: "),
            _each("(RayTrainWorker pid=4711, ip=10.0.0.1) "),
            _each("trainer-1  | "),
            _each("2026-03-01 10:00:00,123 ERROR "),
            _each("[2026-03-01T10:00:00.123456Z] "),
            _each("2026-03-01 10:00:00.123 | ERROR    | "),
            _each("10:00:00 "),
            _each("Mar  1 10:00:00 node7 train[4711]: "),
            _each("E0301 10:00:00.123456 4711 run.py:33] "),
            _each("> "),
            _each("\x1b[31m", TRACEBACK.replace("\n", "\x1b[0m\n")),
            "epoch 3:  12%|█▏        | 12/100 [00:01<00:09]\r" + TRACEBACK,
            json.dumps({"severity": "ERROR", "message": TRACEBACK}),
            TRACEBACK.replace("  File", "\u2502   File"),
            "".join(f"│ {line:<95} │\n" for line in TRACEBACK.splitlines()),
        ],
    )
    def test_the_message_and_its_place(self, text: str) -> None:
        (hit,) = find(text).hits
        place = place_of(list(hit.stack))
        assert (hit.message.id, hit.times) == ("unscale-twice", 1)
        assert place is not None
        assert (place.path, place.row) == ("/home/user/project/train.py", 27)

    @pytest.mark.parametrize(
        ("text", "path", "row"),
        [
            (
                "C:\\Users\\me\\train.py:12: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. "
                "Please use `torch.amp.autocast('cuda', args...)` instead.\n  with autocast():\n",
                "C:\\Users\\me\\train.py",
                12,
            ),
            (
                'Traceback (most recent call last):\n  File "C:\\new\\train.py", line 9, in <module>\n    step(o)\n'
                '  File "C:\\Python311\\Lib\\site-packages\\torch\\amp\\grad_scaler.py", line 412, in step\n'
                "    raise RuntimeError(\nRuntimeError: step() has already been called since the last update().\n",
                "C:\\new\\train.py",
                9,
            ),
            (
                "---------------------------------------------------------------------------\n"
                "RuntimeError                              Traceback (most recent call last)\n"
                "File ~/project/train.py:27, in train()\n     25     loss = step(x)\n---> 27     scaler.step(o)\n\n"
                "File /opt/conda/lib/python3.11/site-packages/torch/amp/grad_scaler.py:412, in GradScaler.step(...)\n"
                "    411 if optimizer_state['stage'] is OptState.STEPPED:\n"
                "RuntimeError: step() has already been called since the last update().\n",
                "~/project/train.py",
                27,
            ),
            (
                "╭──── Traceback (most recent call last) ────╮\n│ /x/train.py:27 in train                   │\n"
                + "│   26     loss = f(x)                       │\n" * 8
                + "│ /o/site-packages/torch/amp/grad_scaler.py:412 in step │\n"
                + "│ ❱ 412             raise RuntimeError(      │\n╰───────────────────────────────────────────╯\n"
                + "RuntimeError: step() has already been called since the last update().\n",
                "/x/train.py",
                27,
            ),
            (
                "train.py:27: in train\n    scaler.step(o)\n"
                "/opt/conda/lib/python3.11/site-packages/torch/amp/grad_scaler.py:412: in step\n    raise Error(\n"
                "E   RuntimeError: step() has already been called since the last update().\n",
                "train.py",
                27,
            ),
        ],
    )
    def test_places_in_other_forms(self, text: str, path: str, row: int) -> None:
        (hit,) = find(text).hits
        place = place_of(list(hit.stack))
        assert place is not None
        assert (place.path, place.row) == (path, row)

    def test_a_message_behind_another_traceback_has_no_place(self) -> None:
        text = (
            'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\nValueError: no\n'
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n"
        )
        (hit,) = find(text).hits
        assert (hit.message.id, hit.stack) == ("overflow-skipped", ())

    def test_a_frame_of_the_users_is_nearer_than_a_librarys(self) -> None:
        text = TRACEBACK.replace(
            "/opt/conda", '/x/site-packages/accelerate/a.py", line 3, in f\n    g()\n  File "/opt/conda'
        )
        (hit,) = find(text).hits
        place = place_of(list(hit.stack))
        assert place is not None
        assert place.path == "/home/user/project/train.py"
        theirs = place_of([each for each in hit.stack if each.is_theirs])
        assert theirs is not None
        assert "accelerate" in theirs.path

    def test_encodings(self) -> None:
        assert ids(decode(TRACEBACK.encode("utf-16"))) == ["unscale-twice"]
        assert ids(decode(TRACEBACK.encode("utf-8-sig"))) == ["unscale-twice"]
        assert ids(decode(b"\xff\xfe"[::-1] + TRACEBACK.encode("utf-16-be"))) == ["unscale-twice"]
        assert ids(decode(b"caf\xe9\n" + TRACEBACK.encode())) == ["unscale-twice"]

    def test_all_messages_of_a_log(self) -> None:
        log = LOGS[0].read_text("utf-8") + LOGS[1].read_text("utf-8")
        overflow = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}\n"
        text = log + "".join(overflow.format(2.0**power) for power in range(15, 3, -1)) + log + TRACEBACK
        found = [(hit.message.id, hit.times) for hit in find(text).hits]
        assert found == [("overflow-skipped", 12), ("unscale-twice", 1)]

    def test_a_long_log_takes_seconds(self) -> None:
        text = "".join(each.read_text("utf-8") for each in LOGS) * 100 + TRACEBACK
        assert len(text) > 4_000_000
        start = time.process_time()
        assert ids(text) == ["unscale-twice"]
        assert time.process_time() - start < 20


WORDINGS = [
    ("dtype-mismatch", "RuntimeError: Expected object of scalar type Float but got scalar type Half for argument #2"),
    ("dtype-mismatch", "RuntimeError: expected scalar type Half but found Float"),
    ("dtype-mismatch", "expected scalar type BFloat16 but found Float"),
    ("dtype-mismatch", "expected scalar type at::Half but found float"),
    (
        "dtype-mismatch",
        "Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
    ),
    ("dtype-mismatch", "Input type (torch.HalfTensor) and bias type (torch.FloatTensor) should be the same"),
    ("dtype-mismatch", "Input type (float) and bias type (c10::Half) should be the same"),
    ("dtype-mismatch", "RuntimeError: mat1 and mat2 must have the same dtype"),
    ("dtype-mismatch", "mat1 and mat2 must have the same dtype, but got BFloat16 and Float"),
    ("half-constant-overflow", "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+09"),
    ("half-constant-overflow", "value cannot be converted to type at::BFloat16 without overflow"),
    ("not-implemented-for-half", "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'"),
    ("not-implemented-for-half", "\"addcmul_cuda\" not implemented for 'Half'"),
    ("not-implemented-for-half", "\"LayerNormKernelImpl\" not implemented for 'Half'"),
    ("not-implemented-for-half", "\u201cslow_conv2d_cpu\u201d not implemented for \u2018Half\u2019"),
    (
        "fft-in-half",
        "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but got a "
        "signal size of[50]",
    ),
    ("autocast-without-cuda", "User provided device_type of 'cuda', but CUDA is not available. Disabling"),
    ("autocast-without-cuda", "torch.cuda.amp.autocast only affects CUDA ops, but CUDA is not available.  Disabling."),
    ("unsupported-autocast-dtype", "In CPU autocast, but the target dtype is not supported. Disabling autocast."),
    (
        "unsupported-autocast-dtype",
        "UserWarning: In MPS autocast, but the target dtype is not supported. Disabling autocast.",
    ),
    ("invalid-device-type", "User specified an unsupported autocast device_type 'cuda:0'"),
    ("autocast-enabled-type", "TypeError: enabled must be a bool (got int)"),
    ("autocast-without-device-type", "TypeError: __init__() missing 1 required positional argument: 'device_type'"),
    ("no-such-amp-argument", "TypeError: __init__() got an unexpected keyword argument 'device_type'"),
    ("no-such-amp-name", "ImportError: cannot import name 'GradScaler' from 'torch.amp' (/x/torch/amp/__init__.py)"),
    (
        "no-such-scaler-attribute",
        "AttributeError: 'GradScaler' object has no attribute 'unscale'. Did you mean: 'unscale_'?",
    ),
    (
        "overflow-skipped",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 262144, reducing to 131072",
    ),
    ("overflow-skipped", "Gradient overflow.  Skipping step, loss scaler 1 reducing loss scale to 1.52587890625e-05"),
    ("loss-not-finite", "Loss is nan, stopping training"),
    ("loss-not-finite", "Loss is inf, stopping training"),
    ("loss-not-finite", "Loss is tensor(nan, device='cuda:0', grad_fn=<DivBackward0>), stopping training"),
    ("loss-not-finite", "step 12 loss=nan lr=1e-3"),
    ("loss-not-finite", "{'loss': nan, 'learning_rate': 1e-3}"),
    ("gradients-not-finite", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-3}"),
    ("scale-collapses", "step 900 loss_scale: 0.0"),
    (
        "scale-collapses",
        "Loss nan   LearningRate 0.001   Epoch: 0   Global Step: 20   Fp16 Grad Scale:  0   Required: 194",
    ),
    (
        "loss-not-finite",
        "Loss nan   LearningRate 0.001   Epoch: 0   Global Step: 20   Fp16 Grad Scale:  0   Required: 194",
    ),
    ("loss-not-finite", "RuntimeError:  [!] NaN loss with decoder_loss."),
    ("gradients-not-finite", "WARNING: The grad norm is nan. Skipping updating the model."),
    ("anomaly", "RuntimeError: Function 'SoftmaxBackward0' returned nan values in its 0th output."),
    ("scheduler-before-optimizer", "UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`."),
    (
        "lightning-precision",
        "precision=16` is supported for historical reasons but its usage is discouraged. "
        "Please set your precision to 16-mixed instead!",
    ),
    ("unscale-without-kernel", "    assert outputs.is_cuda or outputs.device.type == 'xla'"),
    (
        "unscale-without-kernel",
        "Could not run 'aten::_amp_foreach_non_finite_check_and_unscale_' with arguments from the 'CPU' backend.",
    ),
    # A part of what was printed, as one remembers it.
    ("unscale-twice", "unscale_() has already been called"),
    ("unscale-fp16-gradients", "attempting to unscale fp16"),
    ("scale-is-none", "but _scale is None"),
]


@pytest.mark.parametrize(("message", "text"), WORDINGS)
def test_wordings(message: str, text: str) -> None:
    assert message in ids(text)


ALIKE = [
    "RuntimeError: expected scalar type Double but found Float",
    "RuntimeError: expected scalar type Byte but found Float",
    "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x2)",
    "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input is dense",
    "RuntimeError: Found dtype Double but expected Float",
    "RuntimeError: \"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'",
    "NotImplementedError: saving is not implemented for half of the formats",
    "RuntimeError: value cannot be converted to type int without overflow",
    "RuntimeError: value cannot be converted to type float without overflow",
    "TypeError: Net.__init__() got an unexpected keyword argument 'device_type'",
    "TypeError: Net.__init__() missing 1 required positional argument: 'device_type'",
    "TypeError: Net.__init__() got an unexpected keyword argument 'init_scale'",
    "AttributeError: 'StandardScaler' object has no attribute 'unscale_'",
    "AttributeError: 'NoneType' object has no attribute 'scale'",
    "AttributeError: 'NoneType' object has no attribute 'step'",
    "AttributeError: module 'torch' has no attribute 'compile'",
    "ImportError: cannot import name 'autocast' from 'mytools'",
    "ImportError: cannot import name 'GradScaler' from 'fastai.callback'",
    "NameError: name 'scaler' is not defined",
    "DeprecationWarning: np.bool8 is deprecated. Please use np.bool_ instead.",
    "UserWarning: torch.range is deprecated and will be removed in a future release",
    "ModuleNotFoundError: No module named 'apexcharts'",
    "best loss: inf",
    "val_loss improved from inf to 0.53",
    "min_loss=inf patience=3",
    "info loss: 0.1234 inf_count=0",
    "loss: nanosecond timer",
    'deepspeed config: {"loss_scale": 0, "initial_scale_power": 16}',
    "scale: 65536.0 lr_scale: 0.5",
    "grad_norm: 0.0 grad norm 12.3",
    "AssertionError: No checks were recorded for this optimizer",
    "RuntimeError: CUDA out of memory.",
]


class TestNothingElse:
    @pytest.mark.parametrize("text", ALIKE)
    def test_messages_that_look_alike(self, text: str) -> None:
        assert ids(text) == []
        assert ids(f"{TRACEBACK.rpartition('RuntimeError')[0]}{text}\n") == []

    @pytest.mark.parametrize("log", LOGS, ids=lambda each: each.stem)
    def test_logs_without_trouble(self, log: Path) -> None:
        assert ids(log.read_text("utf-8")) == []

    def test_amplints_own_help(self, amplint: Run) -> None:
        assert ids(amplint("--help").out + amplint("verify", "--help").out) == []

    @pytest.mark.parametrize(
        "text", ["hello", "x", "how do I install torch?", "is my code right?", "nan", "scale", "é" * 50]
    )
    def test_questions_that_say_nothing(self, text: str) -> None:
        assert ids(text) == []


QUESTIONS = [
    ("my loss is nan", "loss-not-finite"),
    ("Loss becomes NaN after some epochs", "loss-nan-later"),
    ("loss nan at the first iteration", "loss-nan-at-once"),
    ("nan only in validation", "nan-in-evaluation"),
    ("the loss scale goes to 0", "scale-collapses"),
    ("scale keeps decreasing", "scale-collapses"),
    ("accuracy stays flat with amp", "does-not-learn"),
    ("model is not learning", "does-not-learn"),
    ("loss doesn't decrease", "does-not-learn"),
    ("training is slower with AMP", "slower-with-amp"),
    ("autocast uses no less memory", "slower-with-amp"),
    ("accuracy is worse with fp16 than fp32", "worse-than-float32"),
    ("loss jumps after resuming from a checkpoint", "worse-after-resume"),
    ("grad norm is inf", "gradients-not-finite"),
]


@pytest.mark.parametrize(("question", "message"), QUESTIONS)
def test_questions(question: str, message: str) -> None:
    assert message in ids(question)


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
        assert ran.out.endswith("\nNext: amplint check FILE\n")
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
        assert "In train.py amplint finds:\n  train.py:10:9: AMP405 [*] gradients are unscaled a second time" in ran.out
        assert ran.out.endswith("Next: amplint check train.py\nNext: amplint check --diff train.py\n")

    def test_the_file_of_a_log_of_another_machine(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        project({"src/train.py": self.BAD, "train.py": "x = 1\n"})
        stdin(self.traceback("/workspace/job/src/train.py"))
        assert "In src/train.py amplint finds:" in amplint("explain").out
        # Another file of that name is not the one: the line is another.
        stdin(self.traceback("/workspace/job/src/train.py", row=9))
        assert "In src/train.py amplint finds:" in amplint("explain").out
        stdin(self.traceback("/workspace/job/src/train.py", row=3).replace("line 5", "line 4"))
        ran = amplint("explain")
        assert "amplint finds" not in ran.out
        assert ran.out.endswith("Next: amplint check /workspace/job/src/train.py\n")

    def test_nothing_found_in_the_file(
        self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]
    ) -> None:
        root = project({"train.py": self.BAD.replace("        scaler.unscale_(optimizer)\n", "", 1)})
        stdin(self.traceback(f"{root}/train.py"))
        out = amplint("explain").out
        assert "None of AMP404, AMP405, AMP411, AMP421, AMP601, AMP602 finds anything in train.py." in out
        assert out.endswith("Next: amplint check .  (the cause may stand in another file)\n")

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
        assert "train.py:10:9: AMP407 the gradients were cleared" in out
        assert out.endswith("Next: amplint check train.py\nNext: amplint check --diff --unsafe-fixes train.py\n")

    def test_a_rule_that_is_off(self, project: Write, amplint: Run, stdin: Callable[[str | bytes], None]) -> None:
        code = self.BAD.replace("        scaler.unscale_(optimizer)\n", "") + "        scheduler.step()\n"
        project({"train.py": code.replace("batches):", "batches, scheduler):")})
        stdin(
            "train.py:11: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch\n"
            "  scheduler.step()\n"
        )
        out = amplint("explain").out
        assert "train.py:11:9: AMP412" in out
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
        assert document["next"] == ["amplint check train.py", "amplint check --diff train.py"]
        nothing = json.loads(amplint("explain", "--output-format=json", "inf checks of the optimizer were made").out)
        assert nothing["messages"] == []
        assert "no-inf-checks-for-optimizer" in nothing["nearest"]

    def test_nearest(self, project: Write, amplint: Run) -> None:
        project({})
        ran = amplint("explain", "no inf check was recorded for my optimizer")
        assert ran.code == 1
        assert ran.out.startswith("No message that amplint knows is in this text.\n\nThe nearest that it knows, which")
        assert "  No inf checks were recorded for this optimizer. (no-inf-checks-for-optimizer)\n" in ran.out
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
        monkeypatch.setattr("amplint.explain.reading.LARGEST", 100)
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


def test_rules_know_their_messages() -> None:
    assert [each.id for each in leading_to("AMP405")] == ["unscale-twice"]
    assert [each.id for each in leading_to("AMP304")] == ["unsafe-bce"]


def test_plain_wordings() -> None:
    assert plain("{start}a {} b '{n}'{end}") == "a ... b '...'"
    assert Text("a", "python", "all").text == "a"


def test_the_line_of_a_message_that_is_wrapped() -> None:
    log = Log("one\ntwo unscale_() has\nalready been called on this optimizer since the last update().\nthree")
    assert log.line_of(log.squeezed.index("unscale_")) == 1
