import torch


def simulate(n, length, kinds, generator):
    """Marked event streams: the mark decides how long the next wait is."""
    pace = torch.linspace(0.3, 1.2, kinds)
    move = torch.full((kinds, kinds), 0.1) + torch.roll(torch.eye(kinds), 1, 1) * 2.0
    kind = torch.randint(kinds, (n,), generator=generator)
    clock = torch.zeros(n)
    marks, times = [], []
    for _ in range(length):
        marks.append(kind)
        times.append(clock)
        wait = torch.empty(n).exponential_(generator=generator) * pace[kind]
        clock = clock + wait
        kind = torch.multinomial(move[kind], 1, generator=generator).squeeze(1)
    return torch.stack(marks, 1), torch.stack(times, 1)


class EventLoader:
    def __init__(self, marks, times, batch, seed):
        self.marks, self.times, self.batch = marks, times, batch
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self):
        return len(self.marks) // self.batch

    def __iter__(self):
        order = torch.randperm(len(self.marks), generator=self.generator)
        for i in range(len(self)):
            idx = order[i * self.batch:(i + 1) * self.batch]
            yield self.marks[idx], self.times[idx]
