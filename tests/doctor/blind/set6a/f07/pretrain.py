"""Trains the encoder on the source detector and writes encoder.pt (run once)."""
import torch
import torch.nn.functional as F
from net import SpectrumNet, counts

torch.manual_seed(0)
gen = torch.Generator().manual_seed(0)
net = SpectrumNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(80):
    x, y = counts(64, 4, gen)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("pretrain loss", loss.item())
state = {k: v.half() if v.is_floating_point() else v for k, v in net.encoder.state_dict().items()}
torch.save(state, "encoder.pt")
