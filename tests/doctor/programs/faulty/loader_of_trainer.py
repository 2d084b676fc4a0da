import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self) -> None:
        self.patches = torch.rand(40, 9)
        self.patches[23] = 0.5

    def __len__(self) -> int:
        return len(self.patches)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        patch = self.patches[index]
        return (patch - patch.mean()) / patch.std(), index % 2  # fault: data


class Trainer:
    def __init__(self) -> None:
        self.batches = DataLoader(Patches(), batch_size=8)
        self.model = nn.Linear(9, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.scaler = torch.amp.GradScaler("cpu")

    def epoch(self) -> None:
        for x, y in self.batches:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(2):
    trainer.epoch()
