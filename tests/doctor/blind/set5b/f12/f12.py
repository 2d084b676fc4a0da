"""Group-relative policy optimisation of a tiny token policy: answers to a sum
are sampled, the reward says whether they are right."""
import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical

VOCAB = 10


class Policy(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, width)
        self.body = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, VOCAB))

    def forward(self, pair):
        return self.body(self.emb(pair).flatten(1))


def reward_fn(pair, answer):
    wanted = pair.sum(-1) % VOCAB
    gap = (answer - wanted).abs()
    return (gap == 0).float() + 0.2 * (gap == 1).float()


def group_advantage(rewards):
    """rewards: (prompts, samples per prompt)"""
    mean = rewards.mean(dim=1, keepdim=True)
    std = rewards.std(dim=1, keepdim=True)
    adv = (rewards - mean) / (std + 1e-4)
    return torch.nan_to_num(adv)


def rollout(policy, prompts, samples):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        logits = policy(prompts)
    dist = Categorical(logits=logits.float())
    answers = dist.sample((samples,)).t()
    old_logp = dist.log_prob(answers.t()).t()
    rewards = torch.stack([reward_fn(prompts, answers[:, s]) for s in range(samples)], 1)
    return answers, old_logp, rewards


def update(policy, opt, prompts, answers, old_logp, adv, clip, beta):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = policy(prompts)
    dist = Categorical(logits=logits.float())
    logp = dist.log_prob(answers.t()).t()
    ratio = (logp - old_logp).exp()
    surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    k3 = (old_logp - logp).exp() - 1 - (old_logp - logp)
    loss = -(surrogate - beta * k3).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--prompts", type=int, default=64)
    ap.add_argument("--samples", type=int, default=1)
    ap.add_argument("--iters", type=int, default=80)
    ap.add_argument("--inner", type=int, default=2)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--clip", type=float, default=0.2)
    ap.add_argument("--beta", type=float, default=0.01)
    args = ap.parse_args()
    torch.manual_seed(0)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=args.lr)
    for it in range(args.iters):
        prompts = torch.randint(0, VOCAB, (args.prompts, 2))
        answers, old_logp, rewards = rollout(policy, prompts, args.samples)
        adv = group_advantage(rewards)
        for _ in range(args.inner):
            loss = update(policy, opt, prompts, answers, old_logp, adv, args.clip, args.beta)
        if it % 10 == 0:
            print(f"iter {it:3d} reward {rewards.mean():.3f} loss {loss:+.5f}")


if __name__ == "__main__":
    main()
