import torch
import torch.nn as nn

from engine import BoundedClip, WeightEma, run_epoch
from quant import QuantMixer

torch.manual_seed(4)
proto = torch.randn(5, 16, 4)
y = torch.randint(0, 5, (1200,))
x = proto[y] + 1.2 * torch.randn(1200, 16, 4)
batches = list(zip(x.split(24), y.split(24)))
model = QuantMixer()
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", growth_interval=40)
ema = WeightEma(model, 0.95)
for epoch in range(4):
    loss, norm = run_epoch(model, batches, nn.CrossEntropyLoss(), opt, scaler, BoundedClip(1.0), ema, accum=4)
    print(f"epoch {epoch}: loss {loss:.4f}, raw grad norm {norm:.1f}, scale {scaler.get_scale():.0f}")
model.load_state_dict(ema.state)
with torch.no_grad():
    print("train accuracy of the averaged weights", (model(x).argmax(1) == y).float().mean().item())
