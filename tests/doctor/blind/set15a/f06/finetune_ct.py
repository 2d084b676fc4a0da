"""Fine-tune a CT slice encoder for lesion type: frozen encoder from a checkpoint, small head."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


class Encoder(nn.Module):
    """Takes raw 12-bit intensities; the first norm does the scaling."""

    def __init__(self, width=32):
        super().__init__()
        self.bn0 = nn.BatchNorm2d(1)
        self.stem = nn.Conv2d(1, width, 5, 2, 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.conv3 = nn.Conv2d(2 * width, 2 * width, 3, 2, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(2 * width)

    def forward(self, x):
        x = self.bn0(x)
        x = F.relu(self.bn1(self.stem(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        return x.mean((2, 3))


class Classifier(nn.Module):
    def __init__(self, encoder, n_classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, n_classes))

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()  # keep the running statistics
        return self

    def forward(self, x):
        with torch.no_grad():
            z = self.encoder(x)
        return self.head(z)


def load_encoder(path):
    enc = Encoder()
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = {k.removeprefix("module."): v.float() for k, v in state["ema"].items()}
    missing, unexpected = enc.load_state_dict(state, strict=False)
    print("loaded", path.split(os.sep)[-1], "missing", missing, "unexpected", unexpected)
    for p in enc.parameters():
        p.requires_grad_(False)
    return enc


def slices(n, size=48):
    y = torch.randint(0, 4, (n,))
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    img = 1000 + 300 * torch.randn(n, 1, size, size)
    for i in range(n):
        r = 4 + 3 * int(y[i] // 2)
        cy, cx = torch.randint(r, size - r, (2,)).tolist()
        inside = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        img[i, 0, inside] += 1500.0 if y[i] % 2 else -900.0
    return img, y


def main():
    torch.manual_seed(1)
    model = Classifier(load_encoder(os.path.join(HERE, "ct_encoder_fp16.pt")), 4)
    opt = torch.optim.AdamW(model.head.parameters(), lr=3e-3)
    xs, ys = slices(384)
    for epoch in range(6):
        model.train()
        perm = torch.randperm(len(xs))
        tot, hit = 0.0, 0
        for idx in perm.split(32):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(xs[idx])
                loss = F.cross_entropy(logits, ys[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
            hit += (logits.argmax(1) == ys[idx]).sum().item()
        print(f"epoch {epoch} loss {tot / len(xs):.4f} acc {hit / len(xs):.3f}")


if __name__ == "__main__":
    main()
