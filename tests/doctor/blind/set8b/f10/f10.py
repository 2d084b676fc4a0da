"""Group-relative policy optimisation of a token policy on a toy copying task."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 6


class Policy(nn.Module):
    def __init__(self, length, dim=48):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(length, dim)
        self.body = nn.Sequential(nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim), nn.LayerNorm(dim))
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, prompt):
        h = self.tok(prompt) + self.pos.weight[: prompt.size(1)]
        return self.head(self.body(h))


class Rollouts:
    def __init__(self, policy, group, dtype):
        self.policy, self.group, self.dtype = policy, group, dtype

    @torch.no_grad()
    def sample(self, prompts):
        x = prompts.repeat_interleave(self.group, 0)
        with torch.autocast("cpu", dtype=self.dtype):
            logits = self.policy(x)
        probs = logits.float().softmax(-1)
        act = torch.multinomial(probs.flatten(0, 1), 1).view_as(x)
        logp = probs.log().gather(-1, act[..., None]).squeeze(-1)
        return x, act, logp


def reward(x, act):
    return (act == (VOCAB - 1 - x)).float().mean(-1)


def group_advantage(r, group):
    r = r.view(-1, group)
    adv = (r - r.mean(1, keepdim=True)) / r.std(1, keepdim=True)
    return adv.view(-1)


def surrogate(logits, act, old, adv, clip):
    logp = F.log_softmax(logits.float(), -1).gather(-1, act[..., None]).squeeze(-1)
    ratio = (logp - old).exp()
    a = adv[:, None]
    gain = torch.minimum(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a).mean()
    entropy = -(F.softmax(logits.float(), -1) * F.log_softmax(logits.float(), -1)).sum(-1).mean()
    return -gain, entropy


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=150)
    p.add_argument("--prompts", type=int, default=16)
    p.add_argument("--group", type=int, default=16)
    p.add_argument("--length", type=int, default=16)
    p.add_argument("--inner", type=int, default=2)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--ent", type=float, default=1e-3)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(4)

    policy = Policy(args.length)
    opt = torch.optim.Adam(policy.parameters(), lr=args.lr)
    rollouts = Rollouts(policy, args.group, torch.bfloat16)
    for it in range(args.iters):
        prompts = torch.randint(VOCAB, (args.prompts, args.length))
        x, act, old = rollouts.sample(prompts)
        r = reward(x, act)
        adv = group_advantage(r, args.group)
        for _ in range(args.inner):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = policy(x)
            loss, ent = surrogate(logits, act, old, adv, args.clip)
            opt.zero_grad()
            (loss - args.ent * ent).backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            opt.step()
        if it % 10 == 0:
            print(f"iter {it:3d} reward {r.mean():.3f} entropy {ent.item():.3f} loss {loss.item():+.4f}")
    print("final reward", round(r.mean().item(), 3))


if __name__ == "__main__":
    main()
