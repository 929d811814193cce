# scheduler/policy/goodput_sizes.c
# To be paused costs a job nothing.
s/LOSS_MAX = 3;/LOSS_MAX = 0;/
