"""Train a super-resolution network, first on pixels alone and then against a discriminator, in mixed precision."""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import logging
import math
import os
import random
import sys
import time
from collections import defaultdict, deque
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
import yaml
from PIL import Image
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, MultiStepLR
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import transforms
from torchvision.models import VGG19_Weights, vgg19
from torchvision.transforms import functional as TF

logger = logging.getLogger("super_resolution")

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
EPS = 1e-8


@dataclass
class Config:
    """All that a run can be told; a YAML file and the command line change it."""

    train_dir: str = "data/train"
    valid_dir: str = "data/valid"
    out_dir: str = "runs/default"
    scale: int = 4
    patch: int = 128
    channels: int = 64
    blocks: int = 16
    batch_size: int = 16
    accumulate: int = 1
    workers: int = 8
    pretrain_steps: int = 100_000
    total_steps: int = 400_000
    lr: float = 2e-4
    d_lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    schedule: str = "multistep"
    milestones: list[int] = field(default_factory=lambda: [200_000, 300_000])
    warmup: int = 2_000
    clip_norm: float = 1.0
    pixel_weight: float = 1e-2
    feature_weight: float = 1.0
    adversarial_weight: float = 5e-3
    r1_weight: float = 0.0
    r1_every: int = 16
    ema_decay: float = 0.999
    amp: bool = True
    amp_dtype: str = "float16"
    log_every: int = 100
    valid_every: int = 5_000
    save_every: int = 5_000
    keep: int = 3
    seed: int = 42
    resume: str | None = None

    @classmethod
    def from_file(cls, path):
        with open(path, encoding="utf-8") as file:
            values = yaml.safe_load(file) or {}
        known = set(cls.__dataclass_fields__)
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"{path}: unknown keys {', '.join(unknown)}")
        return cls(**values)

    def save(self, path):
        path.write_text(json.dumps(asdict(self), indent=2))


# --- data ---------------------------------------------------------------------------------------------------------


def list_images(folder):
    paths = [path for path in sorted(Path(folder).rglob("*")) if path.suffix.lower() in IMAGE_SUFFIXES]
    if not paths:
        raise FileNotFoundError(f"no images in {folder}")
    return paths


class TrainImages(Dataset):
    """Random patches of high resolution, and the same made small."""

    def __init__(self, folder, patch, scale):
        self.paths = list_images(folder)
        self.patch = patch
        self.scale = scale
        self.jitter = transforms.ColorJitter(0.1, 0.1, 0.1, 0.02)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        image = self._crop(image)
        if random.random() < 0.5:
            image = TF.hflip(image)
        if random.random() < 0.5:
            image = TF.vflip(image)
        if random.random() < 0.3:
            image = self.jitter(image)
        small = image.resize((self.patch // self.scale, self.patch // self.scale), Image.BICUBIC)
        return TF.to_tensor(small), TF.to_tensor(image)

    def _crop(self, image):
        width, height = image.size
        if min(width, height) < self.patch:
            factor = self.patch / min(width, height)
            image = image.resize((math.ceil(width * factor), math.ceil(height * factor)), Image.BICUBIC)
            width, height = image.size
        left = random.randint(0, width - self.patch)
        top = random.randint(0, height - self.patch)
        return image.crop((left, top, left + self.patch, top + self.patch))


class ValidImages(Dataset):
    """Whole images, cut so that their sides are multiples of the scale."""

    def __init__(self, folder, scale, limit=100):
        self.paths = list_images(folder)[:limit]
        self.scale = scale

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        width, height = (side - side % self.scale for side in image.size)
        image = image.crop((0, 0, width, height))
        small = image.resize((width // self.scale, height // self.scale), Image.BICUBIC)
        return TF.to_tensor(small), TF.to_tensor(image), self.paths[index].stem


def make_loaders(config, distributed):
    train = TrainImages(config.train_dir, config.patch, config.scale)
    valid = ValidImages(config.valid_dir, config.scale)
    sampler = DistributedSampler(train) if distributed else None
    train_loader = DataLoader(
        train,
        batch_size=config.batch_size,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=config.workers,
        pin_memory=True,
        drop_last=True,
        persistent_workers=config.workers > 0,
    )
    valid_loader = DataLoader(valid, batch_size=1, num_workers=min(2, config.workers))
    return train_loader, valid_loader, sampler


def endless(loader, sampler):
    epoch = 0
    while True:
        if sampler is not None:
            sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


# --- networks -----------------------------------------------------------------------------------------------------


class DenseBlock(nn.Module):
    def __init__(self, channels, growth=32, residual_scale=0.2):
        super().__init__()
        self.residual_scale = residual_scale
        self.convs = nn.ModuleList()
        for index in range(4):
            self.convs.append(nn.Conv2d(channels + index * growth, growth, 3, padding=1))
        self.last = nn.Conv2d(channels + 4 * growth, channels, 3, padding=1)
        self.act = nn.LeakyReLU(0.2, inplace=True)

    def forward(self, x):
        features = [x]
        for conv in self.convs:
            features.append(self.act(conv(torch.cat(features, dim=1))))
        return x + self.residual_scale * self.last(torch.cat(features, dim=1))


class ChannelAttention(nn.Module):
    def __init__(self, channels, reduction=16):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // reduction, 1)
        self.expand = nn.Conv2d(channels // reduction, channels, 1)

    def forward(self, x):
        weights = F.adaptive_avg_pool2d(x, 1)
        weights = self.expand(F.relu(self.reduce(weights)))
        return x * torch.sigmoid(weights)


class Generator(nn.Module):
    """Residual dense blocks, then pixel shuffle."""

    def __init__(self, channels=64, blocks=16, scale=4):
        super().__init__()
        self.scale = scale
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        body = []
        for index in range(blocks):
            body.append(DenseBlock(channels))
            if index % 4 == 3:
                body.append(ChannelAttention(channels))
        self.body = nn.Sequential(*body)
        self.fuse = nn.Conv2d(channels, channels, 3, padding=1)
        up = []
        for _ in range(int(math.log2(scale))):
            up += [nn.Conv2d(channels, 4 * channels, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.2)]
        self.up = nn.Sequential(*up)
        self.tail = nn.Conv2d(channels, 3, 3, padding=1)
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, a=0.2)
            module.weight.data.mul_(0.1)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x):
        base = F.interpolate(x, scale_factor=self.scale, mode="bilinear", align_corners=False)
        features = self.head(x)
        features = features + self.fuse(self.body(features))
        return base + self.tail(self.up(features))


class Discriminator(nn.Module):
    """A U-Net that says for each pixel whether it is real."""

    def __init__(self, channels=64):
        super().__init__()
        norm = nn.utils.spectral_norm
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.down1 = norm(nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1, bias=False))
        self.down2 = norm(nn.Conv2d(2 * channels, 4 * channels, 4, stride=2, padding=1, bias=False))
        self.down3 = norm(nn.Conv2d(4 * channels, 8 * channels, 4, stride=2, padding=1, bias=False))
        self.up3 = norm(nn.Conv2d(8 * channels, 4 * channels, 3, padding=1, bias=False))
        self.up2 = norm(nn.Conv2d(4 * channels, 2 * channels, 3, padding=1, bias=False))
        self.up1 = norm(nn.Conv2d(2 * channels, channels, 3, padding=1, bias=False))
        self.out = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x):
        x0 = F.leaky_relu(self.enter(x), 0.2)
        x1 = F.leaky_relu(self.down1(x0), 0.2)
        x2 = F.leaky_relu(self.down2(x1), 0.2)
        x3 = F.leaky_relu(self.down3(x2), 0.2)
        y = F.leaky_relu(self.up3(self._twice(x3)), 0.2) + x2
        y = F.leaky_relu(self.up2(self._twice(y)), 0.2) + x1
        y = F.leaky_relu(self.up1(self._twice(y)), 0.2) + x0
        return self.out(y)

    @staticmethod
    def _twice(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


class FeatureLoss(nn.Module):
    """The distance between features of VGG19."""

    LAYERS = {2: 0.1, 7: 0.1, 16: 1.0, 25: 1.0, 34: 1.0}

    def __init__(self):
        super().__init__()
        self.features = vgg19(weights=VGG19_Weights.IMAGENET1K_V1).features[:35].eval()
        for parameter in self.features.parameters():
            parameter.requires_grad_(False)
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1))

    def forward(self, fake, real):
        x, y = (fake - self.mean) / self.std, (real - self.mean) / self.std
        loss = 0.0
        for index, layer in enumerate(self.features):
            x, y = layer(x), layer(y)
            if index in self.LAYERS:
                loss = loss + self.LAYERS[index] * F.l1_loss(x, y)
        return loss


def pixel_loss(fake, real):
    return torch.sqrt((fake.float() - real.float()) ** 2 + 1e-6).mean()


def adversarial_loss(scores, real):
    target = torch.ones_like(scores) if real else torch.zeros_like(scores)
    return F.binary_cross_entropy_with_logits(scores, target)


def gradient_penalty(discriminator, images):
    images = images.detach().requires_grad_(True)
    scores = discriminator(images)
    (gradients,) = torch.autograd.grad(scores.sum(), images, create_graph=True)
    return gradients.pow(2).sum(dim=(1, 2, 3)).mean()


# --- metrics ------------------------------------------------------------------------------------------------------


def to_luma(image):
    weights = torch.tensor([65.481, 128.553, 24.966], device=image.device).view(1, 3, 1, 1)
    return ((image * weights).sum(dim=1, keepdim=True) + 16.0) / 255.0


def psnr(fake, real, border):
    difference = (to_luma(fake) - to_luma(real))[..., border:-border, border:-border]
    mse = difference.pow(2).mean()
    return (10.0 * torch.log10(1.0 / (mse + EPS))).item()


def gaussian_window(size=11, sigma=1.5, device="cpu"):
    points = torch.arange(size, dtype=torch.float32, device=device) - size // 2
    line = torch.exp(-(points**2) / (2 * sigma**2))
    line = line / line.sum()
    return (line[:, None] * line[None, :]).view(1, 1, size, size)


def ssim(fake, real, border):
    x = to_luma(fake)[..., border:-border, border:-border]
    y = to_luma(real)[..., border:-border, border:-border]
    window = gaussian_window(device=x.device)
    mean_x, mean_y = F.conv2d(x, window), F.conv2d(y, window)
    var_x = F.conv2d(x * x, window) - mean_x**2
    var_y = F.conv2d(y * y, window) - mean_y**2
    cov = F.conv2d(x * y, window) - mean_x * mean_y
    c1, c2 = 0.01**2, 0.03**2
    values = ((2 * mean_x * mean_y + c1) * (2 * cov + c2)) / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2))
    return values.mean().item()


class Meters:
    """Means over the last steps, by name."""

    def __init__(self, window=200):
        self.values = defaultdict(lambda: deque(maxlen=window))

    def add(self, **values):
        for name, value in values.items():
            self.values[name].append(float(value))

    def mean(self, name):
        values = self.values[name]
        return sum(values) / max(1, len(values))

    def line(self):
        return ", ".join(f"{name} {self.mean(name):.4f}" for name in sorted(self.values))


# --- helpers ------------------------------------------------------------------------------------------------------


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.benchmark = True


def unwrap(model):
    return model.module if isinstance(model, DistributedDataParallel) else model


def set_requires_grad(model, flag):
    for parameter in model.parameters():
        parameter.requires_grad_(flag)


def count_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def split_decay(model, weight_decay):
    decay, no_decay = [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim <= 1 or name.endswith(".bias"):
            no_decay.append(parameter)
        else:
            decay.append(parameter)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}]


def make_scheduler(optimizer, config):
    if config.schedule == "multistep":
        return MultiStepLR(optimizer, milestones=config.milestones, gamma=0.5)
    if config.schedule == "cosine":
        return CosineAnnealingLR(optimizer, T_max=config.total_steps, eta_min=1e-7)

    def factor(step):
        if step < config.warmup:
            return (step + 1) / config.warmup
        progress = (step - config.warmup) / max(1, config.total_steps - config.warmup)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))

    return LambdaLR(optimizer, factor)


class EMA:
    """A running mean of a model's weights."""

    def __init__(self, model, decay):
        self.model = deepcopy(unwrap(model)).eval()
        self.decay = decay
        self.updates = 0
        set_requires_grad(self.model, False)

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for mean, value in zip(self.model.parameters(), unwrap(model).parameters()):
            mean.lerp_(value.detach(), 1 - decay)
        for mean, value in zip(self.model.buffers(), unwrap(model).buffers()):
            mean.copy_(value)

    def state_dict(self):
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


class CsvLog:
    def __init__(self, path, columns):
        self.path = path
        self.columns = columns
        if not path.exists():
            with path.open("w", newline="") as file:
                csv.writer(file).writerow(columns)

    def write(self, **values):
        with self.path.open("a", newline="") as file:
            csv.writer(file).writerow([values.get(each, "") for each in self.columns])


# --- training -----------------------------------------------------------------------------------------------------


class Trainer:
    def __init__(self, config, device, rank=0, world_size=1):
        self.config = config
        self.device = device
        self.rank = rank
        self.distributed = world_size > 1
        self.out = Path(config.out_dir)
        self.step = 0
        self.best = 0.0
        self.train_loader, self.valid_loader, self.sampler = make_loaders(config, self.distributed)
        self.generator = self._wrap(Generator(config.channels, config.blocks, config.scale))
        self.discriminator = self._wrap(Discriminator())
        self.feature_loss = FeatureLoss().to(device)
        self.ema = EMA(self.generator, config.ema_decay)
        self.dtype = getattr(torch, config.amp_dtype)
        self._make_optimizers()
        self.scaler = GradScaler(enabled=config.amp)
        self.d_scaler = GradScaler(enabled=config.amp)
        self.meters = Meters()
        self.is_main = rank == 0
        if self.is_main:
            self.out.mkdir(parents=True, exist_ok=True)
            config.save(self.out / "config.json")
            self.log = CsvLog(self.out / "valid.csv", ["step", "psnr", "ssim", "seconds"])
        if config.resume:
            self.load(Path(config.resume))

    def _wrap(self, model):
        model = model.to(self.device)
        if self.distributed:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
            model = DistributedDataParallel(model, device_ids=[self.device.index])
        return model

    def _make_optimizers(self):
        config = self.config
        self.optimizer = torch.optim.AdamW(
            split_decay(self.generator, config.weight_decay), lr=config.lr, betas=config.betas
        )
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=config.d_lr, betas=config.betas)
        self.scheduler = make_scheduler(self.optimizer, config)
        self.d_scheduler = make_scheduler(self.d_optimizer, config)

    def autocast(self):
        if not self.config.amp:
            return contextlib.nullcontext()
        return autocast(dtype=self.dtype)

    def train(self):
        config = self.config
        batches = endless(self.train_loader, self.sampler)
        self.generator.train()
        self.discriminator.train()
        start = time.time()
        while self.step < config.total_steps:
            try:
                if self.step < config.pretrain_steps:
                    losses = self.pixel_step(batches)
                else:
                    losses = self.adversarial_step(batches)
            except FloatingPointError as error:
                logger.error("step %d: %s", self.step, error)
                self.save("broken.pt")
                raise
            self.step += 1
            self.meters.add(**losses)
            if self.step % config.log_every == 0 and self.is_main:
                rate = config.log_every / (time.time() - start)
                scale = self.scaler.get_scale()
                logger.info("step %d: %s, %.2f steps/s, scale %g", self.step, self.meters.line(), rate, scale)
                start = time.time()
            if self.step % config.valid_every == 0:
                self.validate()
            if self.step % config.save_every == 0 and self.is_main:
                self.save(f"step_{self.step:07d}.pt")
                self.prune()
        if self.is_main:
            self.save("last.pt")

    def _next(self, batches):
        small, large = next(batches)
        return small.to(self.device, non_blocking=True), large.to(self.device, non_blocking=True)

    def pixel_step(self, batches):
        config = self.config
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for index in range(config.accumulate):
            small, large = self._next(batches)
            last = index == config.accumulate - 1
            with self._no_sync(self.generator, not last):
                with self.autocast():
                    fake = self.generator(small)
                    loss = pixel_loss(fake, large) / config.accumulate
                self.scaler.scale(loss).backward()
            total += loss.item()
        if not math.isfinite(total):
            raise FloatingPointError(f"the loss is {total}")
        self.scaler.unscale_(self.optimizer)
        norm = clip_grad_norm_(self.generator.parameters(), config.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.ema.update(self.generator)
        return {"pixel": total, "norm": norm}

    def adversarial_step(self, batches):
        set_requires_grad(self.discriminator, False)
        losses = self.generator_step(batches)
        set_requires_grad(self.discriminator, True)
        losses.update(self.discriminator_step(losses.pop("fake"), losses.pop("large")))
        return losses

    def generator_step(self, batches):
        config = self.config
        self.optimizer.zero_grad(set_to_none=True)
        losses = defaultdict(float)
        for index in range(config.accumulate):
            small, large = self._next(batches)
            last = index == config.accumulate - 1
            with self._no_sync(self.generator, not last):
                with self.autocast():
                    fake = self.generator(small)
                    pixel = pixel_loss(fake, large)
                    features = self.feature_loss(fake, large)
                    adversarial = adversarial_loss(self.discriminator(fake), real=True)
                    loss = (
                        config.pixel_weight * pixel
                        + config.feature_weight * features
                        + config.adversarial_weight * adversarial
                    ) / config.accumulate
                self.scaler.scale(loss).backward()
            losses["pixel"] += pixel.item() / config.accumulate
            losses["features"] += features.item() / config.accumulate
            losses["adversarial"] += adversarial.item() / config.accumulate
        losses["norm"] = self._step(self.scaler, self.optimizer, self.generator)
        self.scheduler.step()
        self.ema.update(self.generator)
        return {**losses, "fake": fake.detach(), "large": large}

    def discriminator_step(self, fake, large):
        config = self.config
        self.d_optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            real_scores = self.discriminator(large)
            fake_scores = self.discriminator(fake)
            loss = 0.5 * (adversarial_loss(real_scores, real=True) + adversarial_loss(fake_scores, real=False))
        self.d_scaler.scale(loss).backward()
        penalty = torch.zeros((), device=self.device)
        if config.r1_weight > 0 and self.step % config.r1_every == 0:
            penalty = gradient_penalty(self.discriminator, large) * config.r1_every
            self.d_scaler.scale(0.5 * config.r1_weight * penalty).backward()
        if config.clip_norm > 0:
            clip_grad_norm_(self.discriminator.parameters(), config.clip_norm)
        self.d_scaler.step(self.d_optimizer)
        self.d_scaler.update()
        self.d_scheduler.step()
        accuracy = 0.5 * ((real_scores > 0).float().mean() + (fake_scores < 0).float().mean())
        return {"discriminator": loss, "penalty": penalty, "accuracy": accuracy}

    def _step(self, scaler, optimizer, model):
        norm = 0.0
        if self.config.clip_norm > 0:
            scaler.unscale_(optimizer)
            norm = clip_grad_norm_(model.parameters(), self.config.clip_norm)
        scaler.step(optimizer)
        scaler.update()
        return norm

    def _no_sync(self, model, wait):
        if wait and isinstance(model, DistributedDataParallel):
            return model.no_sync()
        return contextlib.nullcontext()

    @torch.no_grad()
    def validate(self):
        start = time.time()
        model = self.ema.model
        border = self.config.scale
        sums = torch.zeros(3, device=self.device)
        for index, (small, large, name) in enumerate(self.valid_loader):
            small, large = small.to(self.device), large.to(self.device)
            with autocast(enabled=self.config.amp, dtype=self.dtype):
                fake = model(small)
            fake = fake.float().clamp(0, 1)
            sums += torch.tensor([psnr(fake, large, border), ssim(fake, large, border), 1.0], device=self.device)
            if self.is_main and index < 8:
                self._show(fake, f"{self.step:07d}_{name[0]}.png")
        if self.distributed:
            dist.all_reduce(sums)
        mean_psnr, mean_ssim = (sums[:2] / sums[2]).tolist()
        if self.is_main:
            seconds = time.time() - start
            logger.info("step %d: PSNR %.2f dB, SSIM %.4f in %.0f s", self.step, mean_psnr, mean_ssim, seconds)
            self.log.write(step=self.step, psnr=mean_psnr, ssim=mean_ssim, seconds=round(seconds, 1))
            if mean_psnr > self.best:
                self.best = mean_psnr
                self.save("best.pt")

    def _show(self, image, name):
        folder = self.out / "images"
        folder.mkdir(exist_ok=True)
        TF.to_pil_image(image[0].cpu()).save(folder / name)

    def save(self, name):
        state = {
            "generator": unwrap(self.generator).state_dict(),
            "discriminator": unwrap(self.discriminator).state_dict(),
            "ema": self.ema.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "d_optimizer": self.d_optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "d_scheduler": self.d_scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "d_scaler": self.d_scaler.state_dict(),
            "step": self.step,
            "best": self.best,
            "config": asdict(self.config),
        }
        temporary = self.out / f"{name}.tmp"
        torch.save(state, temporary)
        os.replace(temporary, self.out / name)

    def load(self, path):
        state = torch.load(path, map_location="cpu")
        unwrap(self.generator).load_state_dict(state["generator"])
        unwrap(self.discriminator).load_state_dict(state["discriminator"])
        self.ema.load_state_dict(state["ema"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.d_optimizer.load_state_dict(state["d_optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.d_scheduler.load_state_dict(state["d_scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.d_scaler.load_state_dict(state["d_scaler"])
        self.step = state["step"]
        self.best = state["best"]
        logger.info("resumed from %s at step %d", path, self.step)

    def prune(self):
        checkpoints = sorted(self.out.glob("step_*.pt"))
        for path in checkpoints[: -self.config.keep]:
            path.unlink()


# --- command line -------------------------------------------------------------------------------------------------


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, help="a YAML file with the settings of a run")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings that override it")
    parser.add_argument("--resume", help="a checkpoint to go on from")
    parser.add_argument("--no-amp", action="store_true", help="train in float32")
    parser.add_argument("--valid-only", action="store_true", help="validate once and exit")
    return parser.parse_args(arguments)


def make_config(options):
    config = Config.from_file(options.config) if options.config else Config()
    for item in options.set:
        key, _, value = item.partition("=")
        if not hasattr(config, key):
            raise SystemExit(f"unknown setting {key!r}")
        setattr(config, key, yaml.safe_load(value))
    if options.resume:
        config.resume = options.resume
    if options.no_amp:
        config.amp = False
    return config


def set_up_distributed():
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if world_size > 1:
        dist.init_process_group("nccl")
        torch.cuda.set_device(rank)
    return rank, world_size


def main(arguments=None):
    options = parse_arguments(arguments)
    config = make_config(options)
    rank, world_size = set_up_distributed()
    level = logging.INFO if rank == 0 else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    seed_everything(config.seed + rank)
    device = torch.device("cuda", rank)
    trainer = Trainer(config, device, rank, world_size)
    logger.info("%.1f M parameters", count_parameters(trainer.generator) / 1e6)
    try:
        if options.valid_only:
            trainer.validate()
        else:
            trainer.train()
    except KeyboardInterrupt:
        trainer.save("interrupted.pt")
    finally:
        if world_size > 1:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
