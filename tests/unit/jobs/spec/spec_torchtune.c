/* spec_torchtune.c - keys and components of a recipe of torchtune: what they
 * mean here, what is left out with a warning, and what is refused. */
#include <stdio.h>

#include "tests/unit/jobs/spec/llm_spec.h"

/* The values of recipes/configs/llama3/8B_lora.yaml, below train. */
static const char recipe[] =
    "version: 1\n"
    "kind: llm\n"
    "method: lora\n"
    "train:\n"
    "  model:\n"
    "    _component_: torchtune.models.llama3.lora_llama3_8b\n"
    "    lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']\n"
    "    apply_lora_to_mlp: True\n"
    "    apply_lora_to_output: False\n"
    "    lora_rank: 8\n"
    "    lora_alpha: 16\n"
    "    lora_dropout: 0.0\n"
    "  tokenizer:\n"
    "    _component_: torchtune.models.llama3.llama3_tokenizer\n"
    "    path: /tmp/Meta-Llama-3-8B-Instruct/original/tokenizer.model\n"
    "    max_seq_len: null\n"
    "  checkpointer:\n"
    "    _component_: torchtune.training.FullModelHFCheckpointer\n"
    "    checkpoint_dir: /tmp/Meta-Llama-3-8B-Instruct/\n"
    "    checkpoint_files: [a.safetensors, b.safetensors]\n"
    "    model_type: LLAMA3\n"
    "    output_dir: ${output_dir}\n"
    "  resume_from_checkpoint: False\n"
    "  output_dir: /results\n"
    "  dataset:\n"
    "    _component_: torchtune.datasets.alpaca_cleaned_dataset\n"
    "    path: alpaca.json\n"
    "    packed: False\n"
    "  seed: null\n"
    "  shuffle: True\n"
    "  batch_size: 2\n"
    "  optimizer:\n"
    "    _component_: torch.optim.AdamW\n"
    "    fused: True\n"
    "    weight_decay: 0.01\n"
    "    lr: 3e-4\n"
    "  lr_scheduler:\n"
    "    _component_: "
    "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup\n"
    "    num_warmup_steps: 50\n"
    "  loss:\n"
    "    _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
    "  epochs: 1\n"
    "  gradient_accumulation_steps: 8\n"
    "  compile: False\n"
    "  clip_grad_norm: null\n"
    "  dtype: bf16\n"
    "  enable_activation_checkpointing: False\n"
    "  enable_activation_offloading: False\n"
    "  metric_logger:\n"
    "    _component_: torchtune.training.metric_logging.DiskLogger\n"
    "    log_dir: /tmp/logs\n"
    "  log_every_n_steps: 1\n"
    "  log_peak_memory_stats: True\n"
    "  log_level: INFO\n"
    "  profiler: {_component_: torchtune.training.setup_torch_profiler}\n";

static void test_recipe(void)
{
    static const char *const ignored[] = {
        "train.optimizer.fused",
        "train.compile",
        "train.enable_activation_offloading",
        "train.metric_logger",
        "train.log_every_n_steps",
        "train.log_peak_memory_stats",
        "train.log_level",
        "train.profiler",
    };
    enum { N_IGNORED = sizeof(ignored) / sizeof(ignored[0]) };
    struct job_spec s;
    if (!is_good(recipe, &s))
        return;
    is_int((long long)report.n_warnings, N_IGNORED, "a warning for each");
    for (size_t i = 0; i < report.n && i < N_IGNORED; i++) {
        is_str(report.findings[i].code, "W113", "  its code");
        is_str(report.findings[i].path, ignored[i], "  its key");
        ok(strstr(report.findings[i].message, ignored[i]), "  says it");
    }
    is_int(s.train.optimizer.name, OPTIM_ADAMW, "the optimizer");
    is_int(s.train.lr_scheduler.name, SCHEDULE_COSINE, "the schedule");
    is_int(s.train.lr_scheduler.num_warmup_steps, 50, "  its warm-up");
    is_int(s.train.dataset.template, TEMPLATE_ALPACA, "the template");
    is_int(s.train.precision, PRECISION_BF16, "the precision");
    is_str(s.train.checkpointer.model_type, "LLAMA3", "the type");
    is_int((long long)s.train.checkpointer.files.n, 2, "the files");
    is_str(s.train.dataset.path, "/data/jobs/alpaca.json", "the data");
    is_str(s.train.output_dir, "/results", "the directory of results");
    spec_clear(&s);
}

static const struct {
    const char *name, *lines, *want, *says;
} components[] = {
    {"a model", "model: {_component_: torchtune.models.llama2.lora_llama2_7b}",
     "", ""},
    {"of two digits",
     "model: {_component_: torchtune.models.llama3_2.lora_llama3_2_1b}", "",
     ""},
    {"a Qwen2", "model: {_component_: torchtune.models.qwen2.lora_qwen2_0_5b}",
     "", ""},
    {"a Qwen2.5",
     "model: {_component_: torchtune.models.qwen2_5.lora_qwen2_5_1_5b_base}",
     "", ""},
    {"of 7b",
     "model: {_component_: torchtune.models.qwen2_5.lora_qwen2_5_7b_instruct}",
     "", ""},
    {"a Mistral",
     "model: {_component_: torchtune.models.mistral.lora_mistral_7b}", "", ""},
    {"their tokenizers",
     "tokenizer: {_component_: torchtune.models.qwen2_5.qwen2_5_tokenizer}", "",
     ""},
    {"of Mistral",
     "tokenizer: {_component_: torchtune.models.mistral.mistral_tokenizer}", "",
     ""},
    {"another tokenizer",
     "tokenizer: {_component_: torchtune.models.gemma.gemma_tokenizer}",
     "E012 7:28", "families: llama2, llama3, qwen2, qwen2_5, mistral"},
    {"in 4 bits, of Mistral",
     "model: {_component_: torchtune.models.mistral.qlora_mistral_7b}",
     "E017 7:24", "set method: qlora"},
    {"another model",
     "model: {_component_: torchtune.models.gemma.lora_gemma_7b}", "E012 7:24",
     "such as torchtune.models.llama3.lora_llama3_8b"},
    {"one that classifies",
     "model: {_component_: torchtune.models.mistral.lora_mistral_reward_7b}",
     "E012 7:24", "llama3_3, qwen2, qwen2_5, mistral"},
    {"a size that is none",
     "model: {_component_: torchtune.models.qwen2.lora_qwen2_0_b}", "E012 7:24",
     ""},
    {"one with more behind it",
     "model: {_component_: torchtune.models.llama3.lora_llama3_8b_base}",
     "E012 7:24", ""},
    {"one whose family is another",
     "model: {_component_: torchtune.models.llama3.lora_llama2_7b}",
     "E012 7:24", "families: llama2, llama3, llama3_1"},
    {"in 4 bits",
     "model: {_component_: torchtune.models.llama3.qlora_llama3_8b}",
     "E017 7:24", "set method: qlora"},
    {"without adapters",
     "model: {_component_: torchtune.models.llama3.llama3_8b}", "E017 7:24",
     "is a model without LoRA, and method is lora"},
    {"another optimizer",
     "optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit}", "E012 7:28",
     "one of: torch.optim.AdamW, torch.optim.SGD"},
    {"two optimizers", "optimizer: {_component_: torch.optim.AdamW, name: sgd}",
     "E017 7:15",
     "'train.optimizer._component_' and 'train.optimizer.name' are both"},
    {"one optimizer twice",
     "optimizer: {_component_: torch.optim.SGD, name: sgd, momentum: 0.8}", "",
     ""},
    {"an older name",
     "lr_scheduler: {_component_: "
     "torchtune.modules.get_cosine_schedule_with_warmup}",
     "", ""},
    {"a list", "optimizer: {_component_: [a]}", "E011 7:28",
     "must be a single value"},
    {"a section that is none", "optimizer: 3", "E011 7:14", "a mapping"},
    {"no loss of ours", "loss: {_component_: torch.nn.MSELoss}", "E012 7:23",
     "CrossEntropyLoss"},
    {"data of another kind",
     "dataset_val: {path: /v, _component_: "
     "torchtune.datasets.wikitext_dataset}",
     "E012 7:40", "torchtune.datasets.alpaca_dataset"},
};

static void test_components(void)
{
    for (size_t i = 0; i < sizeof(components) / sizeof(components[0]); i++) {
        struct buf text = BUF_INIT;
        struct job_spec s;
        char got[200];
        int rc = buf_addf(&text, &err, LORA "  %s\n", components[i].lines);
        if (rc == 0 && parse(buf_str(&text), &s) == 0)
            spec_clear(&s);
        is_str(findings_text(&report, got, sizeof(got)), components[i].want,
               components[i].name);
        const struct spec_finding *f = report.n ? report.findings : NULL;
        ok(f ? strstr(f->message, components[i].says) ||
                   strstr(f->hint, components[i].says)
             : components[i].says[0] == '\0',
           "  %s | %s", f ? f->message : "", f ? f->hint : "");
        buf_clear(&text);
    }
}

#define WITH(key)                                                         \
    HEAD "method: lora\ntrain:\n  dataset: {template: alpaca, path: d}\n" \
         "  checkpointer: {checkpoint_dir: /m, " key "}\n"

/* The directory of results is named at one of two places. */
static void test_output(void)
{
    static const struct {
        const char *text, *want, *dir;
    } cases[] = {
        {WITH("output_dir: /o"), "", "/o"},
        {WITH("output_dir: o"), "", "/data/jobs/o"},
        {WITH("output_dir: /o") "  output_dir: /o\n", "", "/o"},
        {WITH("output_dir: /o") "  output_dir: null\n", "", "/o"},
        {WITH("output_dir: '${output_dir}'") "  output_dir: /o\n", "", "/o"},
        {WITH("output_dir: '${output_dir}'"), "", NULL},
        {WITH("output_dir: null"), "", NULL},
        {WITH("output_dir: /o") "  output_dir: /p\n", "E017 6:38", NULL},
        {WITH("output_dir: [a]"), "E011 6:50", NULL},
        {LORA "  resume_from_checkpoint: off\n", "", NULL},
        {LORA "  resume_from_checkpoint: True\n", "E012 7:27", NULL},
        {LORA "  resume_from_checkpoint: [false]\n", "E012 7:27", NULL},
        {"version: 1\nkind: command\ncommand: [ls]\n"
         "train: {resume_from_checkpoint: false}\n",
         "E018 4:9", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job_spec s;
        char got[200];
        const int rc = parse(cases[i].text, &s);
        is_str(findings_text(&report, got, sizeof(got)), cases[i].want,
               cases[i].text);
        if (rc < 0)
            continue;
        if (cases[i].dir == NULL)
            ok(s.train.output_dir == NULL, "  no directory");
        else
            is_str(s.train.output_dir, cases[i].dir, "  the directory");
        spec_clear(&s);
    }
}

/* What is unknown is not missing, too; of full weights no adapter is meant. */
static void test_component_alone(void)
{
    struct job_spec s;
    char got[100];
    static const char unknown[] =
        HEAD "method: lora\ntrain:\n  checkpointer: {checkpoint_dir: /m}\n"
             "  dataset: {_component_: x.y, path: /d}\n";
    ok(parse(unknown, &s) < 0, "an unknown data set");
    is_str(findings_text(&report, got, sizeof(got)), "E012 6:26",
           "is one finding");
    ok(parse(FULL
             "  model: {_component_: torchtune.models.llama3.lora_llama3_8b}\n",
             &s) < 0,
       "a model with adapters");
    is_str(findings_text(&report, got, sizeof(got)), "E017 7:24",
           "is not trained in full");
    if (is_good(FULL
                "  model: {_component_: torchtune.models.llama3.llama3_8b}\n",
                &s))
        spec_clear(&s);
}

int main(void)
{
    test_recipe();
    test_components();
    test_component_alone();
    test_output();
    diagnostics_clear(&report);
    return tap_done();
}
