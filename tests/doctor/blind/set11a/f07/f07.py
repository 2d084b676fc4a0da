"""Fine-tune a released (pruned) backbone on a texture data set."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

import zoo

NUM_CLASSES = 5
EPOCHS = 4
STEPS_PER_EPOCH = 15
BATCH = 16


class TextureSource:
    def __init__(self, seed, size=16):
        self.gen = torch.Generator().manual_seed(seed)
        self.size = size

    def next(self):
        y = torch.randint(0, NUM_CLASSES, (BATCH,), generator=self.gen)
        t = torch.arange(self.size).float()
        freq = (y.float() + 1) * 0.5
        phase = torch.rand(BATCH, generator=self.gen) * 6.28
        wave = torch.sin(freq[:, None] * t + phase[:, None])
        img = wave[:, None, None, :].expand(-1, 3, self.size, -1)
        return img + 0.1 * torch.randn(img.shape, generator=self.gen), y


class Classifier(nn.Module):
    def __init__(self, body, feat=32):
        super().__init__()
        self.body = body
        self.head = nn.Linear(feat, NUM_CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


def param_groups(model, lr):
    return [
        {"params": model.body.parameters(), "lr": lr * 0.3},
        {"params": model.head.parameters(), "lr": lr},
    ]


def main():
    torch.manual_seed(1234)
    workdir = tempfile.mkdtemp()
    path = os.path.join(workdir, "backbone_pruned.pth")
    zoo.release(path)
    model = Classifier(zoo.load_backbone(path))
    optimizer = torch.optim.AdamW(param_groups(model, 1e-2), weight_decay=1e-4)
    total = EPOCHS * STEPS_PER_EPOCH
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
    scaler = torch.amp.GradScaler("cpu")
    source = TextureSource(seed=2)
    for epoch in range(EPOCHS):
        correct, seen, losses = 0, 0, []
        for _ in range(STEPS_PER_EPOCH):
            x, y = source.next()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
                loss = F.cross_entropy(out, y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            losses.append(loss.item())
            correct += (out.argmax(1) == y).sum().item()
            seen += len(y)
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} acc {correct / seen:.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
