/* diagnostic_codes.c - the table of codes with examples; see
 * diagnostic_codes.h. */
#include "jobs/schema/diagnostic_codes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

static const struct code_note notes[] = {
    {"E000", "not YAML",
     "The file cannot be read as YAML at all. The place is where the parser "
     "gave up, which is often the line after the mistake: a bracket or a quote "
     "that is not closed, a tab in place of spaces, or a second ': ' in one "
     "line. A value with ': ' or ' #' in it needs quotes.",
     "name: a: b\n", "name: a-b\n", "mgpu-job(5)"},
    {"E001", "the file is not a mapping",
     "A specification is a mapping of keys to values. An empty file, one of "
     "comments alone, a list and a single word are none.",
     "- kind: cv\n- dataset: {source: synthetic}\n",
     "version: 1\nkind: cv\ndataset: {source: synthetic}\n", "mgpu-job(5)"},
    {"E002", "longer than 1 MiB",
     "It is refused before it is parsed. A specification says where the data "
     "is and does not carry it; a long list of arguments fits in a file that "
     "the command reads.",
     "# command: [train, (two million file names)]\n",
     "kind: command\nversion: 1\ncommand: [train, --files-from, list.txt]\n",
     "mgpu-job(5)"},
    {"E003", "an anchor, an alias or a merge key",
     "'&name', '*name' and '<<' make one place of a file mean another, and can "
     "make a small file mean an enormous one. Write the value where it is "
     "meant; values that vary belong to a sweep or to --set.",
     "x-lr: &lr 0.1\ntrain: {optimizer: {lr: *lr}}\n",
     "train: {optimizer: {lr: 0.1}}\n", "mgpu-job(5)"},
    {"E004", "nested more than 16 deep",
     "No key of a specification is nested that deep, not even below x-: count "
     "the brackets, or the indentation.",
     "x-a: [[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]\n", "x-a: [[]]\n", "mgpu-job(5)"},
    {"E005", "too many or too long keys and values",
     "A file has at most 10,000 keys and values, a key at most 128 bytes, a "
     "value at most 64 KiB. What is longer belongs to a file that the job "
     "reads.",
     "# env: {VOCABULARY: (70,000 characters)}\n",
     "kind: command\nversion: 1\ncommand: [train]\n"
     "env: {VOCABULARY_FILE: /data/vocabulary.txt}\n",
     "mgpu-job(5)"},
    {"E006", "the same key twice",
     "One of the two would be ignored, and nobody could say which. The place "
     "is that of the second.",
     "name: a\nname: b\n", "name: b\n", "mgpu-job(5)"},
    {"E007", "a control character",
     "A character that moves the cursor, rings the bell or ends a string for "
     "some programs and not for others: ESC, NUL, DEL and the like, as they "
     "are or by an escape in quotes. Names and values are shown on other "
     "people's terminals.",
     "name: \"run\\e[31m\"\n", "name: run-red\n", "mgpu-job(5)"},
    {"E008", "not UTF-8",
     "The bytes are no UTF-8: Latin-1, UTF-16, or a file that is no text. A "
     "byte order mark at the start is fine. 'iconv -f latin1 -t utf-8' helps.",
     "# name: caf<E9>, as Latin-1 has it\n", "name: cafe\n", "mgpu-job(5)"},
    {"E009", "a tag, a directive or a second document",
     "'!!str', '!name', '%YAML' and a second '---' are parts of YAML that a "
     "specification does not use: values are typed by their key, and a file is "
     "one job, or one sweep.",
     "name: !!str run\n", "name: run\n", "mgpu-job(5)"},
    {"E010", "an unknown key",
     "Nothing that is accepted is ignored, so a misspelt key is an error and "
     "not a default. The nearest key is named where one is near. Notes of your "
     "own go below a key at the top that begins with 'x-'.",
     "train: {batchsize: 64}\n", "train: {batch_size: 64}\n",
     "mgpu-job(5), KEYS"},
    {"E011", "a value of the wrong kind",
     "A list where one value is expected, a mapping where a list is, a word "
     "for a boolean, a version that is not 1, nothing at all, or a missing "
     "'command'.",
     "train: {shuffle: 1}\n", "train: {shuffle: true}\n", "mgpu-job(5), Types"},
    {"E012", "not one of the words",
     "The key takes one of a few words, which the message lists, or it is "
     "missing and has no default, as 'kind' and 'dataset.source'.",
     "train: {precision: fp31}\n", "train: {precision: fp32}\n",
     "mgpu-job(5), KEYS"},
    {"E013", "not a number, or out of range",
     "Numbers are decimal: 3e-4, .0003, 1. Hexadecimal, '1_000', inf and nan "
     "are refused, and so is what the key does not allow; the message has its "
     "range.",
     "train: {epochs: 0}\n", "train: {epochs: 20}\n", "mgpu-job(5), Types"},
    {"E014", "not a name",
     "Names of jobs, labels and variables are of letters, digits and a few "
     "signs, so that a shell, a file name and a terminal take them as they "
     "are.",
     "name: my first job\n", "name: my-first-job\n", "mgpu-job(5), Types"},
    {"E015", "not a path that can be used",
     "A path is missing where the job needs one, or has characters that no "
     "specification can have. Relative paths are relative to the file, those "
     "of --set to the working directory; '~' is your home.",
     "kind: cv\nversion: 1\ndataset: {source: mnist}\n",
     "kind: cv\nversion: 1\ndataset: {source: mnist, path: /data/mnist}\n",
     "mgpu-job(5), Types"},
    {"E016", "${ in a value, with a name that may not be there",
     "There are six names: name, job_id, task_id, attempt, user and "
     "output_dir. output_dir does not lead to itself, no name stands within "
     "another, and what is read at the submit knows only name and user. In a "
     "command the shell's own ${HOME} is written $HOME or $${HOME}.",
     "train: {output_dir: \"/runs/${jobname}\"}\n",
     "train: {output_dir: \"/runs/${name}/${job_id}\"}\n",
     "mgpu-job(5), INTERPOLATION"},
    {"E017", "keys that do not go together",
     "Each value is fine, and together they mean nothing, or two things: a key "
     "of one optimizer beside the name of another, a warning before a limit "
     "that is not there. The message names both keys.",
     "train: {optimizer: {name: adamw, momentum: 0.9}}\n",
     "train: {optimizer: {name: sgd, momentum: 0.9}}\n", "mgpu-job(5), KEYS"},
    {"E018", "known, but not for this job or version",
     "The key or the value exists: in another version of mgpu, or for another "
     "kind of job. It is refused and not ignored, for a job without it would "
     "be another job.",
     "train: {compile: true}\n", "train: {precision: bf16}\n",
     "mgpu-job(5), KEYS"},
    {"E019", "a variable that a job may not set",
     "It changes which program runs (LD_*, BASH_ENV, IFS), would give the job "
     "other devices than it was given (CUDA_VISIBLE_DEVICES), or is mgpu's own "
     "(MGPU_*).",
     "kind: command\nversion: 1\ncommand: [train]\n"
     "env: {CUDA_VISIBLE_DEVICES: \"0\"}\n",
     "kind: command\nversion: 1\ncommand: [train]\nresources: {gpus: 1}\n",
     "mgpu-job(5), KEYS"},
    {"E020", "a sweep that cannot be",
     "Numbers of an array that are none, a key that is varied twice; lists "
     "that stand for the same "
     "jobs and are not equally long; no job at all, or more than may be, or "
     "that "
     "wait for more others than may be, or that write into one directory.",
     "sweep:\n  zip:\n    train.epochs: [1, 2]\n    train.batch_size: [8]\n",
     "sweep:\n  zip:\n    train.epochs: [1, 2]\n"
     "    train.batch_size: [8, 16]\n",
     "mgpu-job(5), SWEEPS"},
    {"E021", "not a number or range of GPUs, of nodes or of memory",
     "'4', '1..4' or {min: 1, max: 4}: whole numbers, the smaller first, "
     "and no more nodes than GPUs. Memory of a GPU is 40G.., 40G..80G or "
     "..80G. With gpus_per_node the GPUs are a multiple "
     "of it, on as many nodes.",
     "resources: {gpus: 4..2}\n", "resources: {gpus: 2..4}\n",
     "mgpu-job(5), Types"},
    {"E022", "not a dependency, or of a job that is not there",
     "A dependency is a condition and a job, and the job is one of your own "
     "that the daemon knows when this one is submitted. Another user's job is "
     "answered as one that is not there. The same holds for a job that "
     "train.resume_from names; it is of the same kind, has ended, or is named "
     "in depends_on, too, and has a checkpoint.",
     "depends_on: [after12]\n", "depends_on: [\"afterok:12\"]\n",
     "mgpu-job(5), DEPENDENCIES"},
    {"E023", "a size, a duration or a priority out of range",
     "The value can be read and is too small or too large, or not a size: "
     "K, M, G and T are powers of 1024. A time needs its zone. It may also be "
     "a "
     "notify.to that is empty, too long or has control characters, or more "
     "than mgpu.yaml allows; the message names that limit.",
     "policy: {priority: 90}\n", "policy: {priority: 50}\n",
     "mgpu-job(5), Types; mgpu.yaml(5)"},
    {"E024", "not a duration, or one that can be read in two ways",
     "'4:00' is four hours to some and four minutes to others, and '60' is "
     "minutes to sbatch and seconds elsewhere. Write 90s, 15m, 8h, 2d, 1h30m, "
     "H:MM:SS or D-HH:MM:SS.",
     "resources: {time_limit: 4:00}\n", "resources: {time_limit: 4h}\n",
     "mgpu-job(5), Types"},
    {"E025", "a variable that sounds like a secret",
     "A variable of env or env_passthrough whose name is that of a password, a "
     "token or a key: TOKEN, SECRET, PASSWORD or KEY at the end of a part. Its "
     "value would go to the daemon, into its databases and their backups. "
     "Those of 'secrets' are files of yours that only the job reads.",
     "kind: command\nversion: 1\ncommand: [train]\nenv: {HF_TOKEN: hf_123}\n",
     "kind: command\nversion: 1\ncommand: [train]\nsecrets: [HF_TOKEN]\n",
     "mgpu-job(5), SECRETS"},
    {"E040", "not a word that Slurm may be told",
     "A partition, an account, a constraint and the like go to Slurm as they "
     "are; what could be read as a further option is refused here.",
     "resources: {partition: \"gpu --exclusive\"}\n",
     "resources: {partition: gpu, exclusive: true}\n", "mgpu-slurm(7)"},
    {"E201", "it can never be met",
     "More GPUs than a limit of mgpu.yaml lets you have, or than any nodes "
     "have that the job may use: it would wait for ever, so the daemon refuses "
     "it. Ask for less, or for more nodes; --force-queue has it wait for nodes "
     "that are still to come.",
     "# resources: {gpus: 16}  where the largest node has 4\n",
     "resources: {gpus: 16, nodes: 4}\n",
     "mgpu-job(5), resources.gpus; mgpu.yaml(5), limits"},
    {"W001", "no version",
     "'version' is missing, and 1 is assumed. A file that says it means the "
     "same to a later mgpu.",
     "kind: cv\ndataset: {source: synthetic}\n",
     "version: 1\nkind: cv\ndataset: {source: synthetic}\n", "mgpu-job(5)"},
    {"W102", "a variable that is not set",
     "'env_passthrough' takes a variable over from where mgpu-submit runs, and "
     "there it is not set: the job goes without it. Set it, or give it a value "
     "in 'env'.",
     "kind: command\nversion: 1\ncommand: [train]\n"
     "env_passthrough: [NOT_SET_ANYWHERE]\n",
     "kind: command\nversion: 1\ncommand: [train]\n"
     "env: {NOT_SET_ANYWHERE: here}\n",
     "mgpu-job(5), KEYS"},
    {"W103", "a secret without its file",
     "The file of one of 'secrets' is not there, or others may read it. The "
     "job is held where it would run unless it is there by then: it needs to "
     "be on the nodes, which often share your home.",
     "kind: command\nversion: 1\ncommand: [train]\nsecrets: [HF_TOKEN]\n",
     "$ install -m 600 -D token ~/.config/mgpu/secrets/HF_TOKEN\n",
     "mgpu-job(5), SECRETS"},
    {"W104", "a directory, a file or a program that is not here",
     "'workdir', the program that 'command' begins with, a model or data do "
     "not exist where mgpu-submit runs. The job fails unless they exist where "
     "the job runs: nodes often have the same file systems. A program without "
     "a slash is looked for there. Nobody looks for the models and data of a "
     "job with 'depends_on', because the jobs before it may make them.",
     "kind: command\nversion: 1\ncommand: [/nonexistent/train]\n",
     "kind: command\nversion: 1\ncommand: [train]\n",
     "mgpu-job(5), workdir and command"},
    {"W111", "it may have to begin anew",
     "The job may be told to make room for one of higher priority, and then "
     "begins from its start: a command without 'saves: true' does not say "
     "that it saves its work, and training without checkpoints saves none.",
     "kind: command\nversion: 1\ncommand: [train]\n"
     "policy: {preemptible: true}\n",
     "kind: command\nversion: 1\ncommand: [train]\n"
     "policy: {preemptible: false}\n",
     "mgpu-job(5), policy"},
    {"W112", "it was to begin in the past",
     "'policy.begin' is over: the job waits for nothing but its turn. A time "
     "of "
     "day without its date has to be written anew each day; '+2h' is so long "
     "after the submission, whenever that is.",
     "policy: {begin: \"2001-01-01T08:00:00Z\"}\n", "policy: {begin: +2h}\n",
     "mgpu-job(5), policy"},
    {"W113", "a key of torchtune that has no effect",
     "The key stands in configurations of torchtune and is about how torchtune "
     "works, or what it prints. mgpu has its own ways: the job is the same "
     "without it. Leave it out when you no longer use the file elsewhere.",
     "version: 1\nkind: llm\nmethod: lora\n"
     "train:\n  compile: true\n"
     "  checkpointer: {checkpoint_dir: /models/llama}\n"
     "  dataset: {template: tokens, path: /data/rows.jsonl}\n",
     "version: 1\nkind: llm\nmethod: lora\n"
     "train:\n"
     "  checkpointer: {checkpoint_dir: /models/llama}\n"
     "  dataset: {template: tokens, path: /data/rows.jsonl}\n",
     "mgpu-job(5), LANGUAGE MODELS"},
    {"W201", "GPUs of a memory that is not known",
     "'resources.gpu_memory' leaves out GPUs that are known to have less, or "
     "more. Of some that the job may use nobody has said what they have: their "
     "driver does on a machine of one's own, and on a Slurm cluster "
     "'slurm.gpu_memory' of mgpu.yaml, by their type. The job may be started "
     "there, and run out of memory. Name a type that has enough, or have an "
     "administrator say what the types have.",
     "# resources: {gpu_memory: 40G..}  where nothing is said of their "
     "memory\n",
     "resources: {gpu_memory: 40G.., gpu_type: h100}\n",
     "mgpu-job(5), resources.gpu_memory; mgpu.yaml(5), slurm.gpu_memory"},
};

enum { N_NOTES = sizeof(notes) / sizeof(notes[0]), CODE_LEN = 4 };

const struct code_note *code_notes(size_t *ret_n)
{
    *ret_n = N_NOTES;
    return notes;
}

/* Normalizes "e24" to E024. */
static void normal(const char *word, char ret[CODE_LEN + 1])
{
    const char *digits = word;
    char letter = 'E';
    if (isalpha((unsigned char)*digits))
        letter = (char)toupper((unsigned char)*digits++);
    size_t n = strspn(digits, "0123456789");
    ret[0] = '\0';
    if (n < 1 || n > 3 || digits[n])
        return;
    ret[0] = letter;
    memset(ret + 1, '0', 3 - n);
    memcpy(ret + CODE_LEN - n, digits, n);
    ret[CODE_LEN] = '\0';
}

const struct code_note *code_find(const char *word)
{
    char code[CODE_LEN + 1];
    normal(word, code);
    for (size_t i = 0; i < N_NOTES; i++)
        if (strcmp(notes[i].code, code) == 0)
            return &notes[i];
    return NULL;
}

const char *code_near(const char *word)
{
    const char *near = NULL;
    long best = 1000;
    char code[CODE_LEN + 1];
    normal(word, code);
    for (size_t i = 0; i < N_NOTES; i++) {
        long gap = labs(strtol(notes[i].code + 1, NULL, 10) -
                        strtol(*code ? code + 1 : "", NULL, 10));
        if (gap < best && *code && text_distance(notes[i].code, code) <= 1) {
            best = gap;
            near = notes[i].code;
        }
    }
    return near;
}
