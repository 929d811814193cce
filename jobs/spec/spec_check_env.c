/* spec_check_env.c - check the names of labels, variables and secrets, and look
 * for the files of a command. */
#include "jobs/spec/spec_check.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/spec/secrets_file.h"
#include "jobs/text/text.h"

static const char name_chars[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

static void check_labels(const struct check *c)
{
    const struct schema_from *f = from_of(c, "labels");
    char q[TEXT_QUOTE_CAP];
    if (!is_set(c, "labels"))
        return;
    if (c->s->labels.n > 16)
        diagnostics_add(c->report, "E014", f->node->key_at, "labels", NULL,
                        "%zu labels; at most 16 are kept", c->s->labels.n);
    for (const struct node *n = f->node->first; n; n = n->next) {
        size_t len = strspn(n->key, name_chars);
        while (len > 0 && n->key[len] && strchr("./-", n->key[len]))
            len += 1 + strspn(n->key + len + 1, name_chars);
        (void)text_quote(q, sizeof(q), n->key);
        if (len == 0 || n->key[len] || len > 63 || *n->key == '_')
            diagnostics_add(
                c->report, "E014", n->key_at, "labels",
                "letters, digits, '.', '_', '/' and '-'; a letter or "
                "digit first; at most 63",
                "label '%s' is not a name", q);
        if (strlen(n->text) > 63 || strpbrk(n->text, "\t\n\r"))
            diagnostics_add(
                c->report, "E014", n->at, "labels", NULL,
                "the value of label '%s' must be one line of at most "
                "63 bytes",
                q);
    }
}

/* Variables that change how a program is loaded, that would give a job other
 * GPUs than its own, or that belong to mgpu. */
static bool is_denied(const char *name)
{
    static const char *const whole[] = {
        "BASH_ENV",         "ENV", "IFS", "SLURM_CONF", "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (strcmp(name, whole[i]) == 0)
            return true;
    return strncmp(name, "LD_", 3) == 0 || strncmp(name, "MGPU_", 5) == 0;
}

/* Of these the program reads where it is, and mgpu alone knows. */
static bool is_of_launch(const struct check *c, const char *name)
{
    static const char *const names[] = {
        "MASTER_ADDR", "MASTER_PORT", /* the rest: of torch alone */
        "RANK",        "WORLD_SIZE",      "LOCAL_RANK",
        "GROUP_RANK",  "LOCAL_WORLD_SIZE"};
    size_t n = c->s->launch == LAUNCH_TORCH  ? sizeof(names) / sizeof(*names)
               : c->s->launch == LAUNCH_NODE ? 2
                                             : 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool check_variable(const struct check *c, const char *name,
                           struct mark at, const char *path)
{
    char q[TEXT_QUOTE_CAP];
    size_t len = strspn(name, name_chars);
    (void)text_quote(q, sizeof(q), name);
    if (len == 0 || name[len] || (*name >= '0' && *name <= '9')) {
        diagnostics_add(c->report, "E014", at, path, "letters, digits and '_'",
                        "'%s' is not the name of a variable", q);
        return false;
    }
    if (is_denied(name)) {
        diagnostics_add(c->report, "E019", at, path, NULL,
                        "a job may not set the variable '%s'", q);
        return false;
    }
    if (is_of_launch(c, name)) {
        diagnostics_add(
            c->report, "E019", at, path,
            "mgpu sets it; or leave 'launch' out, and set all of them",
            "with launch: %s a job may not set the variable '%s'",
            c->s->launch == LAUNCH_TORCH ? "torch" : "node", q);
        return false;
    }
    return true;
}

/* The first member of a list or a map; NULL: none. */
static const struct node *first_of(const struct check *c, const char *path)
{
    return is_set(c, path) ? from_of(c, path)->node->first : NULL;
}

static void refuse_secret(const struct check *c, const char *name,
                          struct mark at, const char *path, const char *what)
{
    char q[TEXT_QUOTE_CAP];
    if (!c->is_stored && schema_is_secret(name))
        diagnostics_add(c->report, "E025", at, path,
                        "name it under 'secrets:' instead, with the value in "
                        "~/" SECRET_DIR "/NAME, mode 0600",
                        "'%s' looks like a secret, and %s",
                        text_quote(q, sizeof(q), name), what);
}

/* Training is mgpu's own: of what a variable could say, it has keys. */
static bool is_of_training(const struct check *c, const struct node *n)
{
    char q[TEXT_QUOTE_CAP];
    if (c->s->kind != SPEC_LLM || strcmp(n->key, "XDG_CACHE_HOME") == 0)
        return true;
    diagnostics_add(c->report, "E019", n->key_at, "env",
                    "XDG_CACHE_HOME, where tokenised rows are kept",
                    "a job of kind llm does not read the variable '%s'",
                    text_quote(q, sizeof(q), n->key));
    return false;
}

static void check_env(const struct check *c)
{
    for (const struct node *n = first_of(c, "env"); n; n = n->next)
        if (check_variable(c, n->key, n->key_at, "env") && is_of_training(c, n))
            refuse_secret(c, n->key, n->key_at, "env", "files get copied");
    for (const struct node *n = first_of(c, "env_passthrough"); n; n = n->next)
        if (check_variable(c, n->text, n->at, "env_passthrough"))
            refuse_secret(c, n->text, n->at, "env_passthrough",
                          "the daemon would keep its value");
}

static bool has_text(const struct node *n, const struct node *end,
                     const char *text)
{
    for (; n && n != end; n = n->next)
        if (strcmp(n->text, text) == 0)
            return true;
    return false;
}

/* A variable has one value, and the file's name is the variable's. */
static void check_secret(const struct check *c, const struct node *n)
{
    static const char path[] = "secrets";
    const struct node *env = first_of(c, "env");
    char q[TEXT_QUOTE_CAP];
    if (!check_variable(c, n->text, n->at, path))
        return;
    (void)text_quote(q, sizeof(q), n->text);
    while (env && strcmp(env->key, n->text) != 0)
        env = env->next;
    if (strlen(n->text) > SECRET_NAME_MAX)
        diagnostics_add(c->report, "E014", n->at, path, NULL,
                        "the name of a secret has at most %d bytes",
                        SECRET_NAME_MAX);
    else if (has_text(first_of(c, path), n, n->text))
        diagnostics_add(c->report, "E017", n->at, path, NULL,
                        "'%s' is named twice", q);
    else if (env || has_text(first_of(c, "env_passthrough"), NULL, n->text))
        diagnostics_add(c->report, "E017", n->at, path, "leave it out there",
                        "'%s' is a variable of %s as well", q,
                        env ? "env" : "env_passthrough");
}

static void check_secrets(const struct check *c)
{
    size_t count = 0;
    for (const struct node *n = first_of(c, "secrets"); n; n = n->next) {
        if (++count > SECRETS_MAX) {
            diagnostics_add(c->report, "E014", n->at, "secrets", NULL,
                            "more than %d secrets", SECRETS_MAX);
            return;
        }
        check_secret(c, n);
    }
}

void spec_check_env(const struct check *c)
{
    check_labels(c);
    check_env(c);
    check_secrets(c);
}

/* ---- directories of caches ------------------------------------------------
 */
static const char *const caches[] = {
    "XDG_CACHE_HOME",   "HF_HOME",
    "HF_HUB_CACHE",     "HF_DATASETS_CACHE",
    "TORCH_HOME",       "TORCH_EXTENSIONS_DIR",
    "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",  "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR",     "KERAS_HOME",
    "PIP_CACHE_DIR",    "UV_CACHE_DIR",
    "WANDB_CACHE_DIR",
};
_Static_assert(sizeof(caches) / sizeof(caches[0]) == SPEC_CACHES,
               "spec_check.h has their number");

static bool is_own_dir(const char *path)
{
    struct stat st;
    return path[0] == '/' && schema_can_say(path) && stat(path, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

const char *spec_check_cache_dir(const struct job_spec *s, int i,
                                 const char **ret_name)
{
    const char *name = caches[i], *dir = getenv(name);
    *ret_name = name;
    if (s->kind == SPEC_CV || (s->kind == SPEC_LLM && i > 0))
        return NULL;
    for (size_t j = 0; j < s->secrets.n; j++)
        if (strcmp(s->secrets.items[j], name) == 0)
            return NULL;
    return dir && is_own_dir(dir) ? dir : NULL;
}

/* ---- files ---------------------------------------------------------------
 */
static bool is_missing(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static const char look_hint[] = "it must exist where the job runs";

static const struct node *node_at(const struct schema_from *from,
                                  const char *path)
{
    const struct schema_key *k = schema_find(&spec_schema, path);
    return k ? from[k - spec_schema.keys].node : NULL;
}

/* The home directory is often the same on the nodes, so warn while the user can
 * react. It is no error: theirs may differ. */
static void look_for_secrets(const struct schema_from *from, const char *home,
                             struct spec_report *report)
{
    const struct node *list = node_at(from, "secrets");
    if (!home || report->n_errors > 0)
        return;
    for (const struct node *n = list ? list->first : NULL; n; n = n->next) {
        struct error why = ERROR_INIT;
        if (secret_look(n->text, home, &why) < 0)
            diagnostics_add(
                report, "W103", n->at, "secrets",
                "it must exist where the job runs, or the job is held",
                "%.230s", why.msg);
    }
}

/* A program without a slash is looked for in PATH where the job runs. */
static void look_for_command(const struct job_spec *s,
                             const struct schema_from *from,
                             struct spec_report *report)
{
    const struct node *workdir = node_at(from, "workdir");
    const struct node *command = node_at(from, "command");
    const char *program = s->command.n > 0 ? s->command.items[0] : "";
    const char *dir = s->workdir;
    char path[4096];
    bool has_dir = dir && !strchr(dir, '$');
    if (workdir && has_dir && is_missing(dir)) {
        diagnostics_add(report, "W104", workdir->at, "workdir", look_hint,
                        "the directory '%.200s' is not here", dir);
        return;
    }
    if (!command || !command->first || !strchr(program, '/') ||
        strchr(program, '$') || (program[0] != '/' && !has_dir))
        return;
    int n = snprintf(path, sizeof(path), "%s%s%s", program[0] == '/' ? "" : dir,
                     program[0] == '/' ? "" : "/", program);
    if (n > 0 && n < (int)sizeof(path) && is_missing(path))
        diagnostics_add(report, "W104", command->first->at, "command",
                        look_hint, "the program '%.200s' is not here", path);
}

/* What training reads. What it writes, it makes. */
static void look_for_data(const struct job_spec *s,
                          const struct schema_from *from,
                          struct spec_report *report)
{
    static const char *const read[] = {
        "dataset.path",
        "train.checkpointer.checkpoint_dir",
        "train.checkpointer.adapter_checkpoint",
        "train.tokenizer.path",
        "train.dataset.path",
        "train.dataset_val.path",
        "train.resume_from",
    };
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++) {
        const struct schema_key *k = schema_find(&spec_schema, read[i]);
        const struct node *n = node_at(from, read[i]);
        const char *path = k ? *(char *const *)((const char *)s + k->at) : NULL;
        const bool is_path = path && (path[0] == '/' || !k->job_ok);
        if (n && is_path && !strchr(path, '$') && is_missing(path))
            diagnostics_add(report, "W104", n->at, read[i], look_hint,
                            "'%.200s' is not here", path);
    }
}

/* The nodes often have the same files, so warn while the user can react. It is
 * no error: theirs may differ, and what a job waits for may make them. */
void spec_look_for_files(const struct job_spec *s,
                         const struct schema_from *from, const char *home,
                         struct spec_report *report)
{
    look_for_secrets(from, home, report);
    if (report->n_errors > 0)
        return;
    if (s->kind == SPEC_COMMAND)
        look_for_command(s, from, report);
    else if (s->depends_on.n == 0)
        look_for_data(s, from, report);
}

static bool is_there(const char *dir, const char *name)
{
    char path[4096];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    return n > 0 && n < (int)sizeof(path) && lstat(path, &st) == 0;
}

/* "step-12" in it, which "step-12.tmp" is not yet. */
static bool has_step(const char *dir)
{
    const struct dirent *e;
    bool has = false;
    DIR *d = opendir(dir);
    while (d && !has && (e = readdir(d)) != NULL)
        has = strncmp(e->d_name, "step-", 5) == 0 && e->d_name[5] != '\0' &&
              e->d_name[5 + strspn(e->d_name + 5, "0123456789")] == '\0';
    if (d)
        (void)closedir(d);
    return has;
}

static void look_at_dir(const struct node *from, const char *key,
                        const char *dir, struct spec_report *report)
{
    char below[4096];
    if (!from || !dir || strchr(dir, '$'))
        return;
    (void)snprintf(below, sizeof(below), "%s/ckpt", dir);
    bool is_owned = is_there(dir, SPEC_OWNER_FILE);
    if (is_owned || has_step(dir) || has_step(below))
        diagnostics_add(
            report, "E015", from->at, key,
            "name another, leave the key out, or go on from it with "
            "train.resume_from",
            "'%.150s' %s", dir,
            is_owned ? "is another job's directory"
                     : "has another job's checkpoints");
}

/* A job that has no directory yet owns none, nor does one that writes nothing.
 */
void spec_look_for_owner(const struct job_spec *s, const struct node *out,
                         const struct node *ckpt, struct spec_report *report)
{
    if (s->kind == SPEC_COMMAND || s->train.eval_only || report->n_errors > 0)
        return;
    look_at_dir(out, "train.output_dir", s->train.output_dir, report);
    look_at_dir(ckpt, "checkpoint.dir", s->checkpoint.dir, report);
}
