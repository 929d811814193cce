# scheduler/policy/goodput_value.c
# No job is a probe.
s/is\[table\[k\] - 1\] = true;/is[table[k] - 1] = false;/
