import os
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset

from dcrnn import Forecaster
from sensors import TrafficWindows, export_readings


class BaseTrainer:
    max_norm = 1.0

    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader = model, optimizer, loader
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
        self.losses = []

    def forward_loss(self, batch):
        raise NotImplementedError

    def backward(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def fit(self):
        self.model.train()
        for i, batch in enumerate(self.loader):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = self.forward_loss(batch)
            self.backward(loss)
            self.losses.append(loss.item())
            if i % 5 == 4:
                last = self.losses[-5:]
                print(f"{i + 1:3d}/{len(self.loader)}  mae {sum(last) / 5:.4f}", flush=True)


class TrafficTrainer(BaseTrainer):
    def forward_loss(self, batch):
        window, future = batch
        return F.l1_loss(self.model(window), future)


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as tmp:
        csv = os.path.join(tmp, "detectors.csv")
        export_readings(csv)
        data = TrafficWindows(csv)
        loader = DataLoader(Subset(data, range(0, len(data) - 30, 2)), batch_size=16, num_workers=1)
        model = Forecaster(8)
        trainer = TrafficTrainer(model, torch.optim.AdamW(model.parameters(), lr=4e-3), loader)
        trainer.fit()
    tail = torch.tensor(trainer.losses[-10:])
    print("mean absolute error of the last ten batches:", tail.mean().item())


if __name__ == "__main__":
    main()
