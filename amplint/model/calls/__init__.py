"""The call graph, the AMP events of calls, and the effects of calls out of sight."""
