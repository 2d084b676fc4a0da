import torch


@torch.inference_mode()
def viterbi(logp, tokens):
    """Best monotonic alignment of tokens to frames; returns one token index a frame."""
    t, n = logp.size(0), len(tokens)
    emit = logp[:, tokens]
    score = torch.full((n,), float("-inf"))
    score[0] = emit[0, 0]
    back = torch.zeros(t, n, dtype=torch.long)
    for i in range(1, t):
        stay = score
        move = torch.cat([score.new_full((1,), float("-inf")), score[:-1]])
        score = torch.maximum(stay, move) + emit[i]
        back[i] = (move > stay).long()
    path, j = [], n - 1
    for i in range(t - 1, -1, -1):
        path.append(j)
        j -= int(back[i, j])
    return torch.tensor(path[::-1])


def dtw(a, b):
    cost = torch.cdist(a[None].float(), b[None].float())[0]
    acc = torch.full((len(a) + 1, len(b) + 1), float("inf"))
    acc[0, 0] = 0.0
    for i in range(len(a)):
        for j in range(len(b)):
            acc[i + 1, j + 1] = cost[i, j] + min(acc[i, j].item(), acc[i, j + 1].item(), acc[i + 1, j].item())
    return acc[-1, -1].item() / (len(a) + len(b))
