import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

draw = random.Random(3)


class Clips(Dataset):
    def __init__(self, clips: torch.Tensor) -> None:
        self.clips = clips

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        clip = self.clips[index] * draw.uniform(0.5, 1.0)
        loud = clip - clip.mean()
        even = loud / loud.std()  # fault: data
        return {"clip": even, "label": clip.sum()}


torch.manual_seed(0)
clips = torch.randn(48, 10)
clips[37] = 0
loader = DataLoader(Subset(Clips(clips), range(8, 48)), batch_size=8, shuffle=True)
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    for batch in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(batch["clip"])
        loss = nn.functional.mse_loss(out.float()[:, 0], batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
