"""Small programs that make torch print the messages: each is a function, and says which one.

`python -m tests.explaining.programs` runs all, and prints what each has written to stderr, as JSON.
"""

from __future__ import annotations

import copy
import io
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn

PROGRAMS: list[tuple[str, Callable[[], object]]] = []


def prints(message: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Say which message a program prints."""

    def register(program: Callable[[], object]) -> Callable[[], object]:
        PROGRAMS.append((message, program))
        return program

    return register


@contextmanager
def unwarned() -> Iterator[None]:
    """Without the warnings that come beside a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Step:
    """A model, an optimizer and a scaler on the CPU."""

    def __init__(self, **options: object) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, **options)
        self.scaler = torch.amp.GradScaler("cpu")

    def backward(self) -> None:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.model(torch.ones(3, 4)).float().square().mean()
        self.scaler.scale(loss).backward()


@prints("unscale-twice")
def unscale_twice() -> None:
    step = Step()
    step.backward()
    step.scaler.unscale_(step.optimizer)
    step.scaler.unscale_(step.optimizer)


@prints("unscale-twice")
def update_skipped() -> None:
    step = Step()
    for _ in range(2):
        step.backward()
        step.scaler.unscale_(step.optimizer)
        continue


@prints("unscale-after-step")
def unscale_after_step() -> None:
    step = Step()
    step.backward()
    step.scaler.step(step.optimizer)
    step.scaler.unscale_(step.optimizer)


@prints("step-twice")
def update_missing() -> None:
    step = Step()
    for _ in range(2):
        step.backward()
        step.scaler.step(step.optimizer)


@prints("no-inf-checks-for-optimizer")
def cleared_before_step() -> None:
    step = Step()
    step.backward()
    step.optimizer.zero_grad()
    step.scaler.step(step.optimizer)


@prints("no-inf-checks-prior-to-update")
def optimizer_steps_itself() -> None:
    step = Step()
    step.backward()
    step.optimizer.step()
    step.scaler.update()


@prints("no-inf-checks-prior-to-update")
def fused_without_gradients() -> None:
    step = Step(fused=True)
    step.backward()
    step.optimizer.zero_grad()
    step.scaler.step(step.optimizer)
    step.scaler.update()


@prints("unscale-fp16-gradients")
def half_parameters() -> None:
    step = Step()
    step.model.half()
    step.backward()
    step.scaler.step(step.optimizer)


@prints("scale-is-none")
def never_scaled() -> None:
    step = Step()
    step.model(torch.ones(3, 4)).sum().backward()
    step.scaler.step(step.optimizer)


@prints("scale-is-none")
def updated_first() -> None:
    torch.amp.GradScaler("cpu").update()


@prints("closure")
def closure_by_keyword() -> None:
    step = Step()
    step.backward()
    step.scaler.step(step.optimizer, closure=lambda: None)


@prints("closure")
def lbfgs() -> None:
    step = Step()
    step.optimizer = torch.optim.LBFGS(step.model.parameters())
    step.backward()
    step.scaler.step(step.optimizer)


@prints("empty-scaler-state")
def state_of_a_disabled_scaler() -> None:
    state = torch.amp.GradScaler("cpu", enabled=False).state_dict()
    torch.amp.GradScaler("cpu").load_state_dict(state)


@prints("scaler-pickled-mid-iteration")
def copied() -> None:
    step = Step()
    step.backward()
    step.scaler.unscale_(step.optimizer)
    copy.deepcopy(step.scaler)


@prints("scaler-arguments")
def growth() -> None:
    torch.amp.GradScaler("cpu", growth_factor=1.0)


@prints("scaler-arguments")
def backoff() -> None:
    torch.amp.GradScaler("cpu", backoff_factor=1.5)


@prints("scaler-arguments")
def new_scale() -> None:
    step = Step()
    step.backward()
    step.scaler.update(torch.ones(2))


@prints("scaler-arguments")
def interval() -> None:
    step = Step()
    step.scaler = torch.amp.GradScaler("cpu", growth_interval=2.5)
    step.backward()
    step.scaler.step(step.optimizer)
    step.scaler.update()


@prints("scaler-number-type")
def updated_with_an_int() -> None:
    step = Step()
    step.backward()
    step.scaler.update(4)


@prints("scaler-number-type")
def scale_of_a_string() -> None:
    step = Step()
    step.scaler = torch.amp.GradScaler("cpu", init_scale="1024")
    step.backward()


@prints("scale-of-no-tensor")
def scaled_number() -> None:
    torch.amp.GradScaler("cpu").scale(0.5)


@prints("scaler-without-cuda")
def scaler_for_cuda() -> None:
    torch.amp.GradScaler()


@prints("scaler-passes-itself")
def old_optimizer() -> None:
    class Own(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure: object = None, grad_scaler: object = None) -> None: ...

    step = Step()
    step.optimizer = Own(step.model.parameters(), 0.1)
    step.backward()
    step.scaler.step(step.optimizer)


@prints("no-such-scaler-attribute")
def misspelt() -> None:
    step = Step()
    step.scaler.unscale(step.optimizer)


@prints("no-such-scaler-attribute")
def getter_of_a_disabled_scaler() -> None:
    torch.amp.GradScaler("cpu", enabled=False).get_growth_factor()


@prints("scaler-is-none")
def no_scaler() -> None:
    step = Step()
    step.scaler = None
    step.scaler.unscale_(step.optimizer)


@prints("gradient-is-none")
def method_of_no_gradient() -> bool:
    return any(p.grad.isinf().any() for p in Step().model.parameters())


@prints("gradient-is-none")
def function_of_no_gradient() -> bool:
    return any(torch.isinf(p.grad).any() for p in Step().model.parameters())


@prints("scheduler-before-optimizer")
def scheduler_first() -> None:
    step = Step()
    scheduler = torch.optim.lr_scheduler.StepLR(step.optimizer, 1)
    step.backward()
    scheduler.step()


@prints("deprecated-autocast")
def old_autocast() -> None:
    torch.cpu.amp.autocast()


@prints("deprecated-grad-scaler")
def old_scaler() -> None:
    torch.cpu.amp.GradScaler()


@prints("deprecated-custom-fwd")
def old_decorators() -> None:
    torch.cuda.amp.custom_fwd(lambda ctx: None)
    torch.cuda.amp.custom_bwd(lambda ctx: None)


@prints("deprecated-autocast-state")
def old_getters() -> None:
    torch.get_autocast_gpu_dtype()
    torch.is_autocast_cpu_enabled()
    torch.set_autocast_cpu_dtype(torch.bfloat16)
    torch.set_autocast_cpu_enabled(False)


@prints("no-such-amp-name")
def name_of_a_module() -> None:
    torch.cuda.autocast()


@prints("no-such-amp-name")
def name_to_import() -> None:
    exec("from torch.cuda import GradScaler")


@prints("no-such-amp-name")
def name_of_nothing() -> None:
    autocast()  # noqa: F821 - that is what it is about


@prints("no-such-amp-argument")
def argument_of_the_scaler() -> None:
    torch.amp.GradScaler(device_type="cpu")


@prints("no-such-amp-argument")
def argument_of_autocast() -> None:
    torch.autocast(device="cpu")


@prints("no-such-amp-argument")
def decorator_without_device() -> None:
    torch.amp.custom_fwd(lambda ctx: None)


@prints("vendor-amp")
def module_of_a_vendor() -> None:
    torch.xpu.amp.autocast()


@prints("vendor-amp")
def backend_of_a_vendor() -> None:
    torch.autocast("privateuseone")


@prints("unsafe-bce")
def bce_on_cuda() -> None:
    from amplint.verify.simulate import simulated

    with simulated("cuda"), torch.autocast("cuda"):
        F.binary_cross_entropy(torch.rand(3), torch.ones(3))


@prints("autocast-without-device-type")
def no_device() -> None:
    torch.autocast(enabled=True)


@prints("autocast-without-device-type")
def bool_for_the_device() -> None:
    torch.autocast(True)


@prints("autocast-without-device-type")
def decorator_without_parentheses() -> None:
    torch.autocast(lambda x: x)


@prints("class-entered")
def class_entered() -> None:
    with torch.autocast:
        pass


@prints("invalid-device-type")
def device_object() -> None:
    torch.autocast(torch.device("cpu"))


@prints("invalid-device-type")
def no_device_there() -> None:
    torch.autocast(None)


@prints("invalid-device-type")
def index_of_a_device() -> None:
    torch.autocast(0)


@prints("unknown-device-string")
def gpu() -> None:
    torch.autocast("gpu")


@prints("unknown-device-string")
def empty_device() -> None:
    torch.autocast("")


@prints("autocast-without-cuda")
def region_for_cuda() -> None:
    torch.autocast("cuda")


@prints("unsupported-autocast-dtype")
def float32_region() -> None:
    torch.autocast("cpu", dtype=torch.float32)


@prints("autocast-dtype-type")
def dtype_by_name() -> None:
    with unwarned(), torch.autocast("cpu", dtype="float16"):
        pass


@prints("autocast-enabled-type")
def flag_of_an_int() -> None:
    with torch.autocast("cpu", enabled=1):
        pass


@prints("autocast-called-with-no-callable")
def region_called() -> None:
    torch.autocast("cpu")(torch.ones(1))


@prints("setup-context-with-custom-fwd")
def setup_context() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def setup_context(ctx: object, inputs: object, output: object) -> None: ...

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    with torch.autocast("cpu"):
        Product.apply(torch.ones(2, requires_grad=True)).sum().backward()


@prints("no-grad-fn")
def detached() -> None:
    loss = nn.Linear(4, 2)(torch.ones(3, 4)).sum().detach()
    torch.amp.GradScaler("cpu").scale(loss).backward()


@prints("trace-in-region")
def traced() -> None:
    layer = nn.Linear(4, 4)
    with torch.autocast("cpu"), unwarned():
        torch.jit.trace(lambda x: layer(layer(x)), torch.ones(3, 4))


HALF, FLOAT = torch.ones(4, 4).half(), torch.ones(4, 4)


@prints("dtype-mismatch")
def linear() -> None:
    nn.Linear(4, 4)(HALF)


@prints("dtype-mismatch")
def matmul() -> None:
    HALF @ FLOAT


@prints("dtype-mismatch")
def bmm() -> None:
    torch.bmm(HALF[None], FLOAT[None])


@prints("dtype-mismatch")
def addmm() -> None:
    torch.addmm(FLOAT, HALF, HALF)


@prints("dtype-mismatch")
def mv() -> None:
    torch.mv(HALF, FLOAT[0])


@prints("dtype-mismatch")
def dot() -> None:
    torch.dot(HALF[0], FLOAT[0])


@prints("dtype-mismatch")
def baddbmm() -> None:
    torch.baddbmm(FLOAT[None], HALF[None], HALF[None])


@prints("dtype-mismatch")
def convolution() -> None:
    nn.Conv2d(1, 1, 3)(torch.ones(1, 1, 8, 8).bfloat16())


@prints("dtype-mismatch")
def convolution_without_bias() -> None:
    nn.Conv2d(1, 1, 3, bias=False).half()(torch.ones(1, 1, 8, 8))


@prints("dtype-mismatch")
def attention() -> None:
    F.scaled_dot_product_attention(HALF[None], FLOAT[None], FLOAT[None])


@prints("dtype-mismatch")
def recurrent() -> None:
    nn.LSTM(4, 4)(HALF[None])


@prints("dtype-mismatch")
def lerp() -> None:
    torch.lerp(FLOAT, HALF, 0.5)


@prints("dtype-mismatch")
def criterion() -> None:
    F.binary_cross_entropy(HALF, FLOAT)


@prints("dtype-mismatch")
def custom_function() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, w = ctx.saved_tensors
            return grad @ w.t(), x.t() @ grad

    with torch.autocast("cpu"):
        loss = Product.apply(FLOAT.clone().requires_grad_(), FLOAT.clone().requires_grad_()).sum()
    loss.backward()


@prints("dtype-mismatch-in-place")
def index_put() -> None:
    FLOAT.clone()[torch.tensor([0])] = HALF[:1]


@prints("dtype-mismatch-in-place")
def index_add() -> None:
    FLOAT.index_add(0, torch.tensor([0]), HALF[:1])


@prints("dtype-mismatch-in-place")
def index_copy() -> None:
    FLOAT.index_copy(0, torch.tensor([0]), HALF[:1])


@prints("dtype-mismatch-in-place")
def masked_scatter() -> None:
    FLOAT.masked_scatter(FLOAT > 0, HALF)


@prints("scatter-dtype")
def scatter() -> None:
    FLOAT.scatter_add(0, torch.zeros(4, 4).long(), HALF)  # in float16


@prints("half-constant-overflow")
def mask() -> None:
    HALF.masked_fill(HALF > 0, -1e9)


@prints("half-constant-overflow")
def mask_in_bfloat16() -> None:
    HALF.bfloat16().masked_fill(HALF > 0, torch.finfo(torch.float32).min)


@prints("fft-in-half")
def fft() -> None:
    torch.fft.fft(HALF)


@prints("fft-in-half")
def stft() -> None:
    torch.stft(torch.ones(512).half(), 64, window=torch.ones(64).half(), return_complex=True)


@prints("not-implemented-for-half")
def svd() -> None:
    torch.linalg.svd(HALF)


@prints("not-implemented-for-half")
def cdist() -> None:
    torch.cdist(HALF, HALF)


@prints("not-implemented-for-half")
def inverse() -> None:
    torch.linalg.inv(HALF)


@prints("not-implemented-for-half")
def quantile() -> None:
    torch.quantile(HALF, 0.5)


@prints("half-class-targets")
def class_targets() -> None:
    F.cross_entropy(FLOAT, torch.zeros(4).half())


@prints("bfloat16-to-numpy")
def numpy() -> None:
    HALF.bfloat16().numpy()


@prints("loss-not-finite")
def loss_nan() -> None:
    loss = torch.tensor(float("nan"))
    if not torch.isfinite(loss):
        raise SystemExit(f"Loss is {loss}, stopping training")


@prints("gradients-not-finite")
def clipped_hard() -> None:
    step = Step()
    step.backward()
    step.model.weight.grad.fill_(float("inf"))
    nn.utils.clip_grad_norm_(step.model.parameters(), 1.0, error_if_nonfinite=True)


@prints("anomaly")
def anomaly() -> None:
    with unwarned(), torch.autograd.set_detect_anomaly(True):
        x = torch.zeros(2, requires_grad=True)
        (torch.sqrt(x) * 0).sum().backward()


@prints("probabilities-not-finite")
def sampling() -> None:
    torch.multinomial(HALF[0] * float("nan"), 1)


@prints("apex-missing")
def apex() -> None:
    exec("from apex import amp")


@contextmanager
def _quietly() -> Iterator[io.StringIO]:
    """Without what other tests have set: each warning is printed once a program."""
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()) as printed:
        warnings.simplefilter("always")
        yield printed


def main() -> None:
    """Run all programs and print what they print."""
    texts = {}
    for _, program in PROGRAMS:
        with _quietly() as printed, suppress(SystemExit):
            try:
                program()
            except SystemExit as stop:
                print(stop.code, file=sys.stderr)
                raise
            except Exception:
                traceback.print_exc()
        texts[program.__name__] = printed.getvalue()
    json.dump(texts, sys.stdout)


if __name__ == "__main__":
    main()
