/* spec_bad.c - what a specification may not be: one row per mistake, with
 * the code, the line and the column that the user is told.
 *
 * A want is "CODE line:column" for each finding, in order. Names begin with
 * the id of the requirement (B01 ...) where there is one. HEAD takes two
 * lines, so that the third is the row's own. */
#include "jobs/spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/jobs/findings.h"
#include "tests/unit/jobs/spec/spec_bad_rows.h"

static const struct row file_rows[] = {
    {"B01 empty", "", "E001 1:1"},
    {"B01 comments alone", "# nothing\n# here\n", "E001 1:1"},
    {"B01 null", "null\n", "E001 1:1"},
    {"B01 list", "- a\n- b\n", "E001 1:1"},
    {"B01 scalar", "cv\n", "E001 1:1"},
    {"E000 syntax", HEAD "a: b: c\n", "E000 3:5"},
    {"E000 tab", HEAD "\tname: x\n", "E000 3:1"},
    {"E000 open bracket", HEAD "env: [a\n", "E000 4:1"},
    {"B03 anchor", HEAD "x-a: &a 1\n" SYN, "E003 3:6"},
    {"B03 alias", HEAD SYN "x-a: *a\n", "E003 4:6"},
    {"B03 alias as key", HEAD SYN "*a : 1\n", "E003 4:1"},
    {"B03 merge", HEAD SYN "<<: {name: x}\n", "E003 4:1"},
    {"B03 anchor on a map", HEAD "dataset: &d {source: synthetic}\n",
     "E003 3:10"},
    {"B04 nested", HEAD "x-a: [[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]\n",
     "E004 3:21"},
    {"B05 long key",
     OK_CV
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: 1\n",
     "E005 4:1"},
    {"B06 key twice", OK_CV "name: a\nname: b\n", "E006 5:1"},
    {"B06 key twice, its value unread", OK_CV "train: {}\ntrain: {a: [1]}\n",
     "E006 5:1"},
    {"B07 ESC", OK_CV "name: a\x1b[0m\n", "E007 4:8"},
    {"B07 DEL", OK_CV "name: a\x7f\n", "E007 4:8"},
    {"B07 BEL by escape", OK_CV "name: \"a\\a\"\n", "E007 4:7"},
    {"B07 NUL by escape", OK_CV "name: \"a\\0b\"\n", "E007 4:7"},
    {"B07 C1", OK_CV "name: \xc2\x9b\n", "E007 4:7"},
    {"B07 C1 by escape", OK_CV "name: \"\\x9b\"\n", "E007 4:7"},
    {"B07 in a key", OK_CV "\"a\\e\": 1\n", "E007 4:1"},
    {"B07 line separator", OK_CV "name: a\xe2\x80\xa8\n", "E007 4:8"},
    {"B08 Latin-1", OK_CV "name: caf\xe9\n", "E008 4:10"},
    {"B08 UTF-16", "\xff\xfek\0i\0", "E008 1:1"},
    {"B08 overlong", OK_CV "name: \xc0\xaf\n", "E008 4:7"},
    {"B08 surrogate", OK_CV "name: \xed\xa0\x80\n", "E008 4:7"},
    {"B08 surrogate by escape", OK_CV "name: \"\\ud800\"\n", "E008 4:10"},
    {"B08 byte order mark", "\xef\xbb\xbfversion: 1\nkind: cv\n" SYN, ""},
    {"B10 python tag", OK_CV "x-a: !!python/object {}\n", "E009 4:6"},
    {"B10 own tag", OK_CV "name: !foo x\n", "E009 4:7"},
    {"B10 standard tag", OK_CV "name: !!str x\n", "E009 4:7"},
    {"B10 directive", "%YAML 1.1\n---\n" OK_CV, "E009 1:1"},
    {"B10 two documents", OK_CV "---\nkind: cv\n", "E009 4:1"},
    {"one document with its marks", "---\n" OK_CV "...\n", ""},
    {"B06 key twice, in the place of a map that is gone",
     OK_CV "? {a: {b: c}}\n: 1\nx-a: {a: {b: 1, b: 2}, a: d}\n",
     "E011 4:3 E006 6:17 E006 6:24"},
    {"E011 key is a list", OK_CV "? [a, b]\n: 1\n", "E011 4:3"},
};

static const struct row value_rows[] = {
    {"smallest", "kind: cv\ndataset: {source: synthetic}\n", "W001 1:1"},
    {"smallest with version", OK_CV, ""},
    {"B09 bidi in name", OK_CV "name: \"a\\u202eb\"\n", "E014 4:7"},
    {"B09 zero width in name", OK_CV "name: a\xe2\x80\x8b\n", "E014 4:7"},
    {"B09 homoglyph in name", OK_CV "name: \xd0\xb0\n", "E014 4:7"},
    {"B11 unknown key", HEAD "dataset:\n  source: synthetic\n  img: 1\n",
     "E010 5:3"},
    {"B11 unknown top key", OK_CV "nmae: x\n", "E010 4:1"},
    {"B11 list for a scalar", OK_CV "name: [a]\n", "E011 4:7"},
    {"B11 map for a scalar", OK_CV "name: {a: b}\n", "E011 4:7"},
    {"B11 nothing for a scalar", OK_CV "name:\n", "E011 4:6"},
    {"B11 scalar for a section", OK_CV "train: 3\n", "E011 4:8"},
    {"B11 scalar for a list", CMD "command: ls\n", "E011 3:10"},
    {"B11 list for a map", OK_CMD "env: [a]\n", "E011 4:6"},
    {"B11 map within a list", CMD "command: [{a: b}]\n", "E011 3:11"},
    {"B11 null within a list", CMD "command: [ls, ~]\n", "E011 3:15"},
    {"B11 version", "version: 2\nkind: cv\n" SYN, "E011 1:10"},
    {"B11 boolean", OK_CV "train: {shuffle: maybe}\n", "E011 4:18"},
    {"B11 boolean as a number", OK_CV "train: {shuffle: 1}\n", "E011 4:18"},
    {"B11 tristate", OK_CV "train: {pin_memory: autos}\n", "E011 4:21"},
    {"B11 kind missing", "version: 1\n" SYN, "E012 1:1"},
    {"B11 kind unknown", "version: 1\nkind: cw\n", "E012 2:7"},
    {"B11 source missing", HEAD "dataset: {image_size: 32}\n", "E012 3:1"},
    {"B11 dataset missing", HEAD, "E012 1:1"},
    {"B11 path missing", HEAD "dataset: {source: mnist}\n", "E015 3:1"},
    {"B11 command missing", CMD, "E011 1:1"},
    {"B11 enum", OK_CV "train: {precision: fp31}\n", "E012 4:20"},
    {"B11 out of range", OK_CV "train: {epochs: 0}\n", "E013 4:17"},
    {"B11 above range", OK_CV "train: {epochs: 10001}\n", "E013 4:17"},
    {"B11 batch", OK_CV "train: {batch_size: 65537}\n", "E013 4:21"},
    {"B11 image size", HEAD "dataset: {source: synthetic, image_size: 27}\n",
     "E013 3:42"},
    {"no classes", OK_CV "model: {num_classes: 0}\n", "E013 4:22"},
    {"two channels", OK_CV "model: {in_channels: 2}\n", "E013 4:22"},
    {"four channels", OK_CV "model: {in_channels: 4}\n", "E013 4:22"},
    {"B11 not a number", OK_CV "train: {epochs: ten}\n", "E013 4:17"},
    {"B11 fraction", OK_CV "train: {epochs: 1.5}\n", "E013 4:17"},
    {"per node, no multiple", OK_CV "resources: {gpus: 3, gpus_per_node: 4}\n",
     "E021 4:37"},
    {"per node, none in the range",
     OK_CV "resources: {gpus: 5..7, gpus_per_node: 4}\n", "E021 4:40"},
    {"per node, of no GPU", OK_CV "resources: {gpus: 0, gpus_per_node: 1}\n",
     "E021 4:37"},
    {"per node, other nodes",
     OK_CV "resources: {gpus: 8, nodes: 3, gpus_per_node: 4}\n", "E021 4:47"},
    {"per node, 0", OK_CV "resources: {gpus_per_node: 0}\n", "E021 4:28"},
    {"per node, gpus are bad",
     OK_CV "resources: {gpus: 4..2, gpus_per_node: 2}\n", "E021 4:19"},
    {"B11 name too long",
     OK_CV
     "name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "\n",
     "E014 4:7"},
    {"B13 shell in name", OK_CV "name: ;rm -rf ~\n", "E014 4:7"},
    {"B13 substitution in name", OK_CV "name: $(id)\n", "E014 4:7"},
    {"B13 backticks in name", OK_CV "name: \"`id`\"\n", "E014 4:7"},
    {"B13 newline in name", OK_CV "name: \"a\\nb\"\n", "E014 4:7"},
    {"B13 format in name", OK_CV "name: \"%n\"\n", "E014 4:7"},
    {"B13 dash before name", OK_CV "name: -x\n", "E014 4:7"},
    {"B13 newline in label", OK_CV "labels: {a: \"b\\nc\"}\n", "E014 4:13"},
    {"B13 label key", OK_CV "labels: {\"-a\": b}\n", "E014 4:10"},
    {"B13 label key with space", OK_CV "labels: {a b: c}\n", "E014 4:10"},
    {"B13 newline in path", HEAD "dataset: {source: mnist, path: \"/a\\nb\"}\n",
     "E015 3:32"},
    {"B13 option as program", CMD "command: [-x, a]\n", "E011 3:11"},
    {"E015 relative path without a file",
     HEAD "dataset: {source: mnist, path: data}\n", "E015 3:32"},
    {"E015 other user's home", HEAD "dataset: {source: mnist, path: ~root/x}\n",
     "E015 3:32"},
    {"E015 home unknown", HEAD "dataset: {source: mnist, path: ~/x}\n",
     "E015 3:32"},
    {"E015 empty path", HEAD "dataset: {source: mnist, path: ''}\n",
     "E015 3:32"},
    {"E011 empty command", CMD "command: []\n", "E011 3:10"},
    {"E011 empty program", CMD "command: ['']\n", "E011 3:11"},
    {"B17 dependencies",
     OK_CV "depends_on: [afterok:1:2, '3', until:4, afterok:0, -5]\n",
     "E022 4:32 E022 4:41 E022 4:52"},
    {"retry on nothing known", OK_CV "retry: {on: [signal, rank_exit]}\n",
     "E012 4:22"},
    {"retry backoff", OK_CV "retry: {backoff: 2d, backoff_max: 4:00}\n",
     "E023 4:18 E024 4:35"},
    {"B17 no list", OK_CV "depends_on: afterok:1\n", "E011 4:13"},
    {"B16 gpus negative", OK_CV "resources: {gpus: -1}\n", "E021 4:19"},
    {"B16 gpus 2^31", OK_CV "resources: {gpus: 2147483648}\n", "E021 4:19"},
    {"B16 gpus reversed", OK_CV "resources: {gpus: 4..2}\n", "E021 4:19"},
    {"B16 gpus fraction", OK_CV "resources: {gpus: 1.5}\n", "E021 4:19"},
    {"B16 gpus unit", OK_CV "resources: {gpus: 4GB}\n", "E021 4:19"},
    {"B16 gpus from 0", OK_CV "resources: {gpus: 0..4}\n", "E021 4:19"},
    {"B16 gpus open", OK_CV "resources: {gpus: 2..}\n", "E021 4:19"},
    {"B16 gpus list", OK_CV "resources: {gpus: [1]}\n", "E011 4:19"},
    {"B16 gpus min alone", OK_CV "resources: {gpus: {min: 1}}\n", "E021 4:19"},
    {"B16 gpus map reversed", OK_CV "resources: {gpus: {min: 4, max: 2}}\n",
     "E021 4:19"},
    {"B16 gpus map typo", OK_CV "resources: {gpus: {min: 1, mx: 2}}\n",
     "E010 4:28"},
    {"B16 gpus map words", OK_CV "resources: {gpus: {min: a, max: 2}}\n",
     "E021 4:25"},
    {"B16 nodes 0", OK_CV "resources: {nodes: 0}\n", "E021 4:20"},
    {"B16 more nodes than GPUs", OK_CV "resources: {gpus: 1, nodes: 2}\n",
     "E021 4:29"},
    {"E040 partition empty", OK_CV "resources: {partition: ''}\n", "E040 4:24"},
    {"E040 partition with a blank", OK_CV "resources: {partition: a b}\n",
     "E040 4:24"},
    {"E040 newline in an account", OK_CV "policy: {account: \"a\\nb\"}\n",
     "E040 4:19"},
    {"E040 tab in a constraint", OK_CV "resources: {constraint: \"a\\t\"}\n",
     "E040 4:25"},
    {"E007 control character in a qos", OK_CV "policy: {qos: \"a\\e\"}\n",
     "E007 4:15"},
    {"E040 bidi in a reservation",
     OK_CV "resources: {reservation: \"a\\u202eb\"}\n", "E040 4:26"},
    {"E040 gpu type of two", OK_CV "resources: {gpu_type: 'a,b'}\n",
     "E040 4:23"},
    {"E040 a word of 128",
     OK_CV "policy:\n  account: "
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
           "aaaaaaa"
           "\n",
     "E040 5:12"},
    {"a word of 127",
     OK_CV
     "policy:\n  account: "
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "\n",
     ""},
    {"cpus_per_gpu 0", OK_CV "resources: {cpus_per_gpu: 0}\n", "E013 4:27"},
    {"memory without a unit", OK_CV "resources: {memory: 64}\n", "E023 4:21"},
    {"memory 1K", OK_CV "resources: {memory: 1K}\n", "E023 4:21"},
    {"B18 priority", OK_CV "policy: {priority: 51}\n", "E023 4:20"},
    {"B18 priority word", OK_CV "policy: {priority: urgent}\n", "E023 4:20"},
    {"B18 grace", OK_CV "checkpoint: {grace: 2h}\n", "E023 4:21"},
    {"B18 time limit 0s", OK_CV "resources: {time_limit: 0s}\n", "E023 4:25"},
    {"B18 log bytes", OK_CV "logs: {max_bytes: 1K}\n", "E023 4:19"},
    {"B20 hexadecimal", OK_CV "train: {optimizer: {lr: 0x1p-3}}\n",
     "E013 4:25"},
    {"B20 nan", OK_CV "train: {optimizer: {lr: nan}}\n", "E013 4:25"},
    {"B20 .nan", OK_CV "train: {optimizer: {lr: .nan}}\n", "E013 4:25"},
    {"B20 inf", OK_CV "train: {optimizer: {lr: inf}}\n", "E013 4:25"},
    {"B20 too large", OK_CV "train: {optimizer: {lr: 1e999}}\n", "E013 4:25"},
    {"B20 1_000", OK_CV "train: {optimizer: {lr: 1_000}}\n", "E013 4:25"},
    {"B20 Arabic digit", OK_CV "train: {optimizer: {lr: \xd9\xa3}}\n",
     "E013 4:25"},
    {"B20 zero", OK_CV "train: {optimizer: {lr: 0}}\n", "E013 4:25"},
    {"B21 60", OK_CV "resources: {time_limit: 60}\n", "E024 4:25"},
    {"B21 4:00", OK_CV "resources: {time_limit: 4:00}\n", "E024 4:25"},
    {"B21 2-12", OK_CV "resources: {time_limit: 2-12}\n", "E024 4:25"},
    {"B21 0", OK_CV "resources: {time_limit: 0}\n", "E024 4:25"},
    {"B21 -1", OK_CV "resources: {time_limit: -1}\n", "E024 4:25"},
    {"B21 1y", OK_CV "resources: {time_limit: 1y}\n", "E024 4:25"},
    {"B21 unlimited", OK_CV "resources: {time_limit: unlimited}\n",
     "E024 4:25"},
    {"B14 interpolation of what is unknown, in a path",
     HEAD "dataset: {source: mnist, path: \"/a/${nom}\"}\n", "E016 3:32"},
    {"B14 in a command", CMD "command: [a, \"${x}\"]\n", "E016 3:14"},
    {"B14 in env", OK_CMD "env: {A: \"${A}\"}\n", "E016 4:10"},
    {"B14 of each value", OK_CMD "env: {A: \"${A}\", B: \"${B}\"}\n",
     "E016 4:10 E016 4:21"},
    {"B14 a cycle", OK_CV "train:\n  output_dir: /a/${output_dir}\n",
     "E016 5:15"},
    {"B14 a cycle through a directory",
     OK_CV "checkpoint: {dir: \"${output_dir}/c\"}\n"
           "train: {output_dir: \"${output_dir}\"}\n",
     "E016 5:21"},
    {"B14 one within another", OK_CMD "env: {A: \"${${name}}\"}\n",
     "E016 4:10"},
    {"B14 without its end", OK_CMD "env: {A: \"${name\"}\n", "E016 4:10"},
    {"B14 nothing between the braces", OK_CMD "env: {A: \"${}\"}\n",
     "E016 4:10"},
    {"B14 before the job has a number", OK_CV "labels: {a: \"${job_id}\"}\n",
     "E016 4:13"},
    {"B14 $${ where the daemon reads", OK_CV "labels: {a: \"$${name}\"}\n",
     "E016 4:13"},
    {"B14 nobody's name", OK_CV "labels: {a: \"${user}\"}\n", "E016 4:13"},
    {"B14 in a name", OK_CV "name: a-${user}\n", "E016 4:7"},
    {"B14 in a number", OK_CV "train: {epochs: \"${attempt}\"}\n", "E016 4:17"},
    {"B14 in a secret", OK_CMD "env: {A_TOKEN: \"${name}\"}\n", "E016 4:16"},
    {"W111 each attempt has its own checkpoints",
     OK_CV "checkpoint: {dir: \"/c/${attempt}\"}\n", "W111 4:19"},
    {"W111 as its results are elsewhere",
     OK_CV "train: {output_dir: \"/o/${attempt}\"}\n", "W111 4:21"},
    {"E017 a warning without a limit", OK_CV "resources: {warn_signal: USR1}\n",
     "E017 4:26"},
    {"E017 its time without a limit", OK_CV "resources: {warn_before: 1m}\n",
     "E017 4:26"},
    {"E017 a warning before the start",
     OK_CV "resources: {warn_before: 1m, time_limit: 1m}\n", "E017 4:26"},
    {"E017 the time of no warning",
     OK_CV "resources: {warn_before: 1m, time_limit: 1h, warn_signal: none}\n",
     "E017 4:26"},
    {"E012 a signal that is none",
     OK_CV "resources: {time_limit: 1h, warn_signal: KILL}\n", "E012 4:42"},
    {"E017 a rule without an action", OK_CV "retry: {rules: ['exit:75']}\n",
     "E017 4:17"},
    {"E017 a rule about success", OK_CV "retry: {rules: ['exit:0 fail']}\n",
     "E017 4:17"},
    {"E017 a rule about no signal",
     OK_CV "retry: {rules: ['signal:BUS fail', 'signal:9 fail']}\n",
     "E017 4:36"},
    {"E017 momentum of adamw", OK_CV "train: {optimizer: {momentum: 0.9}}\n",
     "E017 4:21"},
    {"E017 a batch of one, whose last feature map is one pixel",
     HEAD "dataset: {source: synthetic, image_size: 32}\n"
          "train: {batch_size: 1, gradient_accumulation_steps: 8}\n",
     "E017 4:21"},
    {"a batch of one, of 33 pixels",
     HEAD "dataset: {source: synthetic, image_size: 33}\n"
          "train: {batch_size: 1}\n",
     ""},
    {"a batch of two, of 28 pixels",
     HEAD "dataset: {source: synthetic, image_size: 28}\n"
          "train: {batch_size: 2}\n",
     ""},
    {"E017 nesterov without momentum",
     OK_CV "train:\n  optimizer: {name: sgd, momentum: 0, nesterov: on}\n",
     "E017 5:49"},
    {"E017 a key of rmsprop", OK_CV "train: {optimizer: {alpha: 0.9}}\n",
     "E017 4:21"},
    {"E017 eps of sgd", OK_CV "train: {optimizer: {name: sgd, eps: 1e-3}}\n",
     "E017 4:32"},
    {"E017 one beta", OK_CV "train: {optimizer: {betas: [0.9]}}\n",
     "E017 4:28"},
    {"E017 mixed with nothing", OK_CV "train: {mixed: true}\n", "E017 4:16"},
    {"E017 mixed fp64", OK_CV "train: {precision: fp64, mixed: true}\n",
     "E017 4:33"},
    {"E012 mixed with a mistake",
     OK_CV "train: {precision: fp8, mixed: true}\n", "E012 4:20"},
    {"E013 a beta of 1", OK_CV "train: {optimizer: {betas: [0.9, 1]}}\n",
     "E013 4:34"},
    {"E013 a beta that is a list", OK_CV "train: {optimizer: {betas: [[1]]}}\n",
     "E013 4:29"},
    {"E011 betas as a number", OK_CV "train: {optimizer: {betas: 0.9}}\n",
     "E011 4:28"},
    {"E017 gamma of a cosine",
     OK_CV "train: {lr_scheduler: {name: cosine, gamma: 0.5}}\n", "E017 4:38"},
    {"E013 no milestones", OK_CV "train: {lr_scheduler: {name: multistep}}\n",
     "E013 4:1"},
    {"E017 falling milestones",
     OK_CV "train:\n  lr_scheduler: {name: multistep, milestones: [3, 2]}\n",
     "E017 5:47"},
    {"E017 half a milestone",
     OK_CV "train:\n  lr_scheduler: {name: multistep, milestones: [1.5]}\n",
     "E017 5:47"},
    {"E017 path of synthetic data",
     HEAD "dataset: {source: synthetic, path: /x}\n", "E017 3:30"},
    {"E017 split of MNIST",
     HEAD "dataset: {source: mnist, path: /x, split: 0.1}\n", "E017 3:36"},
    {"E017 bad rows of synthetic data",
     HEAD "dataset: {source: synthetic, on_bad_row: skip}\n", "E017 3:30"},
    {"E013 a split of all",
     HEAD "dataset: {source: image_folder, path: /x, split: 1}\n", "E013 3:50"},
    {"E013 a split of nothing",
     HEAD "dataset: {source: image_folder, path: /x, split: 0}\n", "E013 3:50"},
    {"E013 threads", HEAD "dataset: {source: synthetic, workers: -1}\n",
     "E013 3:39"},
    {"E012 augment", HEAD "dataset: {source: synthetic, augment: mirror}\n",
     "E012 3:39"},
    {"E015 a folder without a path", HEAD "dataset: {source: image_folder}\n",
     "E015 3:1"},
    {"E018 later section", OK_CV "watchdog: {window: 1h}\n", "E018 4:12"},
    {"E023 told at two lines",
     OK_CV "notify: {to: \"a@b.org\\nBcc: c@d.org\"}\n", "E023 4:14"},
    {"E023 told at a tab", OK_CV "notify: {to: \"a\\tb\"}\n", "E023 4:14"},
    {"E023 told at nothing", OK_CV "notify: {to: ''}\n", "E023 4:14"},
    {"E012 told of what", OK_CV "notify: {to: a, on: [end, start]}\n",
     "E012 4:27"},
    {"E017 told nobody", OK_CV "notify: {on: [end]}\n", "E017 4:10"},
    {"E017 80 percent of what", OK_CV "notify: {to: a, on: [time_80]}\n",
     "E017 4:22"},
    {"E020 a sweep where one job is meant",
     OK_CV "sweep: {grid: {train.epochs: [1]}}\n", "E020 4:9"},
    {"E012 goal", OK_CMD "policy: {goal: fastest}\n", "E012 4:16"},
    {"goal", OK_CMD "policy: {goal: fit, min_efficiency: 0.5}\n", ""},
    {"goal none", OK_CMD "policy: {goal: null, min_efficiency: null}\n", ""},
    {"E013 min_efficiency", OK_CMD "policy: {min_efficiency: 1.5}\n",
     "E013 4:26"},
    {"E010 deadline", OK_CMD "policy: {deadline: 3h}\n", "E010 4:10"},
    {"E018 later key", OK_CV "train: {compile: on}\n", "E018 4:9"},
    {"E024 every what", OK_CV "checkpoint: {every: 10}\n", "E024 4:21"},
    {"E024 every 0", OK_CV "checkpoint: {every: 0steps}\n", "E024 4:21"},
    {"E024 every half", OK_CV "checkpoint: {every: 0.5epochs}\n", "E024 4:21"},
    {"E017 metric of nothing", OK_CV "checkpoint: {metric: eval_loss}\n",
     "E017 4:14"},
    {"E012 dtype is precision", OK_CV "train: {dtype: fp31}\n", "E012 4:16"},
    {"E017 dtype beside precision",
     OK_CV "train: {precision: fp32, dtype: fp32}\n", "E017 4:26"},
    {"E018 strategy of kind llm", OK_CV "train: {distribution: fsdp}\n",
     "E018 4:23"},
    {"E018 train of a command", CMD "command: [ls]\ntrain: {epochs: 3}\n",
     "E018 4:9"},
    {"E018 dataset of a command",
     CMD "command: [ls]\ndataset: {source: mnist, path: /x}\n",
     "E018 4:11 E018 4:26"},
    {"E018 env of cv", OK_CV "env: {A: b}\nenv_passthrough: [A]\n",
     "E018 4:1 E018 5:1"},
    {"E018 command of cv", OK_CV "command: [ls]\n", "E018 4:1"},
    {"E019 S10 LD_PRELOAD", OK_CMD "env: {LD_PRELOAD: x.so}\n", "E019 4:7"},
    {"E019 IFS", OK_CMD "env: {IFS: x}\n", "E019 4:7"},
    {"E019 BASH_ENV", OK_CMD "env: {BASH_ENV: x}\n", "E019 4:7"},
    {"E019 SLURM_CONF", OK_CMD "env: {SLURM_CONF: x}\n", "E019 4:7"},
    {"E019 other devices", OK_CMD "env: {CUDA_VISIBLE_DEVICES: '0'}\n",
     "E019 4:7"},
    {"E019 MGPU_", OK_CMD "env: {MGPU_RANK: '0'}\n", "E019 4:7"},
    {"E019 passed through", OK_CMD "env_passthrough: [HOME, LD_AUDIT]\n",
     "E019 4:25"},
    {"PATH may be set", OK_CMD "env: {PATH: /bin}\n", ""},
    {"E014 variable", OK_CMD "env: {1A: x}\n", "E014 4:7"},
    {"E014 variable with =", OK_CMD "env: {\"A=B\": x}\n", "E014 4:7"},
    {"E025 token", OK_CMD "env: {HF_TOKEN: x}\n", "E025 4:7"},
    {"E025 password", OK_CMD "env: {db_password: x}\n", "E025 4:7"},
    {"E025 key within", OK_CMD "env: {AWS_ACCESS_KEY_ID: x}\n", "E025 4:7"},
    {"E025 plural", OK_CMD "env: {my_api_keys: x}\n", "E025 4:7"},
    {"E025 not a secret", OK_CMD "env: {TOKENIZERS_PARALLELISM: 'false'}\n",
     ""},
    {"E025 passed through", OK_CMD "env_passthrough: [HOME, HF_TOKEN]\n",
     "E025 4:25"},
    {"secrets", OK_CMD "secrets: [HF_TOKEN, _a1]\n", ""},
    {"secrets null", OK_CMD "secrets: null\n", ""},
    {"E011 S11 a value", OK_CMD "secrets: {HF_TOKEN: x}\n", "E011 4:10"},
    {"E014 S11 a path", OK_CMD "secrets: [A, ../b]\n", "E014 4:14"},
    {"E014 S11 no name", OK_CMD "secrets: ['']\n", "E014 4:11"},
    {"E014 S11 with =", OK_CMD "secrets: ['HF_TOKEN=x']\n", "E014 4:11"},
    {"E014 S11 a long name",
     OK_CMD "secrets: [XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"
            "XXXXXXXXXXX, XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"
            "XXXXXXXXXXXXX]\n",
     "E014 4:11"},
    {"E014 S11 33 of them",
     OK_CMD "secrets: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,"
            "A,B,C,D,E,F,\n G]\n",
     "E014 5:2"},
    {"E017 S11 twice", OK_CMD "secrets: [A, B, A]\n", "E017 4:17"},
    {"E017 S11 of env", OK_CMD "env: {A: x}\nsecrets: [B, A]\n", "E017 5:14"},
    {"E017 S11 passed through",
     OK_CMD "secrets: [A]\nenv_passthrough: [B, A]\n", "E017 4:11"},
    {"E018 S11 of cv", OK_CV "secrets: [A]\n", "E018 4:1"},
    {"E019 S11 LD_PRELOAD", OK_CMD "secrets: [LD_PRELOAD]\n", "E019 4:11"},
    {"E019 S11 MGPU_", OK_CMD "secrets: [MGPU_RANK]\n", "E019 4:11"},
    {"W111 a command", OK_CMD "policy: {preemptible: yes}\n", "W111 4:23"},
    {"W111 by default not", OK_CMD "policy: {priority: low}\n", ""},
    {"W111 no checkpoint", OK_CV "checkpoint: {on_signal: no}\n", "W111 4:25"},
    {"W111 no resume", OK_CV "retry: {resume: no}\n", "W111 4:17"},
    {"W111 but it stays",
     OK_CV "checkpoint: {on_signal: no}\npolicy: {preemptible: no}\n", ""},
    {"W111 all is well", OK_CV "policy: {preemptible: yes}\n", ""},
    {"notes", OK_CV "x-note: {any: [thing, 1]}\n", ""},
    {"notes at the top alone", OK_CV "train: {x-note: 1}\n", "E010 4:9"},
    {"all errors in one run",
     HEAD "dataset: {source: synthetic, image_size: 1}\n"
          "train: {epoch: 3, precision: fp99}\nresources: {gpus: 4..2}\n",
     "E013 3:42 E010 4:9 E012 4:30 E021 5:19"},
};

static void check(const struct row *row, size_t len)
{
    struct job_spec s = {.version = 77};
    struct spec_report r;
    struct error err = ERROR_INIT;
    char got[400];

    int rc = spec_parse(row->text, len, NULL, &s, &r, &err);
    is_str(findings_text(&r, got, sizeof(got)), row->want, row->name);
    bool bad = strchr(row->want, 'E') != NULL;
    if (rc != (bad ? -1 : 0) || (bad && err.code != ERR_INVAL))
        ok(false, "%s: returns %d, %s", row->name, rc, err.msg);
    if (bad && s.version != 77)
        ok(false, "%s: touches the result", row->name);
    if (rc == 0)
        spec_clear(&s);
    diagnostics_clear(&r);
}

/* ---- what is too large for a row ----------------------------------------- */

static void test_limits(void)
{
    enum { BIG = (1 << 20) + 2 };
    char *text = malloc(BIG);
    if (!text) {
        ok(false, "memory");
        return;
    }

    memset(text, ' ', BIG);
    memcpy(text, OK_CV, strlen(OK_CV));
    check(&(struct row){"B02 exactly 1 MiB", text, ""}, 1 << 20);
    check(&(struct row){"B02 one byte more", text, "E002 1:1"}, (1 << 20) + 1);

    memset(text, '[', 100000);
    check(&(struct row){"B04 100 kB of [", text, "E004 1:17"}, 100000);
    for (size_t i = 0; i < 100000; i += 2)
        memcpy(text + i, "? ", 2);
    check(&(struct row){"B04 ? ? ?", text, "E011 1:3 E004 1:33"}, 100000);

    static const char scalar[] = OK_CV "x-a: ";
    size_t at = strlen(scalar);
    memcpy(text, scalar, at);
    memset(text + at, 'a', 65537);
    check(&(struct row){"B05 a value of 64 KiB", text, ""}, at + 65536);
    check(&(struct row){"B05 one byte more", text, "E005 4:6"}, at + 65537);

    size_t len = strlen(OK_CV "x-a: [");
    memcpy(text, OK_CV "x-a: [", len);
    for (int i = 0; i < 10001; i++, len += 2)
        memcpy(text + len, "1,", 2);
    check(&(struct row){"B05 10,000 values", text, "E005 4:19985"}, len);

    static const int again[] = {7, 0, 3999}; /* the first, the last, one more */
    len = (size_t)snprintf(text, BIG, "%s", OK_CV "x-a:\n");
    for (int i = 0; i < 4000; i++)
        len += (size_t)snprintf(text + len, 16, "  k%d: 1\n", i);
    check(&(struct row){"B06 4,000 keys", text, ""}, len);
    for (size_t i = 0; i < 3; i++)
        len += (size_t)snprintf(text + len, 16, "  k%d: 2\n", again[i]);
    check(&(struct row){"B06 and three of them twice", text,
                        "E006 4005:3 E006 4006:3 E006 4007:3"},
          len);
    free(text);

    static const char zero[] = HEAD "na\0me: x\n";
    check(&(struct row){"B07 NUL", zero, "E007 3:3"}, sizeof(zero) - 1);
}

/* What is said, where the place alone would not do: both lines of a key that
 * is there twice, the byte that is no UTF-8, and nothing that a terminal would
 * obey, neither in what is said nor in the line that is shown. */
static void test_said(void)
{
    static const char latin[] = OK_CV "name: caf\xe9\n";
    static const struct {
        const char *name, *text, *says;
    } rows[] = {
        {"B06 both lines", OK_CV "name: a\nname: b\n",
         "bad.yaml:5:1: error[E006]: key 'name' is there twice; the first is "
         "on line 4\n"},
        {"B06 of a section", OK_CV "train: {epochs: 1,\n epochs: 2}\n",
         "the first is on line 4\n"},
        {"B07 ESC", OK_CV "name: a\x1b]0;x\x07\n",
         "error[E007]: control character U+001B is not accepted\n"
         "    4 | name: a\\x1b]0;x\\x07\n"},
        {"B07 C1",
         OK_CV "name: a\xc2\x9b"
               "31m\n",
         "control character U+009B is not accepted\n"
         "    4 | name: a\\u009b31m\n"},
        {"B07 DEL", OK_CV "name: a\x7f\n", "    4 | name: a\\x7f\n"},
        {"B07 in a key", OK_CV "\"na\\e\": a\n",
         "control character U+001B is not accepted\n"},
        {"B09 bidi",
         OK_CV "name: a\xe2\x80\xae"
               "b\n",
         "'name' must be a name, not 'a\\u202eb'\n    4 | name: a\\u202eb\n"},
        {"B08 offset", latin, "not UTF-8: byte 0xE9 at offset 58\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct spec_report r;
        struct buf out = BUF_INIT;
        size_t len = strlen(rows[i].text);
        if (spec_parse(rows[i].text, len, NULL, &s, &r, NULL) == 0)
            spec_clear(&s);
        if (diagnostics_print(&r, "bad.yaml", rows[i].text, len, &out, NULL) <
            0)
            ok(false, "memory");
        if (!ok(strstr(buf_str(&out), rows[i].says) != NULL, "%s",
                rows[i].name))
            tap_diag("%s", buf_str(&out));
        ok(!strpbrk(buf_str(&out), "\x1b\x07\x7f\x9b"),
           "  no byte of it is obeyed");
        buf_clear(&out);
        diagnostics_clear(&r);
    }
    is_int((long long)sizeof(OK_CV "name: caf") - 1, 58, "B08 that is it");
}

static void test_fifty(void)
{
    char text[4000] = OK_CV;
    struct spec_report r;
    struct job_spec s;
    struct error err = ERROR_INIT;
    size_t len = strlen(text);
    for (int i = 0; i < 60; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "u%d: 1\n", i);
    (void)!spec_parse(text, len, NULL, &s, &r, &err);
    is_int((long long)r.n, 50, "fifty findings are kept");
    is_int((long long)r.n_errors, 60, "all are counted");
    is_int(r.findings[49].line, 53, "the first fifty of the file");
    is_str(err.msg, "60 errors", "the error counts them");
    struct buf out = BUF_INIT;
    is_int(diagnostics_print(&r, "a.yaml", text, len, &out, &err), 0, "prints");
    ok(strstr(buf_str(&out), "\n... and 10 more\n60 errors; nothing was "
                             "submitted.\n") != NULL,
       "the rest is counted at the end");
    buf_clear(&out);
    diagnostics_clear(&r);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(file_rows) / sizeof(file_rows[0]); i++) {
        const char *t = file_rows[i].text;
        check(&file_rows[i], *t == '\xff' ? 6 : strlen(t));
    }
    for (size_t i = 0; i < sizeof(value_rows) / sizeof(value_rows[0]); i++)
        check(&value_rows[i], strlen(value_rows[i].text));
    for (size_t i = 0; i < sizeof(elastic_rows) / sizeof(elastic_rows[0]); i++)
        check(&elastic_rows[i], strlen(elastic_rows[i].text));
    test_limits();
    test_said();
    test_fifty();
    return tap_done();
}
