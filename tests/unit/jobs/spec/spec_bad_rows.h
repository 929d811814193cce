/* spec_bad_rows.h - what a row of spec_bad.c is, and the rows on a constant
 * global batch and on what saves. */
#ifndef MGPU_TESTS_JOBS_SPEC_SPEC_BAD_ROWS_H
#define MGPU_TESTS_JOBS_SPEC_SPEC_BAD_ROWS_H

#define HEAD "version: 1\nkind: cv\n"
#define SYN "dataset: {source: synthetic}\n"
#define CMD "version: 1\nkind: command\n"
#define OK_CV HEAD SYN
#define OK_CMD CMD "command: [ls]\n"

struct row {
    const char *name, *text, *want;
};

#define ELASTIC(all, one, resources)                               \
    "train: {global_batch_size: " #all ", batch_size: " #one "}\n" \
    "resources: {" resources "}\n"

static const struct row elastic_rows[] = {
    {"a constant global batch", OK_CV ELASTIC(96, 8, "gpus: 1..4"), ""},
    {"of a micro-batch by default", OK_CV "train: {global_batch_size: 128}\n",
     ""},
    {"E017 no multiple", OK_CV ELASTIC(100, 8, "gpus: 1"), "E017 4:28"},
    {"E017 less than one", OK_CV ELASTIC(4, 8, "gpus: 1"), "E017 4:28"},
    {"E013 none", OK_CV ELASTIC(0, 8, "gpus: 1"), "E013 4:28"},
    {"E017 with steps",
     OK_CV "train: {batch_size: 8, global_batch_size: 16,\n"
           "        gradient_accumulation_steps: 2}\n",
     "E017 5:9"},
    {"E021 no number divides", OK_CV ELASTIC(96, 8, "gpus: 7..11"),
     "E021 5:19"},
    {"E021 not on so many nodes", OK_CV ELASTIC(96, 8, "gpus: 5..8, nodes: 4"),
     "E021 5:19"},
    {"one of them does", OK_CV ELASTIC(96, 8, "gpus: 5..8, nodes: 1..2"), ""},
    {"E021 nodes of five",
     OK_CV ELASTIC(96, 8, "nodes: 1..3, gpus_per_node: 5"), "E021 5:20"},
    {"E017 all have all data",
     OK_CV "train: {global_batch_size: 128, distribution: ddp}\n", "E017 4:47"},
    {"E017 rank 0 has it",
     OK_CV "train: {global_batch_size: 128, distribution: dp}\n", "E017 4:47"},
    {"each reads all, and uses its own",
     OK_CV "train: {global_batch_size: 128, distribution: ddp-rr}\n", ""},
    {"E018 of a command", OK_CMD "train: {global_batch_size: 128}\n",
     "E018 4:9"},
    {"a command that saves", OK_CMD "saves: true\npolicy: {preemptible: yes}\n",
     ""},
    {"E018 training saves", OK_CV "saves: true\n", "E018 4:1"},
};

#endif
