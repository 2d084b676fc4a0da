"""Fine-tune the folded backbone for a blob counting regression."""
import os
import tempfile

import torch
from torch import nn

import pretrain
from backbone import Folded, build


def blobs(n, g):
    yy, xx = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    count = torch.randint(1, 7, (n,), generator=g)
    img = 0.2 * torch.randn(n, 3, 32, 32, generator=g)
    for i in range(n):
        for _ in range(int(count[i])):
            cy, cx = (torch.rand(2, generator=g) * 26 + 3).tolist()
            img[i] += torch.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 6.0)
    return img, count.float()


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = build(Folded)
        self.head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.backbone(x).mean((2, 3))).squeeze(1)


def load_backbone(model, path):
    state = torch.load(path, map_location="cpu")
    missing = model.backbone.load_state_dict(state, strict=True)
    print("backbone restored:", missing)


def main(epochs=4, steps=25):
    torch.manual_seed(13)
    g = torch.Generator().manual_seed(1)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "shapes_folded.pt")
        pretrain.run(path)
        model = Counter()
        load_backbone(model, path)
    opt = torch.optim.AdamW([
        {"params": model.backbone.parameters(), "lr": 3e-4},
        {"params": model.head.parameters(), "lr": 3e-3}])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    for epoch in range(epochs):
        total = 0.0
        for _ in range(steps):
            x, y = blobs(24, g)
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(x)
            loss = nn.functional.smooth_l1_loss(pred.float(), y)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            x, y = blobs(64, g)
            mae = (model(x) - y).abs().mean().item()
        model.train()
        print(f"epoch {epoch} loss {total / steps:.4f} mae {mae:.4f}")


if __name__ == "__main__":
    main()
