#!/usr/bin/python3
"""Write jobs/examples/story-pairs/{train,val}.jsonl.

usage: story_pairs.py OUT_DIR

Each row has a prompt, a chosen answer and a rejected one, all put together
here from the lists below: the chosen answer ends well, the rejected one does
not. The words are those of TinyStories; no text of it is used.
"""
import json
import os
import random
import sys

NAMES = ["Lily", "Tom", "Sue", "Ben", "Mia", "Tim", "Anna", "Max"]
THINGS = ["red ball", "big box", "little cat", "toy car", "blue hat",
          "small dog", "green tree", "shiny rock"]
PLACES = ["in the park", "at home", "near the lake", "in the garden"]
GOOD = ["%s was happy and played all day.", "%s smiled and said thank you.",
        "%s shared it with a friend.", "%s and Mom laughed together."]
BAD = ["%s was sad and cried all day.", "%s was angry and said no.",
       "%s broke it and ran away.", "%s and Mom were very scared."]


def main():
    out, = sys.argv[1:]
    rng = random.Random(1)
    rows = []
    for name in NAMES:
        for thing in THINGS:
            k = rng.randrange(4)
            rows.append({
                "prompt": "One day, %s saw a %s %s." % (
                    name, thing, rng.choice(PLACES)),
                "chosen": GOOD[k] % name, "rejected": BAD[k] % name})
    rng.shuffle(rows)
    os.makedirs(out, exist_ok=True)
    for part, some in (("train", rows[:48]), ("val", rows[48:])):
        with open(os.path.join(out, part + ".jsonl"), "w") as f:
            for r in some:
                f.write(json.dumps(r) + "\n")


main()
