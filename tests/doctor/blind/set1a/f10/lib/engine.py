import torch


class AverageMeter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def add(self, v, k=1):
        self.sum += v * k
        self.n += k

    @property
    def avg(self):
        return self.sum / max(self.n, 1)


class Engine:
    def __init__(self, model, criterion, optimizer, scheduler=None, accum=1, max_norm=None, device="cpu"):
        self.model, self.criterion = model, criterion
        self.optimizer, self.scheduler = optimizer, scheduler
        self.accum, self.max_norm, self.device = accum, max_norm, device
        self.scaler = torch.amp.GradScaler(device)
        self.micro = 0

    def backward(self, loss):
        self.scaler.scale(loss / self.accum).backward()
        self.micro += 1
        if self.micro % self.accum == 0:
            self._apply()

    def _apply(self):
        if self.max_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if self.scheduler is not None:
            self.scheduler.step()

    def train(self, loader):
        self.model.train()
        meter = AverageMeter()
        for images, labels in loader:
            images, labels = images.to(self.device), labels.to(self.device)
            with torch.autocast(self.device, dtype=torch.float16):
                loss = self.criterion(self.model(images), labels)
            self.backward(loss)
            meter.add(loss.item(), len(labels))
        return meter.avg

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        acc = AverageMeter()
        for images, labels in loader:
            pred = self.model(images.to(self.device)).argmax(1).cpu()
            acc.add((pred == labels).float().mean().item(), len(labels))
        return acc.avg
