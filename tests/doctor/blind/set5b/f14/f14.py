"""Predict the next note of simple melodies with a GRU."""
import torch
from torch import nn, optim

SCALE = [0, 2, 4, 5, 7, 9, 11, 12]


def melodies(n, length, seed=0):
    g = torch.Generator().manual_seed(seed)
    step = torch.tensor([1, 1, -1, 2, -2])
    pos = torch.randint(0, 8, (n,), generator=g)
    phase = torch.randint(0, 5, (n,), generator=g)
    out = []
    for t in range(length):
        out.append(pos.clone())
        pos = (pos + step[(phase + t) % 5]) % 8
    return torch.stack(out, 1)


class NoteModel(nn.Module):
    def __init__(self, notes=8, width=48):
        super().__init__()
        self.emb = nn.Embedding(notes, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, notes)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


class Trainer:
    scaler_options = dict(init_scale=2.0 ** 16, growth_factor=8.0, backoff_factor=0.95, growth_interval=1)

    def __init__(self, model, lr):
        self.model = model
        self.opt = optim.Adam(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", **self.scaler_options)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, x):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(x[:, :-1])
            loss = self.criterion(logits.float().flatten(0, 1), x[:, 1:].flatten())
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def main():
    torch.manual_seed(0)
    data = melodies(256, 17)
    trainer = Trainer(NoteModel(), lr=1e-2)
    losses = []
    for it in range(120):
        losses.append(trainer.step(data[torch.randint(0, 256, (32,))]))
        if it % 15 == 14:
            print(f"it {it + 1:3d} loss {sum(losses[-15:]) / 15:.4f} scale {trainer.scaler.get_scale():.3g}")
    state = trainer.opt.state[trainer.model.out.bias]
    print(f"optimizer steps {int(state['step'])} of {len(losses)}")


if __name__ == "__main__":
    main()
