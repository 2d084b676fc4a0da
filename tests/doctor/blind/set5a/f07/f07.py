"""Fine-tune a bearing-fault classifier on top of a frozen, pretrained backbone."""
import os
import sys
import tempfile

import torch
import torch.nn as nn

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "f07"))
from backbone import Backbone, pretrain_and_export, signals


class FaultClassifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, classes))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            z = self.backbone(x)
        return self.head(z)


def load_backbone(path):
    net = Backbone()
    ckpt = torch.load(path, map_location="cpu")
    net.load_state_dict(ckpt["model"])
    for p in net.parameters():
        p.requires_grad_(False)
    return net


def main():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "backbone.pt")
        pretrain_and_export(path)
        backbone = load_backbone(path)

    torch.manual_seed(2)
    model = FaultClassifier(backbone, classes=4).train()
    opt = torch.optim.AdamW(model.head.parameters(), lr=5e-3)
    x, y = signals(640, 4, seed=21)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(6):
        perm = torch.randperm(len(x))
        total, hits = 0.0, 0
        for i in range(0, len(x), 64):
            b = perm[i:i + 64]
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = model(x[b])
                loss = loss_fn(out, y[b])
            loss.backward()
            opt.step()
            total += loss.item() * len(b)
            hits += (out.argmax(1) == y[b]).sum().item()
        print(f"epoch {epoch}: loss {total / len(x):.4f} acc {hits / len(x):.3f}")


if __name__ == "__main__":
    main()
