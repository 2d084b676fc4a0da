"""Data-parallel helper for many-core hosts: one worker thread a shard."""
from concurrent.futures import ThreadPoolExecutor

import torch


class ShardedForward:
    def __init__(self, module, shards=2):
        self.module = module
        self.pool = ThreadPoolExecutor(max_workers=shards)
        self.shards = shards

    def scatter(self, *tensors):
        return list(zip(*[t.chunk(self.shards) for t in tensors]))

    def __call__(self, *tensors):
        futures = [self.pool.submit(self.module, *part) for part in self.scatter(*tensors)]
        return torch.cat([f.result() for f in futures])

    def close(self):
        self.pool.shutdown()
