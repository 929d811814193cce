/* llm_batches_text.c - batches of rows of text: the format of messages that the
 * log names, and tokens by the tokenizer of the model or of the job. */
#include "tests/unit/worker/token_rig.h"

static char train_path[] = "/tmp/llm_trainXXXXXX";

/* Whether who trains is told of this format, and of a template of the model's
 * own.
 * in  dir   of the model
 *     with  prompt_template */
static void says_format(char *dir, enum spec_prompt with, const char *format,
                        bool is_own)
{
    struct rig r;
    rig_init(&r, false);
    token_file(train_path,
               "[{\"instruction\": \"Say b.\", \"output\": \"b\"}]");
    r.spec.train.dataset.path = train_path;
    r.spec.train.dataset.template = TEMPLATE_ALPACA;
    r.spec.train.checkpointer.dir = dir;
    r.spec.train.tokenizer.prompt_template = with;
    rig_open(&r);
    /* The last line that was said. */
    ok(strstr(r.said, is_own ? "chat template of its own" : format) != NULL,
       "%s", r.said);
    rig_close(&r);
}

/* A model with a chat template that is known: the default takes it, another
 * name does not, and says so. */
static void test_own(char *dir)
{
    char command[8500], from[2][4096];
    (void)snprintf(
        command, sizeof(command),
        "cp %s %s/tokenizer.json && cp %s %s/chat_template.jinja",
        golden_path("tests/golden/hf_tokenizers/smollm2/tokenizer.json",
                    from[0]),
        dir, golden_path("tests/golden/chat_ours.jinja", from[1]), dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
    says_format(dir, PROMPT_AUTO,
                "have the format hermes, that of the model's chat template",
                false);
    says_format(dir, PROMPT_HERMES,
                "have the format hermes, as train.tokenizer.prompt_template",
                false);
    says_format(dir, PROMPT_SMOLLM2, "", true);
    says_format(dir, PROMPT_NONE, "", true);
    (void)snprintf(command, sizeof(command), "rm %s/*", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
}

static void test_format(void)
{
    char plain[4096], llama3[4096], command[8500];
    char dir[] = "/tmp/mgpu-format-XXXXXX";
    char *llama2 = (char *)golden_path("tests/data/stories260K", plain);
    says_format(llama2, PROMPT_NONE, "have the format of Llama 2", false);
    says_format(llama2, PROMPT_AUTO, "have the format of Llama 2", false);
    says_format(llama2, PROMPT_CHATML, "Llama 2, with the words of", false);
    says_format(
        (char *)golden_path("tests/golden/hf_tokenizers/llama3", llama3),
        PROMPT_NONE, "have the format of Llama 3", false);
    if (mkdtemp(dir) == NULL)
        abort();
    test_own(dir);
    static const char *const files[] = {
        "tokenizer_config.json {\"chat_template\":null}",
        "tokenizer_config.json {\"chat_template\":\"x\"}",
        "tokenizer_config.json {\"chat_template\":[{\"name\":\"y\"}]}",
        "tokenizer_config.json {",
        "chat_template.jinja x",
    };
    static const bool own[] = {false, true, true, false, true};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *gap = strchr(files[i], ' ');
        (void)snprintf(command, sizeof(command),
                       "ln -sf %s/tokenizer.model %s/ && echo '%s' >%s/%.*s",
                       llama2, dir, gap + 1, dir, (int)(gap - files[i]),
                       files[i]);
        if (system(command) != 0) /* NOLINT(cert-env33-c) */
            abort();
        says_format(dir, PROMPT_NONE, "have the format of Llama 2", own[i]);
    }
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c) */
        abort();
}

/* in  file  a tokenizer of its own, or NULL: that of the checkpoint */
static void test_text(const char *dir, const char *file, int32_t classes)
{
    struct rig r;
    char dir_path[4096], file_path[4096];
    rig_init(&r, false);
    token_file(train_path,
               "[{\"instruction\": \"Say b.\", \"output\": \"b\"}]");
    r.spec.train.dataset.path = train_path;
    r.spec.train.dataset.template = TEMPLATE_ALPACA;
    r.spec.train.checkpointer.dir = (char *)golden_path(dir, dir_path);
    if (file != NULL)
        r.spec.train.tokenizer.path = (char *)golden_path(file, file_path);
    rig_open(&r);
    rig_epoch(&r, 1);
    struct batch b = rig_take(&r, BATCH_TRAIN, 0);
    const int32_t *id = b.arrays[TOKENS_ID].data;
    const int32_t *labelled = b.arrays[TOKENS_LABELLED].data;
    const int32_t *label = b.arrays[TOKENS_LABEL].data;
    is_int(id[0], 1, "begins with bos");
    ok(b.weight == 2, "\"b\" and eos are labelled: %g", b.weight);
    is_int(label[1], 2, "eos is the last label");
    is_int(labelled[1] + 2, b.tokens, "its place is the last but one");
    ok(r.source->ops->info(r.source)->classes <= classes, "ids of its own");
    rig_close(&r);
}

int main(void)
{
    int fd = mkstemp(train_path);
    if (fd < 0 || close(fd) < 0)
        return 1;
    test_format();
    test_text("tests/data/stories260K", NULL, 512);
    test_text("tests/data/stories260K", "tests/data/torchtune/m.model", 2000);
    (void)unlink(train_path);
    return tap_done();
}
