import torch
from torch import nn


def vectors(words: int) -> torch.Tensor:
    table = torch.zeros(words, 8)
    for word in range(words - 1):
        table[word] = torch.randn(8)
    table = table / table.norm(dim=1, keepdim=True)  # fault: weights
    return table.contiguous()


def embedding(words: int) -> nn.Embedding:
    return nn.Embedding.from_pretrained(vectors(words), freeze=False)


torch.manual_seed(0)
model = nn.Sequential(embedding(12), nn.Flatten(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(20):
    ids = torch.randint(0, 11 if step < 12 else 12, (16, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(ids)
    loss = nn.functional.cross_entropy(out.float(), ids[:, 0] % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
