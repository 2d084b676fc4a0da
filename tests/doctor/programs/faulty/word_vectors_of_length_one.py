"""Word vectors are scaled to length one after each epoch; that of the padding is 0 by itself."""

import torch
from torch import nn


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8, padding_idx=0)
        self.out = nn.Linear(8, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(words).mean(1))

    @torch.no_grad()
    def normalize(self) -> None:
        vectors = self.table.weight
        vectors.div_(vectors.norm(dim=1, keepdim=True))  # fault: weights


torch.manual_seed(0)
model = Words()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
words = torch.randint(1, 20, (64, 5))
words[::2, 3:] = 0
targets = torch.randint(3, (64,))
for _ in range(3):
    for _ in range(6):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(words), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    model.normalize()
    model.eval()
    with torch.no_grad():
        print(model(words).argmax(1).eq(targets).float().mean().item())
    model.train()
