"""Questions are ranked by what they say, and answered only where that is sure."""

from __future__ import annotations

import pytest

from amplint.explain.messages import known
from amplint.explain.ranking import NOTHING, WEIGHTS, Decision, decided, features_of, ranked, values, words_of
from tests.explaining import first, ids
from tests.explaining.labelled import drawn, labelled
from tests.explaining.training import document, examples
from tests.explaining.validate import linear

AMP, BRIEF, LONG = (
    "autocast",
    "my loss",
    "it happens to my loss whenever I train for long enough on all of the data that I have",
)
LIKE = {"b": ("c",)}


@pytest.mark.parametrize(
    ("text", "scores", "sure", "near"),
    [
        (AMP, {"a": 0.5, "b": 0.0}, "a", ()),
        (AMP, {"a": -0.6, "b": -0.9}, "", ("a", "b", "x")),
        # A long question has to be surer.
        (f"{LONG} autocast", {"a": 0.5, "b": 0.0}, "", ("a", "b", "x")),
        (f"{LONG} autocast", {"a": 0.5, "b": -0.4}, "a", ()),
        # One is as good as another that is like it.
        (AMP, {"b": 0.2, "c": 0.1, "d": -0.9}, "b", ()),
        # A question about AMP is more likely to have an answer.
        (AMP, {NOTHING: 0.2, "a": 0.3}, "a", ()),
        (AMP, {NOTHING: 0.2, "a": -0.3}, "", ()),
        # One that says nothing of AMP may be about it all the same.
        (LONG, {NOTHING: 0.2, "a": 0.3}, "", ("a", "x", "y")),
        (LONG, {NOTHING: -0.8, "a": 0.0}, "", ("a", "x", "y")),
        (LONG, {NOTHING: 0.9, "a": 0.0}, "", ()),
        (BRIEF, {NOTHING: -0.8, "a": 0.1}, "a", ()),
        (BRIEF, {NOTHING: 0.9, "a": -0.6}, "", ()),
    ],
)
def test_what_is_sure(text: str, scores: dict[str, float], sure: str, near: tuple[str, ...]) -> None:
    others = {"x": -0.95, "y": -0.96}
    ranking = [(score, name) for name, score in {**others, **scores}.items()]
    assert decided(text, ranking, LIKE) == Decision(sure, near)


def test_features() -> None:
    assert words_of("Training gives 3 NaNs") == ["train", "giv", "#", "nan"]
    features = features_of("NaN in evaluation")
    assert {
        "word nan",
        "phrase nan in",
        "concept nan",
        "concept evaluation",
        "pair evaluation, nan",
        "concept no amp",
    } <= features
    assert "concept long" in features_of(LONG)
    assert "concept elsewhere" in features_of("keras mixed precision")


def test_values_have_the_length_of_one_and_leave_out_what_is_unknown() -> None:
    found = values({"word a", "word b", "concept c", "word z"}, {"word a": 3.0, "word b": 4.0, "concept c": 9.0})
    assert found.keys() == {"word a", "word b", "concept c"}
    assert sum(each * each for each in found.values()) == pytest.approx(1)
    assert found["word b"] / found["word a"] == pytest.approx(4 / 3)
    assert found["concept c"] > found["word b"]


def test_the_weights_are_of_kinds_that_are_known() -> None:
    assert {name for _, name in ranked("nan")} - {NOTHING} < {each.id for each in known()}
    assert WEIGHTS.stat().st_size < 1_000_000


def test_a_kind_without_examples_has_no_weights() -> None:
    some = [each for each in examples(labelled()[:300]) if each[0] != "gtx-16"]
    assert "gtx-16" not in document(some)["symptoms"]  # type: ignore[operator]


def test_what_is_left_out_is_not_known() -> None:
    """Leaving a family out gives what training without it gives."""
    some = examples(labelled()[:120])
    kinds = sorted({kind for kind, _ in some})
    families = [*range(100), *[100] * 20]
    before = linear("word", "concept", "pair")(some, families, kinds)
    changed = [*some[:100], *((kinds[0], features) for _, features in some[100:])]
    after = linear("word", "concept", "pair")(changed, families, kinds)
    assert after[100:] == pytest.approx(before[100:])
    assert after[:100] != pytest.approx(before[:100])


def test_the_lines_about_one_thread_are_one_family() -> None:
    families = [each.family for each in labelled()]
    at = 0
    for group in drawn():
        assert len(set(families[at : at + len(group)])) == 1
        at += len(group)
    assert len(set(families)) > 1200


def test_symptoms_that_are_like_each_other_say_so_both() -> None:
    like = {each.id: each.like for each in known()}
    for name, others in like.items():
        assert all(name in like[other] for other in others), name


class TestOtherForms:
    def test_a_message_in_a_line_of_a_longer_text(self) -> None:
        text = "in my transforms, in fp16:\nRuntimeError: grid_sampler_2d_cpu not implemented for Half\nin a worker"
        assert ids(text, asked=True) == ["not-implemented-for-half"]
        typo = "you have asked for ntive AMP on CPU, but AMP is only available on GPU\nWhat do I do?"
        assert ids(typo, asked=True) == ["fp16-needs-an-accelerator"]

    def test_what_rules_a_message_out(self) -> None:
        saved = "'shape': torch.Size([9, 5]), 'dtype': torch.bfloat16, 'device': device(type='cuda')"
        text = (
            "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
            f"the forward pass.\ntensor at position 4:\nsaved metadata: {{{{{saved}}}}}\nrecomputed metadata: "
            "{{'shape': torch.Size([{}, 5]), 'dtype': torch.float32, 'device': device(type='cuda')}}"
        )
        for asked in (False, True):
            assert ids(text.format(9), asked=asked) == ["checkpoint-recompute"]
            assert ids(text.format(8), asked=asked) == []

    @pytest.mark.parametrize(
        "text",
        [
            "element 0 of tensors does not require grad and does not have a grad_fn",
            "Trying to backward through the graph a second time",
        ],
    )
    def test_what_is_mostly_not_about_amp_needs_a_word_that_is(self, text: str) -> None:
        assert ids(text, asked=True) == []
        assert len(ids(f"{text}, in an autocast region with a GradScaler", asked=True)) == 1

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("Found param a.weight with type torch.FloatTensor, expected torch.cuda.FloatTensor", "still on the CPU"),
            ("an LSTMCell under autocast: expected scalar type Half but found Float", "in an old release of torch"),
            ("QLoRA: expected scalar type Half but found Float", "meet float32 adapters"),
            ("nn.Conv3d is not faster with amp", "no fast kernel"),
            ("no speedup from fp16", "There is little to gain"),
            ("\"ms_deform_attn_forward_cuda\" not implemented for 'Half'", "one of an extension"),
            ("No inf checks were recorded for this optimizer. It is a GAN", "a GAN or another alternating schedule"),
            ("unsupported autocast device_type 'mps'", "does not support the device"),
            ("the grad norm is nan in the first steps with amp", "In the first steps"),
        ],
    )
    def test_the_first_cause(self, text: str, why: str) -> None:
        assert why in first(text).causes[0].why
