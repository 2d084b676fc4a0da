"""Programs that GradScaler, an optimizer or a scheduler complains of."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import torch

from tests.explaining.registry import Step, prints


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


@prints("backward-twice")
def both_backwards() -> None:
    step = Step()
    loss = step.model(torch.ones(2, 4)).square().sum()
    loss.backward()
    step.scaler.scale(loss).backward()


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


@prints("unscale-other-dtypes")
def complex_parameters() -> None:
    step = Step()
    step.model.to(torch.complex64)
    step.scaler.scale(step.model(torch.ones(2, 4, dtype=torch.complex64)).abs().sum()).backward()
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


@prints("no-scaler-state")
def state_of_no_scaler() -> None:
    checkpoint = {"scaler": None}
    torch.amp.GradScaler("cpu").load_state_dict(checkpoint["scaler"])


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


@prints("scaler-pickled")
def scaler_of_another_release() -> object:
    return pickle.loads(b"ctorch.cuda.amp.grad_scaler\n_refresh_per_optimizer_state\n.")


@prints("optimizer-step-replaced")
def step_replaced() -> None:
    step = Step()
    scheduler = torch.optim.lr_scheduler.StepLR(step.optimizer, 1)
    step.optimizer.step = partial(torch.optim.SGD.step, step.optimizer)
    step.optimizer.step()
    scheduler.step()


@prints("scale-not-float32")
def half_scale() -> None:
    torch._amp_update_scale_(torch.ones(1).half(), torch.zeros(1, dtype=torch.int32), torch.zeros(1), 2.0, 0.5, 2)


@prints("scaler-half-initialized")
def growth_tracker_by_hand() -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler._growth_tracker = torch.zeros(1)
    scaler.scale(torch.ones(1))
