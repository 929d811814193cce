/* spec_llm.c - kind llm: its defaults by method, what is refused and where, the
 * linears with an adapter, and what the daemon is told. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "jobs/schema/schema_doc.h"
#include "jobs/spec/spec_table.h"
#include "tests/unit/jobs/spec/llm_spec.h"

/* ---- defaults ------------------------------------------------------------ */

static const struct {
    const char *name, *text, *want; /* parts of the dump, separated by '|' */
} defaults[] = {
    {"lora", LORA,
     "\"kind\":\"llm\",\"method\":\"lora\","
     "\"preset\":\"torchtune-0.6\"|\"epochs\":1,\"batch_size\":2,"
     "\"gradient_accumulation_steps\":8|\"precision\":\"bf16\",\"mixed\":true|"
     "\"name\":\"adamw\",\"lr\":0.0003,\"weight_decay\":0.01|"
     "\"name\":\"cosine\",\"num_warmup_steps\":100|"
     "\"lora_rank\":8,\"lora_alpha\":16,\"lora_dropout\":0,"
     "\"lora_attn_modules\":[\"q_proj\",\"v_proj\",\"output_proj\"],"
     "\"apply_lora_to_mlp\":true,\"apply_lora_to_output\":false|"
     "\"checkpoint_files\":[],\"adapter_checkpoint\":null,"
     "\"model_type\":null|\"tokenizer\":{\"path\":null,\"max_seq_len\":null,"
     "\"prompt_template\":\"auto\",\"pad_id\":null}|"
     "\"dataset\":{\"template\":\"alpaca\",\"path\":\"/data/jobs/d\","
     "\"data_files\":[],\"column_map\":{},\"split\":\"train\",\"packed\":false,"
     "\"train_on_input\":true,\"samples\":0,"
     "\"on_bad_row\":\"fail\",\"drop_last\":false},\"dataset_val\":{\"path\":"
     "null}|"
     "\"enable_activation_checkpointing\":false|\"sample\":{\"prompts\":[]}|"
     "\"distribution\":\"ddp-ds\",\"seed\":null,\"shuffle\":true,"
     "\"clip_grad_norm\":null|\"on_signal\":true"},
    {"dpo", DPO,
     "\"method\":\"dpo\"|\"gradient_accumulation_steps\":8|\"lr\":0.0003|"
     "\"lora_rank\":8,\"lora_alpha\":16|\"loss\":{\"normalize\":\"tokens\","
     "\"beta\":0.1,\"label_smoothing\":0,\"precompute_reference\":false}"},
    {"an adapter that says the rest",
     HEAD "method: lora\ntrain:\n"
          "  checkpointer: {checkpoint_dir: /m, adapter_checkpoint: /a}\n"
          "  dataset: {template: tokens, path: /d}\n",
     "\"lora_rank\":null,\"lora_alpha\":null,\"lora_dropout\":0,"
     "\"lora_attn_modules\":[],\"apply_lora_to_mlp\":\"auto\","
     "\"apply_lora_to_output\":\"auto\""},
    {"dpo of all weights", DPO "  model: {lora_rank: 0}\n",
     "\"method\":\"dpo\"|\"lora_rank\":0"},
    {"the paper on one GPU", "preset: paper-2503\n" LORA,
     "\"preset\":\"paper-2503\"|\"gradient_accumulation_steps\":64|"
     "\"precision\":\"fp32\",\"mixed\":false|\"pin_memory\":false|"
     "\"lora_attn_modules\":[\"q_proj\",\"v_proj\"],"
     "\"apply_lora_to_mlp\":false|\"max_seq_len\":512,"
     "\"prompt_template\":null,\"pad_id\":0|\"train_on_input\":true|"
     "\"loss\":{\"normalize\":\"micro_batch\"}|"
     "\"enable_activation_checkpointing\":true"},
    {"the paper on four", "preset: paper-2503\nresources: {gpus: 4}\n" LORA,
     "\"gradient_accumulation_steps\":32|"
     "\"enable_activation_checkpointing\":false"},
    {"the paper with SlimOrca",
     HEAD "method: lora\npreset: paper-2503\ntrain:\n"
          "  checkpointer: {checkpoint_dir: /m}\n"
          "  dataset: {template: slimorca, path: /d}\n",
     "\"max_seq_len\":1024,\"prompt_template\":\"llama2_chat\"|"
     "\"train_on_input\":false"},
    {"what the file says wins",
     "preset: paper-2503\n" LORA
     "  precision: bf16\n  tokenizer: {max_seq_len: null}\n",
     "\"precision\":\"bf16\",\"mixed\":true|\"max_seq_len\":null"},
    {"torchtune has its own", "preset: torchtune-0.6\n" LORA,
     "\"preset\":\"torchtune-0.6\"|\"gradient_accumulation_steps\":8|"
     "\"loss\":{\"normalize\":\"tokens\"}"},
    {"qlora", HEAD "method: qlora\ntrain:\n" DATA,
     "\"method\":\"qlora\"|\"gradient_accumulation_steps\":8|"
     "\"name\":\"adamw\",\"lr\":0.0003|"
     "\"name\":\"cosine\",\"num_warmup_steps\":100|\"lora_rank\":8|"
     "\"quantizer\":{\"name\":\"nf4\"}"},
    {"qat is as full", HEAD "method: qat\ntrain:\n" DATA,
     "\"method\":\"qat\"|\"gradient_accumulation_steps\":1|"
     "\"lr\":2e-05|\"name\":\"constant\"|\"lora_rank\":0|"
     "\"quantizer\":{\"name\":\"8da4w\",\"groupsize\":256,"
     "\"fake_quant_after_n_steps\":null}|"
     "\"enable_activation_checkpointing\":true"},
    {"qat that is sharded",
     HEAD "method: qat\ntrain:\n" DATA "  distribution: fsdp\n",
     "\"method\":\"qat\"|\"distribution\":\"fsdp\""},
    {"qat with adapters is as lora",
     HEAD "method: qat\ntrain:\n" DATA "  model: {lora_rank: 4}\n"
          "  quantizer: {groupsize: 32, fake_quant_after_n_steps: 9}\n",
     "\"gradient_accumulation_steps\":8|\"lr\":0.0003|"
     "\"name\":\"cosine\",\"num_warmup_steps\":100|\"lora_rank\":4|"
     "\"groupsize\":32,\"fake_quant_after_n_steps\":9|"
     "\"enable_activation_checkpointing\":false"},
    {"full", FULL,
     "\"gradient_accumulation_steps\":1|\"lr\":2e-05|"
     "\"name\":\"constant\",\"num_warmup_steps\":0|"
     "\"enable_activation_checkpointing\":true|\"mixed\":true"},
    {"lora without cosine has no warm-up",
     LORA "  lr_scheduler: {name: constant}\n",
     "\"name\":\"constant\",\"num_warmup_steps\":0"},
    {"full with cosine has none either",
     FULL "  lr_scheduler: {name: cosine}\n",
     "\"name\":\"cosine\",\"num_warmup_steps\":0"},
    {"a warm-up that is written",
     LORA "  lr_scheduler: {num_warmup_steps: 7}\n",
     "\"name\":\"cosine\",\"num_warmup_steps\":7"},
    {"32 bits are not mixed", LORA "  precision: fp32\n",
     "\"precision\":\"fp32\",\"mixed\":false"},
    {"fp16 is", LORA "  precision: fp16\n",
     "\"precision\":\"fp16\",\"mixed\":true"},
    {"unless that is written", LORA "  mixed: false\n",
     "\"precision\":\"bf16\",\"mixed\":false"},
    {"an evaluation is read as the training",
     HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  tokenizer: {max_seq_len: 8}\n"
          "  dataset: {template: alpaca, path: /d, packed: true,\n"
          "    train_on_input: false, samples: 9, on_bad_row: skip}\n"
          "  dataset_val: {path: /v}\n",
     "\"dataset_val\":{\"path\":\"/v\",\"data_files\":[],"
     "\"split\":\"train\","
     "\"template\":\"alpaca\",\"packed\":true,"
     "\"packing\":\"in_order\",\"split_across_pack\":false,"
     "\"train_on_input\":false,\"samples\":0,\"on_bad_row\":\"skip\"}|"
     "\"batch_size_val\":null,\"run_val_every_n_steps\":null"},
    {"unless that is written",
     LORA "  dataset_val: {path: /v, template: tokens, packed: false}\n",
     "\"dataset_val\":{\"path\":\"/v\",\"data_files\":[],"
     "\"split\":\"train\","
     "\"template\":\"tokens\","
     "\"packed\":false,\"samples\":0"},
    {"whose other template judges as it does by itself",
     LORA "  dataset_val: {path: /v, template: chat}\n",
     "\"template\":\"chat\",\"packed\":false,\"train_on_input\":false"},
    {"alpaca as well",
     HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  dataset: {template: chat, path: /d}\n"
          "  dataset_val: {path: /v, template: alpaca}\n",
     "\"template\":\"alpaca\",\"packed\":false,\"train_on_input\":true"},
    {"the best is that of the least loss",
     LORA "  dataset_val: {path: /v}\ncheckpoint: {keep_best: true}\n",
     "\"metric\":\"eval_loss\""},
    {"texts to continue", LORA "  sample: {prompts: [\"a\\nb\"]}\n",
     "\"sample\":{\"prompts\":[\"a\\nb\"],\"max_new_tokens\":64,"
     "\"every\":\"never\",\"temperature\":0,\"top_k\":0,\"top_p\":1}"},
    {"cv has its own", "version: 1\nkind: cv\ndataset: {source: synthetic}\n",
     "\"epochs\":20,\"batch_size\":64,\"gradient_accumulation_steps\":1|"
     "\"precision\":\"fp32\",\"mixed\":false|\"lr\":0.001|"
     "\"name\":\"constant\",\"num_warmup_steps\":0"},
};

static void test_defaults(void)
{
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        struct buf dump = BUF_INIT, again = BUF_INIT;
        struct job_spec s, t;
        char part[600];
        tap_diag("%s", defaults[i].name);
        if (!is_good(defaults[i].text, &s))
            continue;
        is_int(spec_dump(&s, &dump, &err), 0, "is written");
        for (const char *p = defaults[i].want; p;) {
            size_t len = strcspn(p, "|");
            (void)snprintf(part, sizeof(part), "%.*s", (int)len, p);
            if (!ok(strstr(buf_str(&dump), part) != NULL, "%s", part))
                tap_diag("%s", buf_str(&dump));
            p = p[len] ? p + len + 1 : NULL;
        }
        if (is_good(buf_str(&dump), &t)) {
            is_int(spec_dump(&t, &again, &err), 0, "is written again");
            is_str(buf_str(&again), buf_str(&dump), "what is read is the same");
            spec_clear(&t);
        }
        spec_clear(&s);
        buf_clear(&dump);
        buf_clear(&again);
    }
}

static void test_cv_is_free(void)
{
    struct buf dump = BUF_INIT;
    struct job_spec s;
    if (!is_good("version: 1\nkind: cv\ndataset: {source: synthetic}\n", &s))
        return;
    is_int(spec_dump(&s, &dump, &err), 0, "a cv job");
    ok(!strstr(buf_str(&dump), "\"method\"") &&
           !strstr(buf_str(&dump), "lora") &&
           !strstr(buf_str(&dump), "tokenizer"),
       "has no key of kind llm");
    is_int(spec_lora_targets(&s), 0, "and no adapter");
    spec_clear(&s);
    buf_clear(&dump);
}

static const char *shown_line(const char *text, const char *line)
{
    const char *p = strstr(text, line);
    return p && (p == text || p[-1] == '\n') ? p : NULL;
}

static void test_show(void)
{
    struct buf out = BUF_INIT;
    static const char text[] =
        LORA "  dtype: fp32\n  dataset_val: {path: /v}\n";
    is_int(spec_show(text, strlen(text), &here, &out, &err), 0, "--show");
    const char *s = buf_str(&out);
    ok(shown_line(s, "method: lora                            # file:3\n"),
       "the method");
    ok(shown_line(s, "  epochs: 1                             # default\n"),
       "a default of the kind");
    ok(shown_line(s, "  precision: fp32                       # file:7\n"),
       "by the name of torchtune");
    ok(shown_line(s, "    template: alpaca                    # default\n"),
       "a default like another value");
    ok(!strstr(s, "label_smoothing") && !strstr(s, "model:\n  arch"),
       "no key of kind cv");
    buf_clear(&out);
}

static void test_documented(void)
{
    static const struct {
        const char *key, *want;
    } rows[] = {
        {"train.batch_size", "64; llm: 2"},
        {"train.optimizer.lr", "1e-3; lora: 3e-4; full: 2e-5"},
        {"train.lr_scheduler.num_warmup_steps", "0; lora with cosine: 100"},
        {"train.mixed", "false; llm in 16 bits: true"},
        {"train.dataset_val.packed", "that of train.dataset.packed"},
        {"method", "required"},
        {"train.seed", "null"},
        {"train.sample.prompts", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char got[RANGE_CAP];
        const struct schema_key *k = schema_find(&spec_schema, rows[i].key);
        is_str(k ? schema_default(&spec_schema, k, got) : "no key",
               rows[i].want, rows[i].key);
    }
}

/* ---- what is refused ----------------------------------------------------- */

static const struct {
    const char *name, *text, *want, *says; /* of the first: message or hint */
} bad[] = {
    {"nothing but the kind", HEAD, "E012 1:1 E015 1:1 E012 1:1 E015 1:1",
     "one of: lora, full, qlora, dpo"},
    {"a column that the template does not have",
     HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  dataset: {template: alpaca, path: /d,\n"
          "    column_map: {input: question, answer: reply}}\n",
     "E012 7:35", "instruction, input, output"},
    {"a bound that is no bound", LORA_WITH("split: 'train[:120%]'"),
     "E012 6:47", "a bound is above 100%"},
    {"a bound that is not closed", LORA_WITH("split: 'train[3:'"), "E012 6:47",
     "expected ']'"},
    {"a split of another name", LORA_WITH("split: test"), "E012 6:47",
     "as in train[:95%]"},
    {"bounds without a row", LORA_WITH("split: 'train[9:9]'"), "E012 6:47",
     "no row is between the bounds"},
    {"an order of rows that are not packed", LORA_WITH("packing: best_fit"),
     "E017 6:40", "is only for train.dataset.packed: true"},
    {"a system of Stanford's words", LORA_WITH("new_system_prompt: x"),
     "E017 6:40", "is only for templates with a prompt of their own words"},
    {"another prompt template", LORA "  tokenizer: {prompt_template: alpaca}\n",
     "E012 7:32", "llama2_chat"},
    {"another method", HEAD "method: rank\ntrain:\n" DATA, "E012 3:9",
     "'method' must be one of: lora, full, qlora, dpo, qat, not 'rank'"},
    {"keys of an adapter",
     FULL "  model: {lora_rank: 4, apply_lora_to_mlp: true}\n",
     "E017 7:11 E017 7:25",
     "'train.model.lora_rank' is only for methods with adapters"},
    {"a base in four bits without qlora", LORA "  quantizer: {name: nf4}\n",
     "E017 7:15", "'train.quantizer.name' is only for method: qlora"},
    {"another quantizer",
     HEAD "method: qlora\ntrain:\n" DATA "  quantizer: {name: int4}\n",
     "E012 7:21", "nf4, nf4_single, 8da4w"},
    {"a base in eight bits",
     HEAD "method: qlora\ntrain:\n" DATA "  quantizer: {name: 8da4w}\n",
     "E017 7:21", "'train.quantizer.name: 8da4w' is only for method: qat"},
    {"NormalFloat that is trained",
     HEAD "method: qat\ntrain:\n" DATA "  quantizer: {name: nf4}\n",
     "E017 7:21", "set name: 8da4w"},
    {"groups of NormalFloat",
     HEAD "method: qlora\ntrain:\n" DATA "  quantizer: {groupsize: 32}\n",
     "E017 7:15", "'train.quantizer.groupsize' is only for method: qat"},
    {"groups of one",
     HEAD "method: qat\ntrain:\n" DATA "  quantizer: {groupsize: 1}\n",
     "E013 7:26", "2..65536"},
    {"rounding that begins behind the end",
     HEAD "method: qat\ntrain:\n" DATA "  max_steps_per_epoch: 5\n  epochs: 2\n"
          "  quantizer: {fake_quant_after_n_steps: 10}\n",
     "E017 9:41", "at most 10 iterations: nothing would be rounded"},
    {"rounding that begins behind the limit",
     HEAD "method: qat\ntrain:\n" DATA "  max_iterations: 10\n"
          "  quantizer: {fake_quant_after_n_steps: 10}\n",
     "E017 8:41", "at most 10 iterations: nothing would be rounded"},
    {"an adapter to go on with",
     HEAD "method: full\ntrain:\n"
          "  checkpointer: {checkpoint_dir: /m, adapter_checkpoint: /a}\n"
          "  dataset: {template: tokens, path: /d}\n",
     "E017 5:38", "remove it, or set method: lora"},
    {"an unknown matrix",
     LORA "  model: {lora_attn_modules: [q_proj, w_proj]}\n", "E012 7:39",
     "one of: q_proj, k_proj, v_proj, output_proj"},
    {"one of the MLP", LORA "  model: {lora_attn_modules: [gate_proj]}\n",
     "E012 7:31", "write apply_lora_to_mlp: true"},
    {"no matrix at all",
     LORA "  model: {lora_attn_modules: [], apply_lora_to_mlp: no}\n",
     "E017 7:30", "no matrix has an adapter"},
    {"packs of no length",
     HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  dataset: {template: alpaca, path: /d, packed: true}\n",
     "E017 6:49", "as in tokenizer: {max_seq_len: 2048}"},
    {"a part of no profile", LORA "  profile_first: 720s\n", "E017 7:18",
     "profile_first needs a profile"},
    {"packs of an evaluation", LORA "  dataset_val: {path: /v, packed: true}\n",
     "E017 7:35", "needs train.tokenizer.max_seq_len"},
    {"a prompt of tokens",
     HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  dataset: {template: tokens, path: /d, train_on_input: false}\n",
     "E017 6:41", "is only for templates with a prompt"},
    {"an evaluation without rows",
     LORA "  dataset_val: {samples: 3}\n  run_val_every_n_steps: 5\n"
          "  batch_size_val: 1\n",
     "E017 7:17 E017 8:3 E017 9:3", "is only for train.dataset_val.path"},
    {"length of no text", LORA "  sample: {max_new_tokens: 5}\n", "E017 7:12",
     "is only for train.sample.prompts"},
    {"samples in between", LORA "  sample: {prompts: [a], every: 2parsecs}\n",
     "E024 7:33", "write 500steps, 10m or 1epoch"},
    {"rmsprop", LORA "  optimizer: {name: rmsprop}\n", "E018 7:21",
     "one of: adamw, sgd, adamw8bit"},
    {"a state in eight bits that is sharded",
     LORA "  distribution: fsdp\n  optimizer: {name: adamw8bit}\n", "E017 8:21",
     "set name: adamw"},
    {"the data of all", LORA "  distribution: ddp\n", "E018 7:17",
     "one of: ddp-ds, fsdp"},
    {"changed in the backward pass, and clipped",
     FULL "  clip_grad_norm: 1\n  optimizer_in_bwd: true\n", "E017 8:21",
     "set clip_grad_norm: null"},
    {"of several batches",
     FULL "  gradient_accumulation_steps: 2\n  optimizer_in_bwd: true\n",
     "E017 8:21", "set gradient_accumulation_steps: 1"},
    {"of a global batch",
     FULL "  global_batch_size: 8\n  optimizer_in_bwd: true\n", "E017 8:21",
     "without a global_batch_size"},
    {"or skipped", FULL "  on_nan: skip\n  optimizer_in_bwd: true\n",
     "E017 8:21", "set on_nan: fail"},
    {"with a loss scale", FULL "  precision: fp16\n  optimizer_in_bwd: true\n",
     "E017 8:21", "set precision: bf16"},
    {"of adapters", LORA "  optimizer_in_bwd: true\n", "E017 7:3",
     "method: full"},
    {"by turns", LORA "  distribution: ddp-rr\n", "E018 7:17", "ddp-rr"},
    {"by the first rank", LORA "  distribution: dp\n", "E018 7:17", "'"},
    {"the best of no evaluation", LORA "checkpoint: {keep_best: true}\n",
     "E017 7:25", "needs train.dataset_val"},
    {"the best accuracy",
     LORA "  dataset_val: {path: /v}\n"
          "checkpoint: {keep_best: true, metric: eval_accuracy}\n",
     "E018 8:39", "set metric: eval_loss"},
    {"an early stop by no evaluation",
     LORA "  early_stopping: {metric: eval_loss}\n", "E017 7:28",
     "or metric: train_loss"},
    {"an early stop by the accuracy",
     LORA "  dataset_val: {path: /v}\n"
          "  early_stopping: {metric: eval_accuracy}\n",
     "E018 8:28", "set metric: eval_loss"},
    {"an early stop by nothing", LORA "  early_stopping: {patience: 2}\n",
     "E017 7:20", "set metric: eval_loss"},
    {"patience of nothing",
     LORA "  early_stopping: {metric: train_loss, patience: 0}\n", "E013 7:50",
     "1..10000"},
    {"an evaluation of no rows", LORA "  eval_only: true\n", "E017 7:14",
     "set train.dataset_val.path"},
    {"an evaluation of no weights",
     "version: 1\nkind: cv\ndataset: {source: synthetic}\n"
     "train: {eval_only: true}\n",
     "E017 4:20", "set train.resume_from"},
    {"the weights of no job", LORA "  weights_only: true\n", "E017 7:17",
     "set train.resume_from"},
    {"no iterations", LORA "  max_iterations: 0\n", "E013 7:19", "1.."},
    {"keys of cv",
     LORA "  ema: {decay: 0.9}\n  label_smoothing: 0.1\nmodel: {dropout: 0}\n",
     "E018 7:9 E018 8:3 E018 9:9", "'train.ema.decay' is only for kind: cv"},
    {"keys of a command", LORA "command: [ls]\n", "E018 7:1",
     "'command' is only for kind: command"},
    {"keys of training in a command",
     "version: 1\nkind: command\ncommand: [ls]\ntrain: {epochs: 1}\n",
     "E018 4:9", "'train.epochs' is only for kind: cv and llm"},
    {"keys of llm in cv",
     "version: 1\nkind: cv\nmethod: lora\ndataset: {source: synthetic}\n"
     "train: {model: {lora_rank: 4}, compile: true}\n",
     "E018 3:1 E018 5:17 E018 5:32", "'method' is only for kind: llm"},
    {"mixed in 32 bits", LORA "  precision: fp32\n  mixed: true\n", "E017 8:10",
     "set precision: bf16"},
    {"a rank of 0", LORA "  model: {lora_rank: 0}\n", "E013 7:22", "1 or more"},
    {"rows without a pair",
     HEAD "method: dpo\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  dataset: {template: alpaca, path: /d}\n",
     "E017 6:23", "needs pairs of answers"},
    {"pairs in a pack",
     HEAD "method: dpo\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
          "  tokenizer: {max_seq_len: 64}\n"
          "  dataset: {template: tokens, path: /d, packed: true}\n",
     "E017 7:49", "is not for method: dpo"},
    {"a preference of other methods", LORA "  loss: {beta: 0.2}\n", "E017 7:10",
     "is only for method: dpo"},
    {"a preference of nothing", DPO "  loss: {beta: 0}\n", "E013 7:16",
     "above 0"},
    {"labels that say nothing", DPO "  loss: {label_smoothing: 0.6}\n",
     "E013 7:27", "0..0.5"},
    {"an adapter of no rank",
     HEAD "method: dpo\ntrain:\n"
          "  checkpointer: {checkpoint_dir: /m, adapter_checkpoint: /a}\n"
          "  dataset: {template: preference, path: /d}\n"
          "  model: {lora_rank: 0}\n",
     "E017 5:58", "set lora_rank to that of the adapter"},
    {"a rank of no adapter", LORA "  model: {lora_rank: null}\n", "E017 7:22",
     "set a value, or train.checkpointer.adapter_checkpoint"},
    {"an alpha of no adapter", LORA "  model: {lora_alpha: null}\n",
     "E017 7:23", "there is none"},
    {"linears of no adapter", LORA "  model: {apply_lora_to_mlp: auto}\n",
     "E017 7:30", "as in the adapter that the job begins with"},
    {"a value that is read by another check only",
     LORA "  model: {lora_attn_modules: q_proj}\n", "E011 7:30", "a list"},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct job_spec s;
        char got[200];
        int rc = parse(bad[i].text, &s);
        ok(rc < 0 && err.code == ERR_INVAL, "refused: %s", bad[i].name);
        is_str(findings_text(&report, got, sizeof(got)), bad[i].want,
               bad[i].name);
        const struct spec_finding *f = report.n ? report.findings : NULL;
        if (!ok(f && (strstr(f->message, bad[i].says) ||
                      strstr(f->hint, bad[i].says)),
                "  and says why") &&
            f)
            tap_diag("%s | %s", f->message, f->hint);
        if (rc == 0)
            spec_clear(&s);
    }
}

/* ---- the linears with an adapter ----------------------------------------- */

static void test_targets(void)
{
    static const struct {
        const char *lines;
        uint32_t want;
    } rows[] = {
        {"", 1 | 4 | 8 | 16 | 32 | 64},
        {"  model: {lora_attn_modules: [q_proj, v_proj],"
         " apply_lora_to_mlp: false}\n",
         1 | 4},
        {"  model: {lora_attn_modules: [k_proj, o_proj],"
         " apply_lora_to_mlp: false, apply_lora_to_output: true}\n",
         2 | 8 | 128},
        {"  model: {lora_attn_modules: [o_proj, output_proj]}\n",
         8 | 16 | 32 | 64},
        {"  model: {lora_attn_modules: []}\n", 16 | 32 | 64},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf text = BUF_INIT;
        struct job_spec s;
        if (buf_addf(&text, &err, LORA "%s", rows[i].lines) == 0 &&
            is_good(buf_str(&text), &s)) {
            is_int(spec_lora_targets(&s), rows[i].want, rows[i].lines);
            spec_clear(&s);
        }
        buf_clear(&text);
    }
    struct job_spec s;
    if (is_good(FULL, &s)) {
        is_int(spec_lora_targets(&s), 0, "none, with all weights");
        spec_clear(&s);
    }
}

/* ---- null ---------------------------------------------------------------- */

/* A word of a list that is null leaves its neighbours as they are. */
static void test_null(void)
{
    struct job_spec s;
    if (is_good(LORA "  tokenizer: {max_seq_len: 99, pad_id: 7, "
                     "prompt_template: null}\n",
                &s)) {
        is_int(s.train.tokenizer.prompt_template, PROMPT_NONE, "no template");
        is_int(s.train.tokenizer.max_seq_len, 99, "the length before it");
        is_int(s.train.tokenizer.pad_id, 7, "the id behind it");
        spec_clear(&s);
    }
}

/* ---- what the daemon is told --------------------------------------------- */

static void test_life(void)
{
    struct job_spec s;
    double before_s = 0;
    struct spec_options opt = here;
    static const char text[] = LORA "resources: {time_limit: 1h}\n";
    opt.draw_seed = true;
    diagnostics_clear(&report);
    is_int(spec_parse(text, strlen(text), &opt, &s, &report, &err), 0, "a job");
    ok(s.train.seed >= 0, "its seed is drawn");
    ok(spec_saves(&s), "it saves when it is stopped");
    ok(spec_stall_ends(&s), "without progress it is ended");
    is_int(spec_warning(&s, &before_s), SIGUSR1, "it is warned");
    ok(before_s == 120, "before its limit");
    spec_clear(&s);
    if (is_good(LORA "checkpoint: {on_signal: false}\n", &s)) {
        ok(!spec_saves(&s), "unless it is told not to save");
        is_str(report.n == 0 ? "" : report.findings[0].code, "W111",
               "which is a warning");
        spec_clear(&s);
    }
}

static void test_sweep(void)
{
    static const char text[] =
        HEAD "train:\n" DATA
             "sweep: {grid: {method: [lora, full], train.precision: [bf16, "
             "fp32]}}\n";
    static const struct {
        double lr;
        bool mixed;
    } want[] = {{3e-4, true}, {3e-4, false}, {2e-5, true}, {2e-5, false}};
    struct spec_jobs jobs = {.n = 0};
    struct spec_options opt = here;
    opt.draw_seed = true;
    diagnostics_clear(&report);
    is_int(spec_expand(text, strlen(text), &opt, &jobs, &report, &err), 0,
           "a sweep over methods");
    is_int((long long)jobs.n, 4, "makes four jobs");
    for (size_t i = 0; i < jobs.n && i < 4; i++) {
        const struct job_spec *s = &jobs.tasks[i].spec;
        ok(s->train.optimizer.lr == want[i].lr, "its rate");
        is_int(s->train.mixed, want[i].mixed, "its weights");
        ok(s->train.seed >= 0 && s->train.seed == jobs.tasks[0].spec.train.seed,
           "they share a seed");
    }
    spec_jobs_clear(&jobs);
    diagnostics_clear(&report);
    static const char own[] =
        LORA "  dtype: fp32\n  compile: no\nsweep: {grid: {train.epochs: [1, "
             "2]}}\n";
    is_int(spec_expand(own, strlen(own), &opt, &jobs, &report, &err), 0,
           "keys of torchtune beside a sweep");
    is_int((long long)report.n, 1, "are told of once");
    ok(jobs.text && strstr(jobs.text, "\"precision\":\"fp32\"") &&
           !strstr(jobs.text, "compile"),
       "and are not sent");
    spec_jobs_clear(&jobs);
}

int main(void)
{
    test_defaults();
    test_cv_is_free();
    test_show();
    test_documented();
    test_bad();
    test_targets();
    test_null();
    test_life();
    test_sweep();
    diagnostics_clear(&report);
    return tap_done();
}
