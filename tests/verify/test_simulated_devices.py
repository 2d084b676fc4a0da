"""Simulated devices give the dtypes, warnings and errors of the real ones, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from amplint.verify.bench.simulated_devices import DEVICES, simulated
from tests.opcalls import CALLS, large, one_thread

pytestmark = pytest.mark.usefixtures(one_thread.__name__)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    z = model(x)
    return functional.cross_entropy(z, torch.arange(4)) + z.pow(2).sum() * 1e-3 + functional.normalize(z).float().std()


@pytest.mark.parametrize("device", DEVICES)
def test_training_steps_give_the_gradients_of_float32(device: str) -> None:
    model, x = small(), torch.randn(4, 8)
    loss_of(model, x).backward()
    right = [each.grad.clone() for each in model.parameters()]
    with simulated(device):
        model = small().to(device)
        optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(device)
        with torch.autocast(device):
            loss = loss_of(model, x.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        found = [each.grad.clone() for each in model.parameters()]
        scaler.step(optimizer)
        scaler.update()
    assert loss.dtype is torch.float32
    assert scaler.get_scale() == 65536.0
    for ours, theirs in zip(found, right, strict=True):
        assert ours.dtype is torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0.02, atol=2e-3)
        assert not torch.equal(ours, theirs)


PATCHED = (
    *(torch, torch.autocast, torch.amp.autocast_mode, torch.amp.GradScaler, torch.cuda, torch.xpu, torch.mps),
    *(
        sys.modules["torch.nn.parallel.data_parallel"],
        torch.functional,
        torch.backends.mps,
        torch.accelerator,
        torch.Tensor,
        torch.utils._device.DeviceContext,
    ),
)


def everything() -> list[object]:
    kernels = [torch._C._dispatch_dump(f"aten::{op}") for op in (*CALLS, "lstm.input", "gru.data")]
    states = [(torch.is_autocast_enabled(each), torch.get_autocast_dtype(each)) for each in ("cpu", *DEVICES)]
    depth = torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    modes = torch._C._len_torch_function_stack()
    attributes = [dict(vars(owner)) for owner in PATCHED]
    return [kernels, states, depth, modes, torch.is_autocast_cache_enabled(), attributes]


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_is_left_behind(device: str) -> None:
    before = everything()
    with simulated(device):
        assert everything() != before
        with torch.autocast(device):
            large().exp().sum()
    assert everything() == before

    class Stop(Exception):
        pass

    def stop() -> None:
        with simulated(device):
            torch.autocast(device, torch.bfloat16, cache_enabled=False).__enter__()
            torch.set_autocast_enabled("cpu", True)
            raise Stop

    with pytest.raises(Stop):
        stop()
    assert everything() == before
    with torch.autocast("cpu", torch.float16):
        z = large() @ large()
        with simulated(device):
            assert (large() @ large()).dtype is torch.float32
        assert [z.sum().dtype, (large() @ large()).dtype] == [torch.float16, torch.float16]
        assert torch.cat([z, z.float()]).dtype is torch.float32


def test_nothing_is_said_about_it() -> None:
    code = (
        "import torch\n"
        "from amplint.verify.bench.simulated_devices import simulated\n"
        "for device in ('cuda', 'xpu', 'mps'):\n"
        "    with simulated(device), torch.autocast(device):\n"
        "        assert torch.ones(2, 2, device=device).half().sum().dtype is torch.float32\n"
        "        torch.amp.GradScaler(device)\n"
    )
    ran = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_one_at_a_time() -> None:
    with simulated("cuda"):
        with pytest.raises(RuntimeError, match="cuda is being simulated already"), simulated("xpu"):
            pass
        with torch.autocast("cuda"):
            assert (large() @ large()).dtype is torch.float16
    with pytest.raises(ValueError, match="can't simulate 'hpu', only cuda, xpu, mps"), simulated("hpu"):
        pass
    with simulated("xpu"):
        pass


def test_a_scaler_made_without_a_device_works_on_cuda_only() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with simulated("cuda"):
            assert torch.amp.GradScaler().is_enabled()
    for device in ("xpu", "mps"):
        with simulated(device):
            with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available") as caught:
                assert not torch.amp.GradScaler().is_enabled()
            assert caught[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert torch.amp.GradScaler(device).is_enabled()


@pytest.mark.parametrize("device", DEVICES)
def test_a_scale_may_be_a_tensor_of_the_device(device: str) -> None:
    with simulated(device):
        scaler = torch.amp.GradScaler(device)
        scaler.scale(torch.ones(1, device=device))
        scaler.update(torch.tensor(8.0, device=device))
        assert scaler.get_scale() == 8.0
        scaler.update(4.0)
        assert scaler.get_scale() == 4.0
        other = torch.amp.GradScaler("hpu")
        other.scale(torch.ones(1))
        with pytest.raises(AssertionError, match="new_scale should be a float"):
            other.update(torch.tensor(8.0))


@pytest.mark.parametrize("device", DEVICES)
def test_python_believes_in_the_device(device: str) -> None:
    with simulated(device):
        found = {
            "cuda": torch.cuda.is_available(),
            "xpu": torch.xpu.is_available(),
            "mps": torch.backends.mps.is_available() and torch.mps.is_available(),
        }
        assert [name for name, there in found.items() if there] == [device]
        module = torch.get_device_module(device)
        assert module.device_count() == 1
        module.synchronize()
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device(device)
        if device != "mps":
            assert (module.is_bf16_supported(), module.current_device()) == (True, 0)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
@pytest.mark.parametrize("device", DEVICES)
def test_tensors_land_on_the_cpu(device: str) -> None:
    x = torch.ones(2)
    with simulated(device):
        made = [
            x.to(device),
            x.to(torch.device(device, 0)),
            x.to(device, torch.float64),
            x.to(device=f"{device}:0", dtype=torch.half),
            x.to(x.to(device)),
            torch.zeros(2, device=device),
            torch.tensor([1.0], device=torch.device(f"{device}:0")),
            torch.zeros_like(x, device=device),
            x.new_zeros(2, device=device),
            torch.full((2,), 1, device=device),
            torch.as_tensor([1], device=device),
            torch.empty(2, device=device).normal_(),
            nn.Linear(2, 2, device=device).weight,
            nn.Linear(2, 2).to(device).weight,
            nn.Linear(2, 2).to(torch.device(device), torch.float16).weight,
            x.pin_memory(),
        ]
        if device == "cuda":
            made += [
                x.cuda(),
                x.cuda(0),
                x.cuda("cuda:0"),
                torch.zeros(2, device=0),
                x.to(0),
                nn.Linear(2, 2).cuda().bias,
            ]
        with torch.device(device):
            made.append(torch.ones(2))
        torch.set_default_device(device)
        made.append(torch.ones(2))
        torch.set_default_device(None)
        assert torch.ones(2, device="meta").is_meta
        assert x.to("meta").is_meta
        assert torch.device(device).type == device
    assert [each.device.type for each in made] == ["cpu"] * len(made)
    assert [made[2].dtype, made[3].dtype, made[14].dtype] == [torch.float64, torch.float16, torch.float16]
    with simulated(device):
        model = nn.DataParallel(nn.Linear(2, 2)).to(device)
        assert model(torch.ones(1, 2, device=device)).device.type == "cpu"
    loader = torch.utils.data.DataLoader([1.0, 2.0], pin_memory=True)
    with simulated(device):
        assert [each.item() for each in loader] == [1.0, 2.0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spelled", ["device", "cpu"])
def test_regions_nest_and_end(device: str, spelled: str) -> None:
    x = torch.rand(4, 4)

    def state() -> tuple[bool, torch.dtype, torch.dtype]:
        assert torch.is_autocast_enabled(device) == torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype(device) == torch.get_autocast_dtype("cpu")
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), (x @ x).dtype

    name = device if spelled == "device" else "cpu"
    half, brain, full = torch.float16, torch.bfloat16, torch.float32
    with simulated(device):

        @torch.autocast(name)
        def decorated() -> tuple[bool, torch.dtype, torch.dtype]:
            return state()

        assert state() == (False, half, full)
        torch.set_autocast_enabled(name, True)
        assert state() == (True, half, half)
        torch.set_autocast_enabled(name, False)
        assert decorated() == (True, half, half)
        with torch.autocast(name, dtype=brain):
            assert state() == (True, brain, brain)
            # Its dtype was settled when it was made.
            assert decorated() == (True, half, half)
            with torch.autocast(name, enabled=False):
                assert state() == (False, brain, full)
                with torch.autocast(device, half):
                    assert state() == (True, half, half)
                assert state() == (False, brain, full)
            assert state() == (True, brain, brain)
        assert state() == (False, half, full)
        torch.set_autocast_dtype(name, brain)
        torch.set_autocast_enabled(name, True)
        assert state() == (True, brain, brain)
        torch.set_autocast_enabled(name, False)
        with torch.autocast("hpu"):
            assert state() == (False, brain, full)
        found: list[torch.dtype] = []

        def work() -> None:
            with torch.autocast(name):
                found.append((x @ x).dtype)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == [half]


def test_old_names_of_the_state() -> None:
    x = torch.rand(4, 4)
    with warnings.catch_warnings(), simulated("cuda"):
        warnings.simplefilter("ignore")
        torch.set_autocast_gpu_dtype(torch.bfloat16)
        torch.set_autocast_enabled(True)
        assert (torch.is_autocast_enabled(), torch.is_autocast_cpu_enabled()) == (True, True)
        assert [(x @ x).dtype, torch.get_autocast_cpu_dtype()] == [torch.bfloat16, torch.bfloat16]
        torch.set_autocast_cpu_enabled(False)
        torch.set_autocast_cpu_dtype(torch.float16)
        assert (torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()) == (False, torch.float16)
        assert (x @ x).dtype is torch.float32


def test_the_old_class_warns_and_works() -> None:
    x = torch.rand(4, 4)
    with simulated("cuda"):
        with pytest.warns(FutureWarning, match=r"torch.cuda.amp.autocast\(args...\)` is deprecated") as caught:
            region = torch.cuda.amp.autocast()
        assert [(each.category, each.filename) for each in caught] == [(FutureWarning, __file__)]
        with region:
            assert (x @ x).dtype is torch.float16
        with pytest.warns(FutureWarning, match="torch.cuda.amp.GradScaler"):
            assert torch.cuda.amp.GradScaler().is_enabled()


@pytest.mark.parametrize("spelled", ["device", "cpu"])
def test_a_region_in_float32(spelled: str) -> None:
    x = torch.rand(4, 4).half()
    with simulated("cuda"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            region = torch.autocast("cuda" if spelled == "device" else "cpu", dtype=torch.float32)
        with region:
            assert torch.is_autocast_enabled("cuda")
            assert [(x @ x).dtype, (x + x).dtype, x.sum().dtype] == [torch.float32, torch.float16, torch.float32]
            assert torch.dot(x.select(0, 0), x.select(0, 1)).dtype is torch.float32
    for device in ("xpu", "mps"):
        with simulated(device):
            with pytest.warns(UserWarning, match=f"In {device.upper()} autocast, but the target dtype") as caught:
                region = torch.autocast(device if spelled == "device" else "cpu", dtype=torch.float32)
            assert [each.filename for each in caught] == [__file__]
            with region:
                assert (x @ x).dtype is torch.float16
                assert not torch.is_autocast_enabled(device)


def test_wrong_arguments_raise_as_ever() -> None:
    with simulated("cuda"):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'device_type'"):
            torch.autocast()  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got"):
            torch.autocast(torch.device("cuda"))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"must be torch\.dtype, not str"):
            torch.autocast("cuda", dtype="float16").__enter__()  # type: ignore[arg-type]


class Doubled(torch.autograd.Function):
    """Runs in float32 and says what it was given."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        assert not torch.is_autocast_enabled("cuda")
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def test_own_functions_and_checkpoints() -> None:
    x, weight = torch.rand(4, 4), nn.Parameter(torch.rand(4, 4))
    with simulated("cuda"):
        with torch.autocast("cuda"):
            half = x @ weight
            assert Doubled.apply(half).dtype is torch.float32
            Doubled.apply(half).sum().backward()
        assert weight.grad is not None
        weight.grad = None
        seen = []

        def block(given: torch.Tensor) -> torch.Tensor:
            product = given @ weight
            seen.append((product.dtype, product.sum().dtype))
            return product

        for reentrant in (False, True):
            with torch.autocast("cuda"):
                total = checkpoint(block, x.clone().requires_grad_(), use_reentrant=reentrant).sum()
            total.backward()
        # Each block once, and again for its gradient; one of the two kinds stops before the end.
        assert seen == [(torch.float16, torch.float32)] * 3


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_random_states_are_the_cpus(device: str) -> None:
    with simulated(device):
        module = torch.get_device_module(device)
        state = module.get_rng_state()
        first = torch.rand(2, device=device)
        module.set_rng_state(state)
        assert torch.equal(torch.rand(2, device=device), first)
        with torch.random.fork_rng(device_type=device):
            torch.rand(2, device=device)


def test_compiled_models() -> None:
    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), backend="eager", fullgraph=True)
    with simulated("cuda"):
        model.to("cuda")
        with torch.autocast("cuda"):
            assert model(torch.rand(2, 4)).dtype is torch.float32
