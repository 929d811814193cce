/* program_class.c - see program_class.h.
 *
 * The words are read once from left to right, and nothing is allocated but the
 * text, which is not longer than the command.
 */
#include "scheduler/engine/table/program_class.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

/* What is read: len bytes of a word, which may be a part of an argument. */
struct word {
    const char *at;
    size_t len;
};

struct reading {
    struct buf *out;
    bool is_command;   /* the next word is a program */
    bool is_launching; /* an interpreter waits for its script */
    bool has_script;
    bool after_option; /* the word before was a --option without "=" */
    bool after_module; /* the word before was -m */
    bool after_shell;  /* the word before was -c, or -lc: commands follow */
    struct word label; /* the script, else the first program */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is(struct word w, const char *text)
{
    return strlen(text) == w.len && memcmp(w.at, text, w.len) == 0;
}

static struct word from(struct word w, size_t at)
{
    return (struct word){w.at + at, w.len - at};
}

/* ---- numbers --------------------------------------------------------------
 */
static size_t digits(struct word w, size_t i)
{
    while (i < w.len && (is_digit(w.at[i]) || w.at[i] == '_'))
        i++;
    return i;
}

/* "-1.5e-3", "0x1f": where it ends; 0: there is none at its begin. */
static size_t number_end(struct word w)
{
    size_t i = w.len > 0 && (w.at[0] == '-' || w.at[0] == '+');
    size_t first = i;

    if (w.len > i + 2 && w.at[i] == '0' && (w.at[i + 1] | 32) == 'x' &&
        is_hex(w.at[i + 2])) {
        for (i += 2; i < w.len && is_hex(w.at[i]);)
            i++;
        return i;
    }
    bool has_digit = i < w.len && is_digit(w.at[i]);
    i = digits(w, i);
    if (i < w.len && w.at[i] == '.') {
        has_digit = has_digit || (i + 1 < w.len && is_digit(w.at[i + 1]));
        i = digits(w, i + 1);
    }
    if (!has_digit || i == first)
        return 0;
    if (i < w.len && (w.at[i] | 32) == 'e') {
        size_t k = i + 1;
        k += k < w.len && (w.at[k] == '-' || w.at[k] == '+');
        if (k < w.len && is_digit(w.at[k]))
            i = digits(w, k);
    }
    return i;
}

/* One, or several with commas between. */
static bool is_number(struct word w)
{
    while (w.len > 0) {
        size_t n = number_end(w);
        if (n == 0)
            return false;
        if (n == w.len)
            return true;
        if (w.at[n] != ',')
            return false;
        w = from(w, n + 1);
    }
    return false;
}

/* ---- paths ----------------------------------------------------------------
 */
static struct word base_of(struct word w)
{
    while (w.len > 1 && w.at[w.len - 1] == '/')
        w.len--;
    for (size_t i = w.len; i-- > 0;)
        if (w.at[i] == '/' && i + 1 < w.len)
            return from(w, i + 1);
    return w;
}

/* What follows the last dot of a name; empty: it has no extension. */
static struct word extension(struct word w)
{
    enum { EXTENSION_MAX = 5 };
    bool has_letter = false;

    for (size_t i = w.len; i-- > 1 && w.len - i <= EXTENSION_MAX + 1;) {
        if (w.at[i] == '.')
            return has_letter ? from(w, i + 1) : (struct word){w.at, 0};
        if (!is_letter(w.at[i]) && !is_digit(w.at[i]))
            break;
        has_letter = has_letter || is_letter(w.at[i]);
    }
    return (struct word){w.at, 0};
}

static bool is_path(struct word w)
{
    return w.len > 0 &&
           (memchr(w.at, '/', w.len) != NULL || extension(w).len > 0);
}

static bool is_script(struct word w)
{
    static const char *const ends[] = {"py", "pyc", "sh", "bash", "jl",
                                       "r",  "R",   "pl", "rb",   "lua",
                                       "js", "mjs", "m",  "jar",  "ipynb"};
    struct word end = extension(base_of(w));

    for (size_t i = 0; end.len > 0 && i < sizeof(ends) / sizeof(ends[0]); i++)
        if (is(end, ends[i]))
            return true;
    return false;
}

/* Programs that start another one. */
static bool is_launcher(struct word w)
{
    static const char *const names[] = {
        "torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun",
        "mpiexec",  "srun",       "env",       "nice",       "ionice",
        "nohup",    "time",       "timeout",   "numactl",    "taskset",
        "stdbuf",   "setsid",     "sh",        "bash",       "dash",
        "zsh",      "uv",         "poetry",    "conda",      "pixi",
        "julia",    "Rscript",    "perl",      "ruby",       "node",
        "java",     "apptainer",  "nsys",      "singularity"};

    if (w.len >= 6 && memcmp(w.at, "python", 6) == 0)
        return true; /* python3.11 */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is(w, names[i]))
            return true;
    return false;
}

/* Modules that python runs with -m and that start a script or a module. */
static bool is_launching_module(struct word w)
{
    static const char *const names[] = {
        "torch.distributed.run",      "torch.distributed.launch",
        "torch.distributed.launcher", "torchrun",
        "accelerate.commands.launch", "accelerate.commands.accelerate_cli",
        "deepspeed.launcher.runner",  "deepspeed.launcher.launch",
        "horovod.runner.launch",      "mpi4py"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is(w, names[i]))
            return true;
    return false;
}

static bool is_operator(struct word w)
{
    return is(w, "&&") || is(w, "||") || is(w, "|") || is(w, ";") || is(w, "&");
}

/* ---- words ----------------------------------------------------------------
 */
static int add(const struct reading *r, struct word w, struct error *err)
{
    return buf_add(r->out, w.at, w.len, err);
}

/* A value: a whole word, or what follows "=". */
static int add_value(const struct reading *r, struct word w, struct error *err)
{
    const char *sign = is_number(w) ? "#" : is_path(w) ? "@" : NULL;

    return sign ? buf_addstr(r->out, sign, err) : add(r, w, err);
}

/* "--lr=0.1", "key=0.1": the length with the "="; 0: there is none. A path in
 * front of it is no key. */
static size_t key_end(struct word w)
{
    const char *equals = w.len > 1 ? memchr(w.at + 1, '=', w.len - 1) : NULL;
    size_t n = equals ? (size_t)(equals - w.at) : 0;

    return n == 0 || memchr(w.at, '/', n) ? 0 : n + 1;
}

/* "-n4" */
static bool is_short_number(struct word w)
{
    return w.len > 2 && w.at[0] == '-' && is_letter(w.at[1]) &&
           is_number(from(w, 2));
}

static int add_program(struct reading *r, struct word w, bool is_label,
                       struct error *err)
{
    struct word base = base_of(w);

    r->is_launching = is_launcher(base);
    if (is_label || r->label.len == 0)
        r->label = base;
    return add(r, base, err);
}

static int add_module(struct reading *r, struct word w, struct error *err)
{
    bool is_end = !is_launching_module(w);
    int rc = add_program(r, w, is_end, err);

    r->is_launching = !is_end;
    r->has_script = is_end;
    return rc;
}

static bool is_script_of(const struct reading *r, struct word w)
{
    if (is_number(w) || w.at[0] == '-' || key_end(w) > 0)
        return false;
    return (!r->has_script && is_script(w)) ||
           (r->is_launching && !r->after_option && is_path(w)) ||
           (r->is_launching && is_launcher(w));
}

static int add_word(struct reading *r, struct word w, struct error *err)
{
    size_t key = key_end(w);
    bool is_first = r->is_command && w.at[0] != '-';
    bool is_module = r->is_launching && r->after_module;
    bool is_option = w.len > 2 && w.at[0] == '-' && w.at[1] == '-';
    bool is_its_script = is_script_of(r, w);

    if (r->out->len > 0 && buf_addstr(r->out, " ", err) < 0)
        return -1;
    r->is_command = is_operator(w) || (r->is_command && !is_first) ||
                    (is_first && key > 0); /* VAR=value before it */
    r->after_option = is_option && key == 0;
    r->after_module = is(w, "-m");
    r->after_shell =
        w.len > 1 && w.at[0] == '-' && w.at[1] != '-' && w.at[w.len - 1] == 'c';
    if (is_operator(w)) {
        r->is_launching = false;
        return add(r, w, err);
    }
    if (is_module)
        return add_module(r, w, err);
    if (is_first && key == 0)
        return add_program(r, w, false, err);
    if (is_its_script) {
        bool is_end = !is_launcher(base_of(w));
        r->has_script = r->has_script || is_end;
        return add_program(r, w, is_end, err);
    }
    if (key > 0)
        return add(r, (struct word){w.at, key}, err) < 0
                   ? -1
                   : add_value(r, from(w, key), err);
    if (is_short_number(w))
        return add(r, (struct word){w.at, 2}, err) < 0
                   ? -1
                   : buf_addstr(r->out, "#", err);
    return add_value(r, w, err);
}

/* The words of one argument. */
static int add_argument(struct reading *r, const char *text, struct error *err)
{
    const char *p = text;

    if (*p == '\0') /* an empty argument is one, too */
        return buf_addstr(r->out, r->out->len > 0 ? " ''" : "''", err);
    while (*p) {
        struct word w = {p, 0};
        while (w.at[w.len] && !is_blank(w.at[w.len]))
            w.len++;
        if (w.len > 0 && add_word(r, w, err) < 0)
            return -1;
        p += w.len;
        p += *p != '\0';
    }
    return 0;
}

static bool is_text(const char *argument)
{
    return strpbrk(argument, " \t\r\n") != NULL;
}

static int read_all(const struct spec_list *command, struct reading *r,
                    struct error *err)
{
    for (size_t i = 0; i < command->n; i++) {
        const char *text = command->items[i] ? command->items[i] : "";
        r->is_command = r->is_command || (r->after_shell && is_text(text));
        if (add_argument(r, text, err) < 0)
            return -1;
    }
    return 0;
}

int program_text(const struct spec_list *command, struct buf *out,
                 struct error *err)
{
    struct reading r = {.out = out, .is_command = true};

    return read_all(command, &r, err);
}

static const char prefix[] = "program/";
enum { LABEL_CAP = 64, HASH_LEN = 16 };

/* FNV-1a */
static uint64_t hash(uint64_t h, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)at[i]) * 0x100000001b3u;
    return h;
}

int program_class(const struct job_spec *spec, char **ret, struct error *err)
{
    struct buf text = BUF_INIT, name = BUF_INIT;
    struct reading r = {.out = &text, .is_command = true};
    char label[LABEL_CAP];

    if (spec->kind != SPEC_COMMAND || spec->command.n == 0) {
        *ret = NULL;
        return 0;
    }
    int rc = read_all(&spec->command, &r, err);
    uint64_t h = hash(0xcbf29ce484222325u, text.data, text.len);
    text_copy_n(label, sizeof(label), r.label.at ? r.label.at : "",
                r.label.len);
    if (rc == 0)
        rc = buf_addf(&name, err, "%s%s-%016" PRIx64, prefix, label, h);
    char *own = rc == 0 ? buf_detach(&name) : NULL;
    buf_clear(&text);
    buf_clear(&name);
    if (!own)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    *ret = own;
    return 0;
}

void program_class_set_user(char *io, const char *user)
{
    char *at = io + strlen(io) - HASH_LEN;
    uint64_t h = hash(strtoull(at, NULL, 16), "/", 1);

    h = hash(h, user, strlen(user));
    (void)snprintf(at, HASH_LEN + 1, "%016" PRIx64, h);
}
