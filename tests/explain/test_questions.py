"""What people ask leads to what they mean, and what amplint does not know to nothing."""

from __future__ import annotations

import pytest

from amplint.explain.concepts import asked, concepts_of, normalized
from amplint.explain.languages import english
from amplint.explain.messages import known
from amplint.explain.ranking import NOTHING
from amplint.explain.search import find
from tests import some
from tests.explaining import first, ids
from tests.explaining.labelled import labelled

# Texts that teach what they ask, and are answered otherwise all the same: of thousand one or two.
_MISSED = 0.03
# And those that it was taught to leave alone.
_ANSWERED = 0.005


def test_what_is_asked() -> None:
    """What it was taught it knows, if not each single text of it, and leaves what it does not know."""
    texts = some(labelled(), len(labelled()) // 4)
    missed = [each for each in texts if each.kind not in (ids(each.text, asked=True) or [NOTHING])]
    assert len(missed) <= _MISSED * len(texts), missed
    answered = [each for each in missed if each.kind == NOTHING]
    assert len(answered) <= _ANSWERED * len(texts), answered


def test_the_kinds_are_known() -> None:
    kinds = {each.kind for each in labelled()}
    assert kinds - {NOTHING} < {each.id for each in known()}
    assert len(labelled()) > 3000
    assert {each.id for each in known() if each.questions} < kinds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fp16 loss is nan", "Half-precision loss is NaN"),
        ("nan in validation", "inf during eval"),
        ("val loss nan", "test loss NaN"),
        ("AMP is slower", "mixed precision is slow"),
        ("doesn't converge in bf16", "does not converge in bfloat 16"),
        ("grad norm inf", "gradient norm is infinite"),
    ],
)
def test_other_words_for_the_same(one: str, other: str) -> None:
    assert first(one).id == first(other).id
    assert ids(one, asked=True) == [first(one).id]


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ("混合精度训练时损失变成nan", "loss-not-finite"),
        ("用了autocast以后速度和以前一样", "slower-with-amp"),
        ("fp16训练，显存没有减少", "memory-with-amp"),
        ("半精度推理时准确率下降", "worse-in-half-inference"),
        ("混合精度学習でロスがNaNになる", "loss-not-finite"),
        ("AMPを使うと学習が遅い", "slower-with-amp"),
        ("autocastでメモリが減らない", "memory-with-amp"),
        ("fp16で推論すると精度が下がる", "worse-in-half-inference"),
        ("혼합 정밀도에서 손실이 NaN", "loss-not-finite"),
        ("AMP를 켜면 학습이 느려집니다", "slower-with-amp"),
        ("autocast를 써도 메모리가 줄지 않습니다", "memory-with-amp"),
        ("fp16 추론에서 정확도가 떨어진다", "worse-in-half-inference"),
        ("смешанная точность, потери становятся nan", "loss-not-finite"),
        ("обучение с amp медленнее", "slower-with-amp"),
        ("память с autocast не уменьшается", "memory-with-amp"),
        ("при инференсе в fp16 точность падает", "worse-in-half-inference"),
        ("mit fp16 wird der Verlust NaN", "loss-not-finite"),
        ("das Training ist mit AMP nicht schneller", "slower-with-amp"),
        ("fp16 verringert den Speicher nicht", "memory-with-amp"),
        ("die Genauigkeit sinkt bei der Inferenz in fp16", "worse-in-half-inference"),
    ],
)
def test_other_languages(other: str, kind: str) -> None:
    assert first(other).id == kind


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("validation accuracy drops when I evaluate under bf16", "worse-in-half-inference"),
        ("my metrics get worse if I evaluate with bf16", "worse-in-half-inference"),
        ("bf16 inference gives worse results than fp32", "worse-in-half-inference"),
        ("evaluation under autocast bfloat16 gives lower mAP", "worse-in-half-inference"),
        ("perplexity is higher when I evaluate in bf16", "worse-in-half-inference"),
        ("testing in bf16 makes F1 worse", "worse-in-half-inference"),
        ("bf16 training diverges", "bfloat16-diverges"),
        ("accuracy of the model trained in bf16 is worse than fp32", "bfloat16-diverges"),
        ("NaN in validation under bf16", "nan-in-evaluation"),
    ],
)
def test_evaluation_in_half_is_not_taken_for_training(question: str, kind: str) -> None:
    assert question not in {each.text for each in labelled()} or kind == "bfloat16-diverges"
    assert ids(question, asked=True) == [kind]


def test_english_stays_as_it_is() -> None:
    words = "the first model with more gradients and steps: training, inference and loss"
    assert english(words) == words


def first_cause(text: str) -> str:
    return first(text).causes[0].why


def test_what_is_not_said_is_not_first() -> None:
    assert "hangs" not in first_cause("AttributeError: 'AmpState' object has no attribute 'opt_properties'")
    for message in known():
        first = message.ordered_for(frozenset()).causes[0]
        assert not first.about or first.about[0].fits(()) or all(each.about for each in message.causes), message.id


def test_what_is_done_already_is_no_answer() -> None:
    text = "nan after 2 epochs with fp16 gradient accumulation, accelerator.clip_grad_norm_"
    assert "in each micro-batch" in first_cause(text.replace("nan after 2 epochs", "unscale_ error"))
    answer = find(f"{text} only if accelerator.sync_gradients", asked=True).hits[0].message
    assert not any("`clip_grad_norm_` unscales" in each.why for each in answer.causes)
    assert "overflows in float16" in answer.causes[0].why


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("fp16 loss is nan from the first batch of a checkpoint, from scratch it is fine", "larger activations"),
        ("No inf checks were recorded prior to update. with accelerator.scaler", "accelerate's or Lightning's own"),
        ("\"batch_norm\" not implemented for 'Half' with FSDP", "FSDP's `MixedPrecision` casts"),
        ("Found dtype Float but expected Half", "a loss got a prediction and a target"),
        ("how to keep batch norm in fp32 with amp", "A norm's weights and running statistics stay float32"),
        ("NameError: name 'amp' is not defined, with apex of PyPI", "`from apex import amp` is in a `try`"),
        ("gradients get larger by 2 every 2000 steps, only with amp, increasing again and again", "every 2,000 steps"),
        ("No inf checks were recorded prior to update. when batches are skipped in a step", "A batch is skipped"),
        ("torch.compile with amp has low performance on several GPUs", "It is slow"),
        ("compile+amp+ddp raises NotImplementedError", "A bug of this release"),
        ("time_embed(t): mat1 and mat2 must have the same dtype, Float and Half", "a layer computes a part of it"),
        ("apex with two GPUs is stuck in amp.initialize", "With several GPUs apex hangs"),
    ],
)
def test_the_first_cause_is_the_one_in_question(text: str, cause: str) -> None:
    assert cause in first_cause(text)


def test_what_a_question_is_not_about() -> None:
    assert "epsilon" not in concepts_of("I set eps=1e-4 but it made no difference")
    assert "memory" not in concepts_of("it saves memory but is slow")
    assert "stuck" in concepts_of("stuck at 0.693") - concepts_of("stuck in amp.initialize")
    assert "low scale" not in concepts_of("loss scale: 65536, reducing hysteresis to 1")
    assert "epsilon" not in concepts_of("warmup with the lr at 1e-8")
    assert "epsilon" in concepts_of("adam with 1e-8")
    assert "slow" not in concepts_of("black image in fp16, float32 is fine but slow")
    assert "memory" not in concepts_of("slower with amp, although the memory is half")
    assert "clip" not in concepts_of("openai clip.load")
    assert "is half" not in concepts_of("it is odd, shouldn't it be fp16")


def test_settings_are_no_question() -> None:
    assert "nan" not in concepts_of("min_loss=inf patience=3")
    assert "nan" not in concepts_of("val_loss improved from inf to 0.53")
    assert "nan" in concepts_of("val_loss=nan")
    assert normalized("O1's eps=1e-8 isn't BF 16") == "o1s eps 1e 8 isnt bf16"


def test_a_concept_has_to_exist() -> None:
    assert asked("nan & loss & !evaluation").unwanted == {"evaluation"}
    with pytest.raises(ValueError, match="no concept los"):
        asked("nan & los")
