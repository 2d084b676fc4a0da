import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(10, 6).requires_grad_(False)
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.head = nn.Linear(6, 10)

    def trunk(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x

    def forward(self, ids):
        x = checkpoint(self.trunk, self.tokens(ids), use_reentrant=True)  # fault: no-gradients
        return self.head(x)


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    ids = torch.randint(10, (8,))
    loss = nn.functional.cross_entropy(model(ids), ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
