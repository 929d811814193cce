# scheduler/policy/goodput_rigid.c
# No job of one size competes.
s/if (io->is_forced || job->goodput.curve/if (job->gpus == 0 || job->goodput.curve/
