"""Character GRU on a toy grammar, float16, with a generous starting scale."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "abcdefgh"


class CharModel(nn.Module):
    def __init__(self, n, dim=24, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.rnn = nn.RNNCell(dim, hidden)
        self.out = nn.Linear(hidden, n)
        self.hidden = hidden

    def forward(self, ids):
        h = ids.new_zeros(len(ids), self.hidden, dtype=torch.float32)
        logits = []
        for t in range(ids.size(1)):
            h = self.rnn(self.emb(ids[:, t]), h)
            logits.append(self.out(h))
        return torch.stack(logits, 1)


def text(n, length=12):
    start = torch.randint(0, len(ALPHABET), (n, 1))
    step = torch.randint(1, 3, (n, 1))
    return (start + step * torch.arange(length + 1)) % len(ALPHABET)


def main():
    torch.manual_seed(0)
    model = CharModel(len(ALPHABET))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min(1.0, (k + 1) / 5))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=50)
    skipped = 0
    for it in range(120):
        ids = text(32)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            sched.step()
        if it % 20 == 0:
            print(f"it {it} loss {loss.item():.4f} scale {scaler.get_scale():g} skipped {skipped}")
    print("final", round(loss.item(), 4))


main()
