import torch
import torch.nn.functional as F

from .backbone import adapt, pretrained


class FineTuner:
    def __init__(self, classes, lr):
        self.model = pretrained()
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.0)
        self.model = adapt(self.model, classes)

    def step(self, x, y):
        self.model.train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.model(x)
        loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        self.optim.step()
        self.optim.zero_grad()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, x, y):
        self.model.eval()
        return (self.model(x).argmax(1) == y).float().mean().item()
