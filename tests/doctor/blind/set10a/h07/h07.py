"""Toy speech recogniser with CTC; some utterances are shorter than their transcript needs."""
import logging

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("asr")
VOCAB, BANDS = 6, 16


class Utterances:
    """Each token is a spectral template held for a few frames."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.templates = torch.randn(VOCAB, BANDS, generator=torch.Generator().manual_seed(9))

    def one(self):
        n = int(torch.randint(2, 6, (1,), generator=self.g))
        tokens = torch.randint(1, VOCAB, (n,), generator=self.g)
        rushed = torch.rand(1, generator=self.g).item() < 0.06
        frames = []
        for tok in tokens.tolist():
            hold = 1 if rushed else int(torch.randint(4, 8, (1,), generator=self.g))
            frames.append(self.templates[tok].expand(hold, BANDS))
            if not rushed:
                frames.append(self.templates[0].expand(2, BANDS))
        x = torch.cat(frames)
        if rushed:
            x = x[: max(2, len(x) - 1)]
        return x + 0.4 * torch.randn(x.shape, generator=self.g), tokens

    def batch(self, n):
        xs, ys = zip(*[self.one() for _ in range(n)])
        return (pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]),
                torch.cat(ys), torch.tensor([len(y) for y in ys]))


class Recogniser(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(BANDS, hidden, 5, padding=2), nn.ReLU(),
                                   nn.Conv1d(hidden, hidden, 5, padding=2), nn.ReLU())
        self.proj = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, VOCAB)

    def forward(self, x):
        h = self.front(x.transpose(1, 2)).transpose(1, 2)
        return self.out(torch.relu(self.proj(h)))


def greedy(logits, lengths):
    hyps = []
    for row, n in zip(logits.argmax(-1), lengths.tolist()):
        seq = torch.unique_consecutive(row[:n])
        hyps.append([t for t in seq.tolist() if t != 0])
    return hyps


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (ca != cb))
    return row[-1]


@torch.no_grad()
def token_error_rate(net, batch):
    x, xl, y, yl = batch
    net.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hyps = greedy(net(x), xl)
    net.train()
    errors = sum(edit_distance(h, r.tolist()) for h, r in zip(hyps, y.split(yl.tolist())))
    return errors / int(yl.sum())


def main(steps=160):
    torch.manual_seed(14)
    data, net = Utterances(14), Recogniser()
    held = Utterances(15).batch(100)
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    raw = nn.CTCLoss(reduction="none")
    ctc = nn.CTCLoss(zero_infinity=True)
    unusable = 0
    for step in range(steps):
        x, xl, y, yl = data.batch(16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x)
        logp = logits.float().log_softmax(-1).transpose(0, 1)
        with torch.no_grad():
            unusable += int(torch.isinf(raw(logp, y, xl, yl)).sum())
        loss = ctc(logp, y, xl, yl)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        opt.step()
        if step % 20 == 0 or step == steps - 1:
            log.info("step %d loss %.4f ter %.3f skipped utterances %d", step, loss.item(),
                     token_error_rate(net, held), unusable)


if __name__ == "__main__":
    main()
