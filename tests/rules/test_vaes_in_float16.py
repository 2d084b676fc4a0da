"""AMP512: what silences a finding on the VAE of Stable Diffusion XL, and what only names a remedy."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
from diffusers import AutoencoderKL, StableDiffusionXLPipeline

pipe = StableDiffusionXLPipeline.from_pretrained(
    "stabilityai/stable-diffusion-xl-base-1.0", torch_dtype=torch.float16
)
FIRST


def encode(images):
    return pipe.vae.encode(images.half()).latent_dist.sample()
"""


def found(first: str) -> list[str]:
    """What is found where a line follows the load."""
    return [each.code for each in check(PROGRAM.replace("FIRST", first))]


@pytest.mark.parametrize(
    "first",
    [
        "pass",
        "# madebyollin/sdxl-vae-fp16-fix would be another way",
        'print("no force_upcast here")',
        'other = AutoencoderKL.from_pretrained("madebyollin/sdxl-vae-fp16-fix")',
    ],
)
def test_words_silence_nothing(first: str) -> None:
    assert found(first) == ["AMP512"]


@pytest.mark.parametrize(
    "first",
    [
        "pipe.upcast_vae()",
        "if pipe.vae.config.force_upcast: cast(pipe)",
        "pipe.vae.to(torch.float32)",
        'pipe.vae = AutoencoderKL.from_pretrained("madebyollin/sdxl-vae-fp16-fix", torch_dtype=torch.float16)',
    ],
)
def test_what_takes_care_of_it(first: str) -> None:
    assert found(first) == []
