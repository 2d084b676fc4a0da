"""What torch prints leads to its message, whatever stands round it, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.explain.log_reader import Log, decode, place_of
from amplint.explain.search import find
from tests.conftest import Ran, processor_time
from tests.explaining import LOGS, TRACEBACK, first, ids

Run = Callable[..., Ran]


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
        with processor_time(at_most=100):
            assert ids(text) == ["unscale-twice"]


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
    ("gradients-not-finite", "{'loss': 0.7, 'grad_norm': nan, 'learning_rate': 1e-3}"),
    ("loss-is-zero", "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-3}"),
    ("loss-is-zero", "{'loss': '0', 'grad_norm': 'nan', 'learning_rate': '1e-3'}"),
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
    ("norm-in-half", "RuntimeError: mixed dtype (CPU): expect input to have scalar type of BFloat16"),
    ("loss-not-finite", "best val loss inf train loss nan"),
    ("loss-not-finite", "TrainOutput(global_step=500, training_loss=nan, metrics={})"),
    ("scale-collapses", "step=900, loss_scale=0.0, lr=0.001"),
]
# What was printed, as one remembers it.
PARTS = [
    ("unscale-twice", "unscale_() has already been called"),
    ("unscale-fp16-gradients", "attempting to unscale fp16"),
    ("scale-is-none", "but _scale is None"),
]


@pytest.mark.parametrize(("message", "text"), WORDINGS)
@pytest.mark.parametrize("asked", [False, True])
def test_wordings(message: str, text: str, asked: bool) -> None:
    assert message in ids(text, asked=asked)


@pytest.mark.parametrize(("message", "text"), PARTS)
def test_parts_of_wordings(message: str, text: str) -> None:
    assert message in ids(text, asked=True)


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
    "RuntimeError: mixed dtype (CPU): all inputs must share same datatype.",
    "best loss: inf",
    "best val loss inf",
    "epoch 0 | best validation loss: inf | val loss: 0.43",
    "Lowest_eval loss = inf",
    "previous loss inf",
    "Namespace(batch_size=8, fp16=True, loss_scale=0.0, seed=1)",
    "args: Namespace(loss_scale=0.0)",
    "TrainingArguments(fp16=True, loss_scale=0.0, seed=1)",
    "loss_scale=0.0,",
    "val_loss improved from inf to 0.53",
    "min_loss=inf patience=3",
    "info loss: 0.1234 inf_count=0",
    "loss: nanosecond timer",
    'deepspeed config: {"loss_scale": 0, "initial_scale_power": 16}',
    "scale: 65536.0 lr_scale: 0.5",
    "grad_norm: 0.0 grad norm 12.3",
    "AssertionError: No checks were recorded for this optimizer",
    "RuntimeError: CUDA out of memory.",
    "Input type (torch.cuda.HalfTensor) and weight type (torch.HalfTensor) should be the same",
    "scaler.scale(loss).backward() says Found dtype Double but expected Float",
]


class TestNothingElse:
    @pytest.mark.parametrize("text", ALIKE)
    def test_messages_that_look_alike(self, text: str) -> None:
        assert ids(text) == ids(text, asked=True) == []
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
        assert ids(text, asked=True) == []

    @pytest.mark.parametrize(
        "text",
        [
            "done, accuracy stays at 0.98, amp off\n",
            "epoch 1 loss stays constant with amp\nepoch 2 loss stays constant with amp\n",
        ],
    )
    def test_a_short_log_is_no_question(self, text: str) -> None:
        assert ids(text) == []
        assert ids(text, asked=True) != []


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
    ("autocast uses no less memory", "memory-with-amp"),
    ("accuracy is worse with fp16 than fp32", "worse-than-float32"),
    ("loss jumps after resuming from a checkpoint", "worse-after-resume"),
    ("grad norm is inf", "gradients-not-finite"),
]


@pytest.mark.parametrize(("question", "message"), QUESTIONS)
def test_questions(question: str, message: str) -> None:
    assert message in ids(question, asked=True)


# What a text is about decides which of a message's causes comes first.
FIRST = [
    ("RuntimeError: expected scalar type Float but found Half in my custom CUDA op", "kernel of an extension"),
    ("RuntimeError: expected scalar type Half but found Float (deform_conv2d from mmcv)", "kernel of an extension"),
    ("torch.batch_norm: RuntimeError: expected scalar type Half but found Float", "A norm whose statistics"),
    (
        "RuntimeError: expected scalar type Half but found Float in the backward of my Function",
        "custom autograd Function",
    ),
    ("mat1 and mat2 must have the same dtype, but got Half and Float, only in validation", "region is not open"),
    ("RuntimeError: expected scalar type Half but found Float", "cast by hand"),
    ("Attempted unscale_ but _scale is None with lightning_fabric", "A framework owns the scaler"),
    ("Attempted unscale_ but _scale is None.", "Backward runs on the unscaled loss"),
    (
        "fsdp2: A different number of tensors was saved during the original forward and recomputation",
        "FSDP2",
    ),
    ("autocast with no_grad runs out of memory", "One region spans many iterations"),
    ("the loss is nan with amp, and some labels contain nan", "NaN without AMP as well"),
    ("nan in evaluation under amp", "A model with BatchNorm"),
    ("nan in evaluation with model.half()", "The model itself is cast"),
    ("GradScaler skips every step", "If it comes in every step"),
    ("TorchScript interpreter: expected scalar type Half but found Float", "runs in TorchScript"),
    ("vmap of autograd.grad: expected scalar type Half but found Float", "runs a backward pass through a norm"),
    ("FSDP leaves a buffer alone: expected scalar type Half but found Float", "A buffer stays float32"),
    ("the loss is nan whether fp32 or fp16", "NaN without AMP as well"),
    ("no speedup from fp16 with heavy augmentations", "no fast half arithmetic"),
    ("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1", "If it comes in every step"),
    ("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768", "In the first steps"),
    ("black images on mps with autocast", "float16 overflows"),
    ("Function 'PowBackward0' returned nan values in its 0th output.", "If it also happens in float32"),
    ("amp: Function 'PowBackward0' returned nan values in its 0th output.", "Anomaly detection is on"),
    ("RuntimeError: Expected object of scalar type Half but got scalar type Float in nms", "kernel of an extension"),
    ("expected scalar type Float but found BFloat16, scores is converted to float32 inside", "a layer computes a part"),
    ("flash attention fails in evaluation under autocast", "The model is float32, and the forward"),
    ("flash attention fails under autocast after a norm", "come from a norm"),
    ("EMA weights are nan with fp16", "NaN or infinite weights went into it"),
    ("ZeroDivisionError: float division by zero in apex's scale_loss, WGAN gradient penalty", "A gradient penalty"),
]


@pytest.mark.parametrize(("text", "why"), FIRST)
def test_the_first_cause_is_that_of_the_text(text: str, why: str) -> None:
    assert why in first(text).causes[0].why


def test_the_first_cause_of_a_log_is_that_of_its_lines() -> None:
    error = "RuntimeError: expected scalar type Half but found Float"
    log = TRACEBACK.rpartition("RuntimeError")[0].replace("raise RuntimeError(", "{}") + error
    (hit,) = find(log.format("return torch.batch_norm(input, mean, var)")).hits
    assert "A norm whose statistics" in hit.message.causes[0].why
    (hit,) = find(log.format("return torch.addmm(bias, input, weight)")).hits
    assert "cast by hand" in hit.message.causes[0].why


def test_the_line_of_a_message_that_is_wrapped() -> None:
    log = Log("one\ntwo unscale_() has\nalready been called on this optimizer since the last update().\nthree")
    assert log.line_of(log.squeezed.index("unscale_")) == 1


class TestAnotherForm:
    @pytest.mark.parametrize(
        "text",
        [
            "ValueError : Attempting to unscale FP16 gradients",
            "ValueError: Attemting to unscale FP16 gradients.",
            "Atempting to unscale FP16 gradeints.",
            "train.py:12: ValueError: Attempting to unscale FP16 gradients.",
            'File "/a/train.py", line 3, in step ValueError: Attempting to unscale FP16 gradients.',
            "[2026-01-02 03:04:05,678] [INFO] [train.py:12:step] Attempting to unscale FP16 gradients.",
        ],
    )
    def test_what_is_around_a_message_does_not_hide_it(self, text: str) -> None:
        assert ids(text, asked=True) == ["unscale-fp16-gradients"]

    def test_the_place_of_a_warning(self) -> None:
        said = "RuntimeWarning: invalid value encountered in cast"
        assert ids(f"/a/b/image_processor.py:147: {said}", asked=True) == ids(said, asked=True) != []

    def test_a_value_in_parentheses(self) -> None:
        assert ids("FloatingPointError: Minimum loss scale reached (0.0001).", asked=True) == ["scale-at-minimum"]
        assert "scale-at-minimum" in ids(
            "decrease scale anymore (12) and more: cannot decrease scale anymore", asked=True
        )

    def test_who_logs_it_is_no_frame(self) -> None:
        (hit,) = find("[INFO] [stage3.py:2323:_overflow_clean_up] OVERFLOW! Rank 0 Skipping step.").hits
        assert not hit.stack

    @pytest.mark.parametrize(
        "text", ["precession of gears", "ValueError: Attaching the scale of FP64", "overflew the city"]
    )
    def test_only_one_letter_is_corrected(self, text: str) -> None:
        assert ids(text, asked=True) == []

    def test_class_indices_in_float32(self) -> None:
        said = "RuntimeError: expected scalar type Long but found {}"
        assert ids(said.format("Half"), asked=True) == ["half-class-targets"]
        assert ids(said.format("Float"), asked=True) == ids(said.format("Float")) == []
