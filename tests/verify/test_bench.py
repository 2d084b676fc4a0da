"""The bench, the watch and the recorder, on real steps: what is heard, and what a right and a wrong step measure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from amplint.verify.bench.bench import (  # noqa: E402
    Bench,
    inject_overflow,
    is_there,
    make_bench,
    on_device,
    reset,
    switched_off,
    without_accelerators,
)
from amplint.verify.bench.instrument import DEVICES, Clip, Listener, Region, open_regions, watched  # noqa: E402
from amplint.verify.bench.recorder import Recorder  # noqa: E402
from amplint.verify.fixtures.proof import TOLERANCE, Observed, show  # noqa: E402

Program = Callable[[Bench], None]
F16, BF16 = torch.float16, torch.bfloat16


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def own(filename: str) -> bool:
    return filename == __file__


class Heard(Listener):
    """Writes down what it hears, with the regions that are open then."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.regions: list[tuple[str, tuple[Region, ...]]] = []
        self.clips: list[Clip] = []

    def _hear(self, event: str) -> None:
        self.events.append(event)
        self.regions.append((event, open_regions()))

    def region_entered(self, region: Region) -> None:
        self._hear(f"enter {region}")

    def region_left(self) -> None:
        self._hear("leave")

    def scaler_made(self, scaler: Any, asked: bool) -> None:
        self._hear("scaler")

    def optimizer_made(self, optimizer: Any) -> None:
        self._hear("optimizer")

    def loss_scaled(self, loss: Any) -> None:
        self._hear("scale")

    def backward_started(self, roots: Sequence[Any]) -> None:
        self._hear("backward")

    def backward_done(self) -> None:
        self._hear("accumulated")

    def unscaled(self, optimizer: Any, scaler: Any) -> None:
        self._hear("unscale")

    def clipping(self, clip: Clip) -> None:
        self.clips.append(clip)
        self._hear("clip")

    def gradient_read(self, parameter: Any, gradient: Any) -> None:
        self._hear("read")

    def gradients_dropped(self, parameters: Sequence[Any], value: Any = None) -> None:
        if len(parameters) > 1:  # zero_grad itself; it sets each gradient, too
            self._hear("zero")

    def step_requested(self, optimizer: Any, scaler: Any) -> None:
        self._hear("request")

    def gradients_applied(self, optimizer: Any) -> None:
        self._hear("apply")

    def step_done(self, optimizer: Any, *, taken: bool) -> None:
        self._hear("taken" if taken else "left out")

    def scale_updated(self, scaler: Any, before: float, after: float) -> None:
        self._hear(f"update {after / before:g}")


def heard(program: Callable[[], object]) -> Heard:
    reset()
    listener = Heard()
    with watched(listener, own):
        program()
    return listener


# --- the watch


def test_a_step_in_its_order() -> None:
    def program() -> None:
        bench = make_bench()
        (optimizer,) = bench.optimizers
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=F16):
            loss = bench.loss(0)
        bench.scaler.scale(loss).backward()
        bench.scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 1.0)
        bench.scaler.step(optimizer)
        bench.scaler.update()

    listener = heard(program)
    expected = (
        "optimizer,scaler,zero,enter cpu float16,leave,scale,backward,accumulated,unscale,clip,request,apply,taken"
    )
    assert listener.events == [*expected.split(","), "update 1"]
    assert {event for event, regions in listener.regions if regions} == {"enter cpu float16"}
    assert dict(listener.regions)["enter cpu float16"] == (Region("cpu", "float16"),)


def test_a_step_that_unscales_by_itself_is_one_request() -> None:
    def program() -> None:
        bench = make_bench()
        bench.scaler.scale(bench.loss(0)).backward()
        bench.scaler.step(bench.optimizers[0])

    assert heard(program).events[-3:] == ["request", "apply", "taken"]


def test_a_left_out_step_is_a_request() -> None:
    def program() -> None:
        bench = make_bench()
        inject_overflow(bench.model[0].weight)
        bench.scaler.scale(bench.loss(0)).backward()
        bench.scaler.step(bench.optimizers[0])
        bench.scaler.update()

    assert heard(program).events[-3:] == ["request", "left out", "update 0.5"]


def test_a_fused_optimizer_leaves_out_by_itself() -> None:
    def program() -> None:
        bench = make_bench()
        optimizer = torch.optim.Adam(bench.model.parameters(), fused=True)
        for overflow in (False, True):
            optimizer.zero_grad()
            if overflow:
                inject_overflow(bench.model[0].weight)
            bench.scaler.scale(bench.loss(0)).backward()
            bench.scaler.step(optimizer)
            bench.scaler.update()

    said = [each for each in heard(program).events if each in ("taken", "left out")]
    assert said == ["taken", "left out"]


def test_steps_within_steps_are_one_request() -> None:
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure: Any = None) -> None:
            self.inner.step()

    def program() -> None:
        bench = make_bench()
        wrapper = Wrapper(bench.optimizers[0])
        bench.loss(0).backward()
        wrapper.step()
        bench.scaler.scale(bench.loss(0)).backward()
        bench.scaler.step(wrapper)

    assert [each for each in heard(program).events if each in ("request", "taken")] == ["request", "taken"] * 2


def test_a_closure_makes_the_gradients_that_are_applied() -> None:
    def program() -> None:
        bench = make_bench()
        (optimizer,) = bench.optimizers

        def closure() -> Any:
            loss = bench.loss(0)
            loss.backward()
            return loss

        optimizer.step(closure)

    assert heard(program).events[-5:] == ["request", "backward", "accumulated", "apply", "taken"]


def test_after_a_step_that_raised_the_next_is_heard() -> None:
    def program() -> None:
        bench = make_bench()
        (optimizer,) = bench.optimizers

        def closure() -> Any:
            raise ValueError

        with contextlib.suppress(ValueError):
            optimizer.step(closure)
        with contextlib.suppress(AssertionError):  # nothing was scaled
            bench.scaler.step(optimizer)
        bench.loss(0).backward()
        optimizer.step()

    said = [each for each in heard(program).events if each in ("request", "taken")]
    assert said == ["request", "request", "request", "taken"]


def test_reads_of_gradients_count_where_they_are_used() -> None:
    def program() -> None:
        bench = make_bench()
        bench.loss(0).backward()
        parameters = list(bench.model.parameters())
        assert all(each.grad is not None for each in parameters)
        if parameters[0].grad is None:
            return
        kept = [each for each in parameters if each.grad is not None]
        torch.nn.utils.clip_grad_value_(kept, 1.0)
        bench.optimizers[0].step()
        [each.grad.norm() for each in kept]
        getattr(kept[0], "grad").norm()  # noqa: B009

    assert heard(program).events.count("read") == 5


def test_a_comparison_with_none_far_before_its_else_is_no_read() -> None:
    source = "def run(parameter):\n    if parameter.grad is None:\n" + "        parameter.zero_()\n" * 200
    found: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), found)

    def program() -> None:
        bench = make_bench()
        bench.loss(0).backward()
        found["run"](bench.model[0].weight)

    assert heard(program).events.count("read") == 0


def test_a_backward_within_a_backward_is_part_of_it() -> None:
    from torch.utils.checkpoint import checkpoint

    def program() -> None:
        bench = make_bench()
        inputs = bench.batches[0][0].requires_grad_()
        checkpoint(bench.model, inputs, use_reentrant=True).sum().backward()

    assert heard(program).events.count("backward") == 1


def test_clips_and_their_bounds() -> None:
    def program() -> None:
        bench = make_bench()
        bench.loss(0).backward()
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), max_norm=torch.tensor(2.0))
        torch.nn.utils.clip_grad_norm_(bench.model[0].weight, 3.0, norm_type=1)
        torch.nn.utils.clip_grad.clip_grad_value_(parameters=bench.model.parameters(), clip_value=0.5)

    clips = heard(program).clips
    assert [(len(each.parameters), each.bound, each.order) for each in clips] == [
        (4, 2.0, 2.0),
        (1, 3.0, 1.0),
        (4, 0.5, float("inf")),
    ]


def test_regions_as_written_and_decorated_and_old() -> None:
    @torch.autocast("cpu", dtype=BF16)
    def decorated() -> None:
        with torch.autocast("cpu", enabled=False):
            assert not open_regions()

    def program() -> None:
        decorated()
        with pytest.warns(FutureWarning), torch.cpu.amp.autocast():
            assert open_regions() == (Region("cpu", "bfloat16"),)
        with torch.autocast("cuda:0"):
            assert open_regions() == (Region("cuda", "float16"),)

    events = heard(program).events
    assert [each for each in events if each != "leave"] == [
        "enter cpu bfloat16",
        "enter cpu off",
        "enter cpu bfloat16",
        "enter cuda:0 float16",
    ]
    assert events.count("leave") == 4


def test_everything_is_as_before_after_a_watch() -> None:
    def everything() -> dict[str, object]:
        owners = (
            torch.optim.Optimizer,
            torch.nn.Module,
            torch.nn.Parameter,
            torch.amp.GradScaler,
            torch.autocast,
            torch.autograd,
            torch.nn.utils,
            torch.nn.utils.clip_grad,
        )
        return {f"{owner} {name}": value for owner in owners for name, value in vars(owner).items()}

    before = everything()
    with contextlib.suppress(KeyError), watched(Heard(), own), switched_off(), on_device("xpu"):
        assert everything() != before
        raise KeyError
    assert everything() == before
    assert torch.get_default_device().type == "cpu"


def test_reset_closes_what_was_left_open() -> None:
    torch.autocast("cpu", dtype=F16).__enter__()
    torch.autocast("cpu", dtype=F16).__enter__()
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_cache_enabled(False)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    reset()
    assert not open_regions()
    assert torch.is_grad_enabled()
    assert torch.is_autocast_cache_enabled()
    assert torch.get_default_dtype() is torch.float32
    assert torch.get_autocast_dtype("cpu") is BF16
    torch.autocast_increment_nesting()
    assert torch.autocast_decrement_nesting() == 0
    assert {"cuda", "xpu", "cpu"} <= set(DEVICES)


def test_reset_forgets_cached_weights() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    torch.autocast("cpu", dtype=BF16).__enter__()
    torch.nn.functional.linear(torch.ones(1, 4), weight)
    reset()
    weight.data.zero_()
    with torch.autocast("cpu", dtype=BF16):
        assert not torch.nn.functional.linear(torch.ones(1, 4), weight).any()


def test_switched_off_reaches_every_way_to_make_a_region_or_scaler() -> None:
    with switched_off():
        for region in (
            torch.autocast("cpu", F16, True),
            torch.autocast("cpu", enabled=True),
            torch.autocast(device_type="cpu"),
        ):
            with region:
                assert not open_regions()
        assert not torch.amp.GradScaler("cpu", 2.0, 2.0, 0.5, 100, True).is_enabled()
        assert torch.amp.GradScaler("cpu").get_scale() == 1.0
        with pytest.raises(TypeError, match="device_type"):
            torch.autocast()
    assert torch.amp.GradScaler("cpu").is_enabled()


def test_on_a_device_the_cpu_means_the_device() -> None:
    with on_device("xpu"):
        assert torch.autocast("cpu", dtype=F16).device == "xpu"
        assert torch.autocast("cuda:0", dtype=F16).device == "cuda:0"
        assert torch.amp.GradScaler("cpu")._device == "xpu"
    with on_device("meta"):
        assert torch.zeros(1).device.type == "meta"
    assert torch.zeros(1).device.type == "cpu"


# --- comparing


def compare(program: Program, *, overflow: bool = False, **made: Any) -> Observed:
    """What a recorder with the reference beside observes in a program on the bench."""

    def run(recorder: Recorder) -> Recorder:
        reset()
        with watched(recorder, own):
            program(make_bench(**made))
        return recorder

    if overflow:
        return run(Recorder(overflow=True)).close()
    with switched_off():
        reference = run(Recorder(leave_out=True))
    return run(Recorder(reference)).close()


def steps(dtype: Any, *, seed: int = 0, scaled: bool = True, size: float = 1.0, step: Any = None) -> Program:
    """A loop over the bench's batches; `step` takes the place of `scaler.step(optimizer)`."""

    def program(bench: Bench) -> None:
        if seed:
            torch.manual_seed(seed)
            for parameter in bench.model.parameters():
                parameter.data.normal_(0, 0.1)
        for at in range(len(bench.batches)):
            for optimizer in bench.optimizers:
                optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                loss = bench.loss(at) * size
            (bench.scaler.scale(loss) if scaled else loss).backward()
            if step:
                step(bench)
            elif scaled:
                for optimizer in bench.optimizers:
                    bench.scaler.step(optimizer)
                bench.scaler.update()
            else:
                bench.optimizers[0].step()

    return program


@pytest.mark.parametrize(("dtype", "name"), [(F16, "float16"), (BF16, "bfloat16")])
def test_right_steps_are_within_the_tolerance(dtype: Any, name: str) -> None:
    seen = [compare(steps(dtype, seed=seed), batches=6) for seed in range(12)]
    for each in seen:
        assert name in each.dtypes
        assert each.update.count == 6
        assert show("gradient", each, Observed()).misbehaves is False
        assert show("update", each, Observed()).misbehaves is False
    # No more room than rounding takes: the worst of a few seeds is a third of it or more.
    assert max(each.gradient.error for each in seen) > TOLERANCE[name].worst / 3


def test_gradients_lost_without_a_scaler_are_beyond_it() -> None:
    lost, kept = (compare(steps(F16, scaled=scaled, size=1e-4)) for scaled in (False, True))
    assert show("gradient", lost, Observed()).misbehaves is True
    assert lost.gradient.least > TOLERANCE["float16"].least
    assert show("gradient", kept, Observed()).misbehaves is False


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_one_unscaled_loss_of_two_is_beyond_it(dtype: Any) -> None:
    def program(bench: Bench) -> None:
        for at in range(3):
            bench.optimizers[0].zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                first, second = bench.loss(at), bench.loss(at + 1)
            bench.scaler.scale(first).backward()
            second.backward()
            bench.scaler.step(bench.optimizers[0])
            bench.scaler.update()

    seen = compare(program)
    assert 0.3 < seen.update.error < 0.9
    assert show("update", seen, Observed()).misbehaves is True


def test_without_regions_a_scale_changes_nothing() -> None:
    def program(bench: Bench) -> None:
        for at in range(3):
            bench.optimizers[0].zero_grad()
            bench.scaler.scale(bench.loss(at)).backward()
            bench.scaler.step(bench.optimizers[0])
            bench.scaler.update()

    seen = compare(program)
    assert seen.dtypes == ["float32"]
    assert seen.update.error == 0.0
    assert seen.update.count == 3


def test_factors() -> None:
    def clips(bench: Bench) -> None:
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 1e-3)
        bench.scaler.step(bench.optimizers[0])
        bench.scaler.update()

    seen = compare(steps(F16, step=clips))
    assert seen.clip.factor == pytest.approx(65536, rel=0.05)
    assert seen.update.factor < 1e-4

    bare = compare(steps(F16, step=lambda bench: bench.optimizers[0].step()))
    assert bare.update.factor == pytest.approx(65536, rel=0.05)
    assert bare.update.count == 4, "parameters are the reference's again after each step: no error grows"

    grown = compare(steps(F16, step=_update_after_each), optimizers=2, growth_interval=1, init_scale=1024.0)
    assert grown.update.factor == pytest.approx(0.5, rel=0.05)


def _update_after_each(bench: Bench) -> None:
    for optimizer in bench.optimizers:
        bench.scaler.step(optimizer)
        bench.scaler.update()


def test_a_bound_times_the_scale_is_right() -> None:
    def clips(bench: Bench) -> None:
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 0.1 * bench.scaler.get_scale())
        bench.scaler.step(bench.optimizers[0])
        bench.scaler.update()

    seen = compare(steps(F16, step=clips))
    assert seen.clip.count == 4
    assert show("gradient", seen, Observed()).misbehaves is False


def test_a_clip_behind_the_step_is_beyond_its_bound_only_if_it_would_have_clipped() -> None:
    for bound, expected in ((1e-2, True), (1e3, False)):

        def clips(bench: Bench, bound: float = bound) -> None:
            bench.scaler.step(bench.optimizers[0])
            torch.nn.utils.clip_grad_norm_(bench.model.parameters(), bound)
            bench.scaler.update()

        seen = compare(steps(F16, step=clips))
        assert seen.beyond_bound > 0
        assert show("gradient", seen, Observed()).misbehaves is expected


def test_momentum_is_the_references_after_a_step_left_out() -> None:
    def program(bench: Bench) -> None:
        optimizer = torch.optim.SGD(bench.model.parameters(), lr=0.1, momentum=0.9)
        for at in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=F16):
                loss = bench.loss(at)
            if at == 1 and bench.scaler.is_enabled():
                inject_overflow(bench.model[0].weight)
            bench.scaler.scale(loss).backward()
            bench.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 0.1)
            bench.scaler.step(optimizer)
            bench.scaler.update()

    seen = compare(program)
    assert (seen.skipped, seen.clip.count, seen.update.count) == (1, 3, 3)
    assert show("update", seen, Observed()).misbehaves is False
    assert show("gradient", seen, Observed()).misbehaves is False


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_behind_a_left_out_step_was_not_used(fused: bool) -> None:
    def program(bench: Bench) -> None:
        optimizer = torch.optim.SGD(bench.model.parameters(), lr=0.1, fused=fused)
        for at in range(3):
            optimizer.zero_grad()
            if at == 1:
                inject_overflow(bench.model[0].weight)
            bench.scaler.scale(bench.loss(at)).backward()
            bench.scaler.step(optimizer)
            torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 1e3)
            bench.scaler.update()

    seen = compare(program)
    assert seen.skipped == 1
    assert 0 < seen.beyond_bound < 1
    assert (seen.update.count, seen.update.error) == (2, 0.0), "the reference has left it out as well"


def test_an_overflow_that_is_taken_is_beyond_everything() -> None:
    def program(bench: Bench) -> None:
        optimizer = torch.optim.SGD(bench.model.parameters(), lr=0.1, momentum=0.9)
        for at in range(3):
            optimizer.zero_grad()
            if at == 1:
                inject_overflow(bench.model[0].weight)
            bench.scaler.scale(bench.loss(at)).backward()
            bench.scaler.unscale_(optimizer)
            optimizer.step()
            bench.scaler.update()

    seen = compare(program)
    assert (seen.update.count, seen.update.error, seen.gradient.error) == (3, float("inf"), float("inf"))
    assert seen.finite, "the step behind it starts from right parameters again"


def test_clips_of_one_iteration_have_their_own_bound() -> None:
    bounds = iter([1e3, 1e-2, 1e3, 1e-2] * 2)

    def clips(bench: Bench) -> None:
        bench.scaler.unscale_(bench.optimizers[0])
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), next(bounds))
        bench.scaler.step(bench.optimizers[0])
        bench.scaler.update()

    seen = compare(steps(F16, step=clips))
    assert seen.clip.count == 4
    assert seen.beyond_bound == 0.0


def test_reads_are_matched_anew_after_each_step() -> None:
    def reads(bench: Bench) -> None:
        bench.scaler.unscale_(bench.optimizers[0])
        weight = bench.model[0].weight
        weight.grad.norm()
        if bench.scaler.is_enabled():
            weight.grad.norm()
        bench.scaler.step(bench.optimizers[0])
        bench.scaler.update()

    seen = compare(steps(F16, step=reads))
    assert seen.read.count == 4
    assert show("gradient", seen, Observed()).misbehaves is False


def test_chance_is_the_same_in_both_runs() -> None:
    def program(bench: Bench) -> None:
        dropout = torch.nn.Dropout(0.5)
        for inputs, targets in bench.batches:
            bench.optimizers[0].zero_grad()
            with torch.autocast("cpu", dtype=F16):
                loss = torch.nn.functional.cross_entropy(bench.model(dropout(inputs)), targets)
            bench.scaler.scale(loss).backward()
            if bench.scaler.is_enabled():
                torch.rand(7)  # what only AMP draws is put back with the step
            bench.scaler.step(bench.optimizers[0])
            bench.scaler.update()

    assert show("update", compare(program), Observed()).misbehaves is False


def test_updates_of_adam_are_not_compared_but_its_gradients_are() -> None:
    def program(bench: Bench) -> None:
        optimizer = torch.optim.AdamW(bench.model.parameters(), fused=True)
        for at in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=F16):
                loss = bench.loss(at)
            bench.scaler.scale(loss).backward()
            bench.scaler.step(optimizer)
            bench.scaler.update()

    seen = compare(program)
    assert (seen.update.count, seen.gradient.count) == (0, 3)
    assert seen.gradient.factor == pytest.approx(1, abs=0.05), "what a fused optimizer sees is scaled, rightly"


def test_an_overflow_comes_once_and_not_in_the_first_step() -> None:
    right = compare(steps(F16), overflow=True)
    assert (right.overflows, right.overflows_applied, right.skipped, right.backoffs) == (1, 0, 1, 1)
    assert right.finite
    assert show("skips", right, Observed()).misbehaves is False

    def bare(bench: Bench) -> None:
        bench.scaler.unscale_(bench.optimizers[0])
        bench.optimizers[0].step()
        bench.scaler.update()

    wrong = compare(steps(F16, step=bare), overflow=True)
    assert wrong.overflows_applied >= 1
    assert not wrong.finite
    assert show("skips", wrong, Observed()).misbehaves is True


def test_a_program_that_looks_for_the_overflow_itself_is_right() -> None:
    def looks(bench: Bench) -> None:
        bench.scaler.unscale_(bench.optimizers[0])
        norm = torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 1.0)
        if norm.isfinite():
            bench.optimizers[0].step()
        bench.scaler.update()

    seen = compare(steps(F16, step=looks), overflow=True)
    assert (seen.steps, seen.backoffs, seen.answered, seen.finite) == (3, 1, 1, True)


def test_gradients_of_a_step_used_by_another() -> None:
    def twice(bench: Bench) -> None:
        bench.scaler.step(bench.optimizers[0])
        bench.optimizers[0].step()
        bench.scaler.update()

    assert compare(steps(F16, step=twice)).reused == 4
    assert compare(steps(F16), optimizers=2).reused == 0

    def keeps(bench: Bench) -> None:
        for at in range(3):
            bench.loss(at).backward()
            bench.optimizers[0].step()

    assert compare(keeps).reused == 0, "a backward has added to them"


def test_losses_of_a_region_round_the_loop_don_t_move() -> None:
    def inside(bench: Bench) -> None:
        with torch.autocast("cpu", dtype=BF16):
            for _ in range(4):
                bench.optimizers[0].zero_grad()
                loss = bench.loss(0)
                loss.backward()
                bench.optimizers[0].step()

    def free(program: Program) -> Observed:
        runs = []
        for condition in (switched_off(), contextlib.nullcontext()):
            reset()
            recorder = Recorder()
            with condition, watched(recorder, own):
                program(make_bench())
            runs.append(recorder.close())
        runs[1].reference_losses = runs[0].losses
        return runs[1]

    stale = free(inside)
    assert len(set(stale.losses)) == 1
    assert show("learning", stale, Observed()).misbehaves is True
    assert stale.backwards_inside == stale.steps_inside == 4
    assert show("learning", free(steps(BF16, scaled=False)), Observed()).misbehaves is False


def test_the_bench_is_the_same_each_time() -> None:
    first, second = make_bench(), make_bench(optimizers=2)
    assert first.loss(0).item() == second.loss(0).item() == pytest.approx(2.3, abs=0.1)
    owned = [sum(each.numel() for group in it.param_groups for each in group["params"]) for it in second.optimizers]
    assert owned == [32 * 64 + 64, 64 * 10 + 10]


def test_a_loader_shuffles_on_a_device() -> None:
    real = torch.Generator
    with on_device("cpu"):
        generator = torch.Generator().manual_seed(0)
        assert isinstance(generator, torch.Generator)
        assert generator.device.type == "cpu"
        assert sorted(int(each) for each in torch.utils.data.DataLoader(range(4), shuffle=True)) == [0, 1, 2, 3]
    assert torch.Generator is real


def test_a_program_for_the_cpu_sees_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert is_there("cuda")
    with without_accelerators():
        assert not is_there("cuda")
    assert is_there("cuda")
