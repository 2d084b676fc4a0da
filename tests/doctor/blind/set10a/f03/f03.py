"""Grade tissue crops with a masked patch transformer (bfloat16)."""
import json
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from model import SlideNet

CONFIG = {"epochs": 4, "batch_size": 16, "lr": 1e-3, "weight_decay": 0.02, "seed": 11}


def make_crops(n, seed):
    """White slides with a number of coloured blobs; a few crops come from the margin."""
    g = torch.Generator().manual_seed(seed)
    images, labels = [], []
    yy, xx = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    for _ in range(n):
        img = torch.ones(3, 32, 32) - 0.01 * torch.rand(3, 32, 32, generator=g)
        label = int(torch.randint(3, (1,), generator=g))
        blobs = int(torch.randint(1, 6, (1,), generator=g)) if torch.rand(1, generator=g) > 0.03 else 0
        for _ in range(blobs):
            cy, cx = (torch.rand(2, generator=g) * 28 + 2).tolist()
            radius = 4 + 3 * torch.rand(1, generator=g).item()
            blob = (yy - cy) ** 2 + (xx - cx) ** 2 < radius ** 2
            colour = torch.full((3,), 0.25)
            colour[label] = 0.6
            img[:, blob] = colour[:, None] + 0.1 * torch.randn(3, int(blob.sum()), generator=g)
        images.append(img.clamp(0, 1))
        labels.append(label)
    return TensorDataset(torch.stack(images), torch.tensor(labels))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    good = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return good / len(loader.dataset)


def save(model, epoch, folder):
    path = os.path.join(folder, "last.pt")
    torch.save({"model": model.state_dict(), "epoch": epoch, "config": CONFIG}, path)
    return path


def main():
    print(json.dumps(CONFIG))
    torch.manual_seed(CONFIG["seed"])
    train = DataLoader(make_crops(320, 1), CONFIG["batch_size"], shuffle=True)
    valid = DataLoader(make_crops(96, 2), 32)
    model = SlideNet()
    opt = torch.optim.AdamW(model.parameters(), CONFIG["lr"], weight_decay=CONFIG["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, CONFIG["epochs"] * len(train))
    loss_fn = nn.CrossEntropyLoss()
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(CONFIG["epochs"]):
            total = 0.0
            for x, y in train:
                opt.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = loss_fn(model(x).float(), y)
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(train):.4f} acc {accuracy(model, valid):.3f} "
                  f"grad norm {norm:.3f}")
            save(model, epoch, folder)


if __name__ == "__main__":
    main()
