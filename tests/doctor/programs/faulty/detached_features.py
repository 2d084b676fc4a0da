import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

    def features(self, x):
        h = torch.relu(self.encoder(x))
        return h.detach()  # fault: no-gradients AMP407

    def forward(self, x):
        return self.head(self.features(x))


model = Net()
a = torch.optim.SGD(model.encoder.parameters(), lr=0.1)
b = torch.optim.SGD(model.head.parameters(), lr=0.1)
for _ in range(8):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
    a.zero_grad()
    b.zero_grad()
    loss.backward()
    a.step()
    b.step()
