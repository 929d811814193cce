# scheduler/policy/goodput_in_time.c
# No time limit is looked at.
s/if (first > 0)/if (first < 0)/
