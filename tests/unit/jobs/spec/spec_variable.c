/* spec_variable.c - which key a variable MGPU_SET_* sets. */
#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

static void find_again(void *arg, const char *path, const char *type,
                       const char *def, const char *range, const char *doc)
{
    char name[128], key[128];
    size_t n = strlen(path);
    (void)type, (void)def, (void)range, (void)doc;
    for (size_t i = 0; i <= n; i++)
        name[i] = (char)(path[i] == '.'                     ? '_'
                         : path[i] >= 'a' && path[i] <= 'z' ? path[i] - 32
                                                            : path[i]);
    if (!spec_key_of(name, key, sizeof(key)) || strcmp(key, path) != 0) {
        tap_diag("%s is %s, not %s", name, key, path);
        ++*(int *)arg;
    }
}

static void test_variables(void)
{
    static const char *const rows[][2] = {
        {"ENV_LR", "env.LR"},
        {"ENV_a_B", "env.a_B"},
        {"LABELS_team", "labels.team"},
        {"ENV_PASSTHROUGH", "env_passthrough"},
        {"TRAIN_OPTIMIZER_RATE", "train.optimizer.rate"},
        {"TRAIN_EPOCH", "train.epoch"},
        {"train_epochs", "train_epochs"},
        {"TRAIN", "train"},
        {"WHAT", "what"},
    };
    char key[32];
    int n_other = 0;
    spec_each_key(find_again, &n_other);
    is_int(n_other, 0, "no two keys are one variable");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ok(spec_key_of(rows[i][0], key, sizeof(key)), "%s fits", rows[i][0]);
        is_str(key, rows[i][1], rows[i][0]);
    }
    ok(spec_key_of("ENV_aaaaaaaaaaaaaaaaaaaaaaaaaaa", key, sizeof(key)) &&
           !spec_key_of("ENV_aaaaaaaaaaaaaaaaaaaaaaaaaaaa", key, sizeof(key)),
       "what does not fit is not cut");
}

int main(void)
{
    test_variables();
    return tap_done();
}
