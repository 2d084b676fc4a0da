"""Programs with names, arguments and regions that torch complains of."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from torch import nn

from tests.explaining.registry import prints, unwarned


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


@prints("autocast-module-called")
def module_called() -> None:
    torch.cuda.amp.autocast_mode()  # type: ignore[operator]


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
    from amplint.verify.bench.simulated_devices import simulated

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


@prints("script-and-autocast")
def scripted() -> None:
    with unwarned():
        torch.jit.script(torch.autocast("cpu")(_product))


def _product(x: torch.Tensor) -> torch.Tensor:
    return x @ x
