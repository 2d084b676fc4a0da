"""Line recognition with CTC; a few strips are shorter than their text and the
per-character report has classes without a sample."""
import torch
import torch.nn as nn

ALPHABET = "_abcdefgh"


class Strips:
    def __init__(self, n=160, seed=4):
        g = torch.Generator().manual_seed(seed)
        glyph = torch.randn(len(ALPHABET), 12, generator=g)
        self.rows = []
        for i in range(n):
            length = int(torch.randint(2, 5, (1,), generator=g))
            text = torch.randint(1, len(ALPHABET) - 2, (length,), generator=g)
            spread = 3 if i % 40 else 0
            cols = []
            for c in text.tolist():
                cols += [glyph[c]] * spread + [glyph[0]]
            if not spread:
                cols = [glyph[0]] * (length - 1)
            strip = torch.stack(cols) + 0.3 * torch.randn(len(cols), 12, generator=g)
            self.rows.append((strip, text))

    def batches(self, size):
        order = torch.randperm(len(self.rows)).tolist()
        for k in range(0, len(order), size):
            part = [self.rows[i] for i in order[k:k + size]]
            strips = nn.utils.rnn.pad_sequence([p[0] for p in part], batch_first=True)
            texts = torch.cat([p[1] for p in part])
            yield (strips, texts, torch.tensor([len(p[0]) for p in part]), torch.tensor([len(p[1]) for p in part]))


class Reader(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.conv = nn.Conv1d(12, width, 3, padding=1)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, len(ALPHABET))

    def forward(self, strips):
        h = torch.relu(self.conv(strips.transpose(1, 2))).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.out(h)


def decode(logits, lengths):
    best = logits.argmax(-1)
    texts = []
    for row, n in zip(best, lengths.tolist()):
        row = torch.unique_consecutive(row[:n])
        texts.append(row[row != 0].tolist())
    return texts


def report(model, data):
    right = torch.zeros(len(ALPHABET))
    count = torch.zeros(len(ALPHABET))
    whole = n = 0
    with torch.no_grad():
        for strips, texts, in_len, out_len in data.batches(40):
            guess = decode(model(strips), in_len)
            for g, t in zip(guess, texts.split(out_len.tolist())):
                whole += g == t.tolist()
                n += 1
                for k, c in enumerate(t.tolist()):
                    count[c] += 1
                    right[c] += k < len(g) and g[k] == c
    return whole / n, right / count


def main():
    torch.manual_seed(0)
    data = Strips()
    model = Reader()
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    opt = torch.optim.AdamW(model.parameters(), lr=8e-3)
    for epoch in range(14):
        total = k = 0
        for strips, texts, in_len, out_len in data.batches(20):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(strips)
            logp = logits.float().log_softmax(-1).transpose(0, 1)
            loss = criterion(logp, texts, in_len, out_len)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            total, k = total + loss.item(), k + 1
        if epoch % 3 == 0:
            print(f"epoch {epoch} ctc {total / k:.4f}")
    whole, per = report(model, data)
    print(f"lines right {whole:.3f}; per letter", " ".join(f"{c}:{v:.2f}" for c, v in zip(ALPHABET, per.tolist())))


if __name__ == "__main__":
    main()
