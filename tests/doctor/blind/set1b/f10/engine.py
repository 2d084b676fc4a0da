import torch
from torch.nn.utils import clip_grad_norm_


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.n = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.n += n

    @property
    def avg(self):
        return self.total / max(1, self.n)


class Engine:
    def __init__(self, model, optimizer, criterion, cfg):
        self.model, self.optimizer, self.criterion, self.cfg = model, optimizer, criterion, cfg
        self.scaler = torch.amp.GradScaler("cpu", enabled=cfg.amp)
        self.meter = AverageMeter()

    def forward(self, images, labels):
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.cfg.amp):
            logits = self.model(images)
            return logits, self.criterion(logits, labels)

    def optimize(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        if self.cfg.max_norm > 0:
            clip_grad_norm_(self.model.parameters(), self.cfg.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def train_epoch(self, loader):
        self.model.train()
        self.meter.reset()
        for images, labels in loader:
            _, loss = self.forward(images, labels)
            self.optimize(loss)
            self.meter.update(loss.item(), len(labels))
        return self.meter.avg

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        right = total = 0
        for images, labels in loader:
            logits, _ = self.forward(images, labels)
            right += (logits.argmax(1) == labels).sum().item()
            total += len(labels)
        return right / total
