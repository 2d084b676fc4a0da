"""Train an image classifier with automatic mixed precision, on one GPU or on several."""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

logger = logging.getLogger(__name__)
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class ConvBlock(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels, out_channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        out = torch.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return torch.relu(out + self.shortcut(x))


class Classifier(nn.Module):
    """A small residual network."""

    def __init__(self, classes, width=64, depth=(2, 2, 2, 2), dropout=0.1):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks = []
        channels = width
        for stage, count in enumerate(depth):
            out_channels = width * 2**stage
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(ConvBlock(channels, out_channels, stride))
                channels = out_channels
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(channels, classes)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module):
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
            nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = x.mean(dim=(2, 3))
        return self.head(self.dropout(x))


class Smoothed(nn.Module):
    """Cross entropy with smoothed labels."""

    def __init__(self, smoothing=0.1):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, targets):
        logs = torch.log_softmax(logits.float(), dim=-1)
        nll = -logs.gather(dim=-1, index=targets.unsqueeze(1)).squeeze(1)
        smooth = -logs.mean(dim=-1)
        return ((1 - self.smoothing) * nll + self.smoothing * smooth).mean()


class Average:
    """A running mean."""

    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, count=1):
        self.sum += value * count
        self.count += count

    @property
    def mean(self):
        return self.sum / max(1, self.count)


class Cached(Dataset):
    """Keeps the first samples in memory."""

    def __init__(self, dataset, limit=10_000):
        self.dataset = dataset
        self.limit = limit
        self.kept = {}

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        if index not in self.kept:
            sample = self.dataset[index]
            if len(self.kept) >= self.limit:
                return sample
            self.kept[index] = sample
        return self.kept[index]


def make_loaders(args):
    train_transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(args.size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    valid_transform = transforms.Compose(
        [
            transforms.Resize(int(args.size * 1.14)),
            transforms.CenterCrop(args.size),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    train = ImageFolder(os.path.join(args.data, "train"), train_transform)
    valid = Cached(ImageFolder(os.path.join(args.data, "val"), valid_transform))
    sampler = DistributedSampler(train) if args.distributed else None
    train_loader = DataLoader(
        train,
        batch_size=args.batch_size,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=args.workers,
        pin_memory=True,
        drop_last=True,
    )
    valid_loader = DataLoader(valid, batch_size=2 * args.batch_size, num_workers=args.workers, pin_memory=True)
    return train_loader, valid_loader, sampler, len(train.classes)


def warmup_cosine(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return step / max(1, warmup)
        progress = (step - warmup) / max(1, total - warmup)
        return 0.5 * (1 + math.cos(math.pi * progress))

    return LambdaLR(optimizer, factor)


def train_one_epoch(model, criterion, loader, optimizer, scheduler, scaler, device, epoch, args):
    model.train()
    losses = Average()
    start = time.time()
    optimizer.zero_grad(set_to_none=True)
    for step, (images, targets) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        with autocast("cuda", dtype=torch.float16, enabled=args.amp):
            logits = model(images)
            loss = criterion(logits, targets) / args.accumulate
        scaler.scale(loss).backward()
        if (step + 1) % args.accumulate == 0:
            if args.clip_norm > 0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
        losses.update(loss.item() * args.accumulate, images.size(0))
        if step % args.log_every == 0:
            rate = (step + 1) * args.batch_size / (time.time() - start)
            logger.info("epoch %d step %d loss %.4f, %.0f images a second", epoch, step, losses.mean, rate)
    return losses.mean


@torch.no_grad()
def evaluate(model, criterion, loader, device, args):
    model.eval()
    losses, correct = Average(), Average()
    for images, targets in loader:
        images = images.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        with autocast("cuda", dtype=torch.float16, enabled=args.amp):
            logits = model(images)
            loss = criterion(logits, targets)
        losses.update(loss.item(), images.size(0))
        correct.update((logits.argmax(dim=1) == targets).float().mean().item(), images.size(0))
    return losses.mean, correct.mean


def save(path, model, optimizer, scheduler, scaler, epoch, best):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "scaler": scaler.state_dict(),
        "epoch": epoch,
        "best": best,
    }
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def load(path, model, optimizer, scheduler, scaler):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    if state["scaler"]:
        scaler.load_state_dict(state["scaler"])
    return state["epoch"] + 1, state["best"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--clip-norm", type=float, default=1.0)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-amp", dest="amp", action="store_false")
    return parser.parse_args()


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    args = parse_arguments()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    args.distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if args.distributed:
        dist.init_process_group("nccl")
    device = torch.device("cuda", rank)
    train_loader, valid_loader, sampler, classes = make_loaders(args)
    model = Classifier(classes).to(device)
    if args.distributed:
        model = DistributedDataParallel(model, device_ids=[rank])
    criterion = Smoothed()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=args.weight_decay)
    scheduler = warmup_cosine(optimizer, args.warmup, args.epochs * len(train_loader) // args.accumulate)
    scaler = GradScaler("cuda", enabled=args.amp)
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "last.pt"
    first, best = load(checkpoint, model, optimizer, scheduler, scaler) if checkpoint.exists() else (0, 0.0)
    history = []
    for epoch in range(first, args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        loss = train_one_epoch(model, criterion, train_loader, optimizer, scheduler, scaler, device, epoch, args)
        valid_loss, accuracy = evaluate(model, criterion, valid_loader, device, args)
        history.append({"epoch": epoch, "loss": loss, "valid": valid_loss, "accuracy": accuracy})
        if rank == 0:
            best = max(best, accuracy)
            save(checkpoint, model, optimizer, scheduler, scaler, epoch, best)
            (args.out / "history.json").write_text(json.dumps(history, indent=2))


if __name__ == "__main__":
    main()
