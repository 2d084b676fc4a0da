from dataclasses import dataclass


@dataclass
class Stage:
    name: str
    until: int
    rec: float
    codebook: float
    commit: float


STAGES = [
    Stage("warmup", 15, rec=1.0, codebook=1.0, commit=0.25),
    Stage("joint", 35, rec=1.0, codebook=0.5, commit=0.25),
    Stage("polish", 60, rec=1.0, codebook=0.0, commit=0.1),
]


def stage_at(step):
    for s in STAGES:
        if step < s.until:
            return s
    return STAGES[-1]
