"""Speech-like toy with CTC: some targets are longer than their inputs."""
import torch
import torch.nn as nn


class Recognizer(nn.Module):
    def __init__(self, feats=8, symbols=6, width=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(feats, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        )
        self.out = nn.Linear(width, symbols)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.out(h).log_softmax(-1)


def utterances(n, code, frames=20):
    x = 0.2 * torch.randn(n, frames, code.size(1))
    lengths = torch.full((n,), frames)
    targets, sizes = [], []
    for i in range(n):
        k = int(torch.randint(2, 6, (1,)))
        word = torch.randint(1, len(code), (k,))
        for j, s in enumerate(word):
            x[i, 4 * j : 4 * j + 3] += code[s]
        if i % 8 == 0:  # clipped recordings
            lengths[i] = 3
            word = torch.randint(1, len(code), (5,))
        targets.append(word)
        sizes.append(len(word))
    return x, torch.cat(targets), lengths, torch.tensor(sizes)


def main():
    torch.manual_seed(1)
    code = torch.randn(6, 8) * 1.5
    net = Recognizer()
    raw = nn.CTCLoss(blank=0, reduction="none")
    crit = nn.CTCLoss(blank=0, zero_infinity=True)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for step in range(80):
        x, t, xl, tl = utterances(16, code)
        logp = net(x).transpose(0, 1)
        loss = crit(logp, t, xl, tl)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 16 == 0:
            with torch.no_grad():
                each = raw(logp, t, xl, tl)
            print(f"step {step} loss {loss.item():.4f} unreachable {int(each.isinf().sum())}/16")
    net.eval()
    with torch.no_grad():
        x, t, xl, tl = utterances(8, code)
        print("frames kept", int((net(x).argmax(-1) != 0).sum()), "final loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
