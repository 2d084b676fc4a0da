import torch
from torch.nn import functional as F

torch.manual_seed(0)
table = torch.randn(20, 8)
table[13] = float("nan")
table.requires_grad_()
head = torch.randn(2, 8, requires_grad=True)


def classify(words):
    pooled = F.embedding(words, table).mean(1)  # fault: weights
    return F.linear(pooled, head)


optimizer = torch.optim.AdamW([table, head])
for step in range(10):
    words = torch.randint(0, 13 if step < 7 else 14, (16, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(classify(words).float(), torch.randint(0, 2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
