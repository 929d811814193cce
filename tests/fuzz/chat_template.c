/* chat_template.c - libFuzzer: any bytes as a tokenizer_config.json, and as a
 * chat_template.jinja. A template is known, or refused by words that name the
 * key; what is no template counts as absent. */
#include "worker/data/chat/chat_template.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/chat/chat_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *dir, const char *name, const uint8_t *data,
                  size_t size)
{
    enum spec_prompt is = PROMPT_AUTO;
    struct error err = ERROR_INIT;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        abort();
    (void)fwrite(data, 1, size, f);
    (void)fclose(f);
    const bool has = chat_template_is_in(dir);
    if (chat_template_find(dir, &is, &err) < 0) {
        if (err.code != ERR_INVAL || is != PROMPT_AUTO || !has ||
            strstr(err.msg, "train.tokenizer.prompt_template") == NULL)
            abort();
    } else if (has != (is != PROMPT_NONE) ||
               (has && chat_table_of(is) == NULL)) {
        abort();
    }
    (void)unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char dir[64];
    if (dir[0] == '\0') {
        (void)snprintf(dir, sizeof(dir), "/tmp/mgpu-fuzz-chat-XXXXXX");
        if (mkdtemp(dir) == NULL)
            abort();
    }
    check(dir, "tokenizer_config.json", data, size);
    check(dir, "chat_template.jinja", data, size);
    return 0;
}
