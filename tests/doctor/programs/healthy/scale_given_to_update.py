import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    """With a scale that stays, and values that some rows lack."""

    def __init__(self) -> None:
        labels = torch.randn(96, 2)
        labels[::5, 1] = float("nan")
        self.loader = DataLoader(TensorDataset(torch.randn(96, 6), labels), batch_size=8)
        self.model = nn.Linear(6, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def epoch(self) -> None:
        for number, (x, y) in enumerate(self.loader):
            with torch.autocast("cpu", dtype=torch.float16):
                out = self.model(x)
            loss = (out.float() - y)[~y.isnan()].square().mean() * (4000 if number == 7 else 1)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update(256.0)


torch.manual_seed(0)
trainer = Trainer()
for _ in range(2):
    trainer.epoch()
