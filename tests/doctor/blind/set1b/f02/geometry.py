"""Conversions between the network's output and metric depth."""


def disp_to_depth(disp, min_depth, max_depth):
    min_disp = 1.0 / max_depth
    max_disp = 1.0 / min_depth
    scaled_disp = min_disp + (max_disp - min_disp) * disp
    depth = 1.0 / scaled_disp
    return scaled_disp, depth
