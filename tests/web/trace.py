"""trace.py - what the tasks of a page's thread cost, for benches.

A task is the time in which the page answers no key. Its time on the clock grows
with what else the machine does; its CPU time is what the page needs. Chromium
traces both.
"""
import json
import os

CATEGORIES = "toplevel"
TASK = "ThreadControllerImpl::RunTask"


class Trace:
    """The tasks of a page in a Browser(CATEGORIES)."""

    def __init__(self, driver):
        self.driver = driver
        self.mains = set()  # (process, thread)
        self.take()

    def take(self):
        """[(ms on the clock, ms of CPU)] of all tasks since the last call."""
        tasks = []
        log = self.driver.get_log("performance")
        self.driver.get_log("performance")  # the first call ends the trace, this one begins the next
        for entry in log:
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Tracing.dataCollected":
                continue
            e = message["params"]
            who = (e.get("pid"), e.get("tid"))
            if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain":
                self.mains.add(who)
            elif e["name"] == TASK and "tdur" in e:
                tasks.append((who, e["dur"] / 1000, e["tdur"] / 1000))
        return [(wall, cpu) for who, wall, cpu in tasks if who in self.mains]

    def line(self):
        """The longest task since the last call, and all of them."""
        tasks = self.take()
        if not tasks:
            return "not known, the driver has lost the trace"
        wall, cpu = (max((t[i] for t in tasks), default=0) for i in (0, 1))
        return (f"longest task {cpu:.0f} ms of CPU ({wall:.0f} ms on the clock), "
                f"all {len(tasks)} tasks {sum(t[1] for t in tasks):.0f} ms of CPU")


def cpu_s(pid):
    """Seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
