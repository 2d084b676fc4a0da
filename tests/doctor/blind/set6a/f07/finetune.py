import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import SGD

from net import SpectrumNet, counts

HERE = os.path.dirname(os.path.abspath(__file__))


def load_encoder(model, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    missing = model.encoder.load_state_dict(state, strict=True)
    print("encoder restored:", missing)


class FineTuner:
    def __init__(self, classes=3, lr=0.05):
        self.model = SpectrumNet(classes=classes)
        load_encoder(self.model, os.path.join(HERE, "encoder.pt"))
        self.opt = SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def freeze_bn(self):
        self.model.train()
        for m in self.model.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.eval()

    def run(self, steps=100):
        gen = torch.Generator().manual_seed(9)
        self.freeze_bn()
        for step in range(steps):
            x, y = counts(64, 3, gen, shift=2)
            self.opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = self.model(x)
                loss = F.cross_entropy(logits, y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
            if step % 10 == 0:
                acc = (logits.argmax(1) == y).float().mean().item()
                print(f"step {step:3d} loss {loss.item():.4f} acc {acc:.2f}")


if __name__ == "__main__":
    torch.manual_seed(1)
    FineTuner().run()
