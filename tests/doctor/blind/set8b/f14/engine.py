import warnings

import torch

warnings.filterwarnings("ignore")


class Trainer:
    """Small training loop with mixed precision, accumulation and averaging."""

    def __init__(self, model, optimizer, criterion, amp=True, accumulate=1, clip=None):
        self.model = model
        self.optimizer = optimizer
        self.criterion = criterion
        self.accumulate = accumulate
        self.clip = clip
        self.amp = amp
        self.scaler = torch.amp.GradScaler(enabled=amp)

    def loss(self, batch):
        x, y = batch
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.amp):
            return self.criterion(self.model(x), y)

    def run(self, loader):
        self.model.train()
        total = 0.0
        self.optimizer.zero_grad()
        for i, batch in enumerate(loader, 1):
            loss = self.loss(batch)
            self.scaler.scale(loss / self.accumulate).backward()
            total += loss.item()
            if i % self.accumulate == 0:
                if self.clip is not None:
                    self.scaler.unscale_(self.optimizer)
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
        return total / len(loader)

    @torch.no_grad()
    def test(self, loader):
        self.model.eval()
        return sum(self.loss(b).item() for b in loader) / len(loader)
