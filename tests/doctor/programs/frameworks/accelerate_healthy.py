import torch
from accelerate import Accelerator
from torch import nn

GPU = torch.cuda.is_available()  # float16 needs one
torch.manual_seed(0)
precision = "fp16" if GPU else "bf16"
accelerator = Accelerator(cpu=not GPU, mixed_precision=precision, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(3):
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        print(epoch, loss.item())
    model.eval()
    with torch.no_grad():
        print(sum(model(x).argmax(-1).eq(y).sum().item() for x, y in loader))
