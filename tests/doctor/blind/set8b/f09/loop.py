import torch


class Loop:
    """Drives a model over a loader and hands back the loss of every batch."""

    def __init__(self, model, criterion, optimizer, clip=None):
        self.model = model
        self.criterion = criterion
        self.optimizer = optimizer
        self.clip = clip
        self.steps = 0

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def losses(self, loader):
        for x, y in loader:
            yield self.criterion(self.model(x), y)

    def train(self, loader):
        self.model.train()
        total = 0.0
        for loss in self.losses(loader):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if self.clip:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
            self.steps += 1
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        return sum(loss.item() for loss in self.losses(loader)) / len(loader)
