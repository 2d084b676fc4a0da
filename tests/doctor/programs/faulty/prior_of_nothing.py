import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, shares):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.out = nn.Linear(8, 3)
        with torch.no_grad():
            self.out.bias.copy_(torch.log(shares))  # fault: weights

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


torch.manual_seed(0)
model = Tagger(torch.tensor([0.5, 0.5, 0.0]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    output = model(torch.randn(8, 6))
    loss = nn.functional.binary_cross_entropy_with_logits(output, torch.ones(8, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
