/* program_class.c - which command lines are of one program: a table of commands
 * with what is left of them, and odd ones. */
#include "scheduler/engine/table/program_class.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "tests/tap.h"

enum { WORDS = 16 };

/* The words of a line with '|' between, as an argv. */
static struct spec_list split(char *line, char *items[WORDS])
{
    struct spec_list l = {.items = items};

    for (char *p = line; l.n < WORDS; *p++ = '\0') {
        items[l.n++] = p;
        p += strcspn(p, "|");
        if (!*p)
            break;
    }
    return l;
}

static void is_text(const char *command, const char *want)
{
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    char *items[WORDS], *line = strdup(command);
    struct spec_list argv = split(line, items);

    ok(program_text(&argv, &text, &err) == 0 &&
           strcmp(buf_str(&text), want) == 0,
       "%s", command);
    if (strcmp(buf_str(&text), want) != 0)
        tap_diag("got '%s', want '%s'", buf_str(&text), want);
    buf_clear(&text);
    free(line);
}

static void test_table(void)
{
    static const char *const rows[][2] = {
        /* numbers of options, in each form */
        {"a.out|--lr|0.1", "a.out --lr #"},
        {"a.out|--lr=1e-4", "a.out --lr=#"},
        {"a.out|-n|4|-n4|-j8|-x-1.5", "a.out -n # -n# -j# -x#"},
        {"a.out|lr=.5|seed=7", "a.out lr=# seed=#"},
        {"a.out|--seed|42|--wd|-1e-2|+3", "a.out --seed # --wd # #"},
        {"a.out|--mask|0x1F|--n|1_000|--gpus|0,1,2",
         "a.out --mask # --n # --gpus #"},
        /* what only looks like one */
        {"a.out|--size|7b|--p|1.2.3|--v|v2|--x|1e",
         "a.out --size 7b --p 1.2.3 --v v2 --x 1e"},
        {"a.out|-|--|-.|0x|e5|.|,|1,|=3", "a.out - -- -. 0x e5 . , 1, =3"},
        {"a.out|--amp|--opt|adam|--on=yes", "a.out --amp --opt adam --on=yes"},
        {"a.out|nan|inf|--flag|true", "a.out nan inf --flag true"},
        /* paths: by a slash, by an extension */
        {"a.out|--data|/d/a|--out=runs/7|rows.csv|x.tar.gz",
         "a.out --data @ --out=@ @ @"},
        {"a.out|~/x|./y|..|a/|s3://b/k=1", "a.out @ @ .. @ @"},
        {"a.out|--m|llama3.1|--d|torch.float16|.hidden",
         "a.out --m llama3.1 --d torch.float16 .hidden"},
        /* the program, and the script of an interpreter or a launcher */
        {"/usr/bin/a.out|/d/a", "a.out @"},
        {"/v/bin/python3.11|-u|/home/a/train.py|--lr|1",
         "python3.11 -u train.py --lr #"},
        {"python3|-m|pkg.train|--lr|1", "python3 -m pkg.train --lr #"},
        {"python|-m|torch.distributed.run|--nproc_per_node|4|train.py|x.csv",
         "python -m torch.distributed.run --nproc_per_node # train.py @"},
        {"python3|-u|-m|torch.distributed.launch|--log-dir|/l|/a/tool|/d/a",
         "python3 -u -m torch.distributed.launch --log-dir @ tool @"},
        {"python|-m|accelerate.commands.launch|-m|pkg.train|a.py",
         "python -m accelerate.commands.launch -m pkg.train @"},
        {"python|-m|deepspeed.launcher.runner|--num_gpus=4|t.py|a.py",
         "python -m deepspeed.launcher.runner --num_gpus=# t.py @"},
        {"python3|/opt/tool|--in|/d/a", "python3 tool --in @"},
        {"torchrun|--nproc_per_node|4|--nnodes=2|train.py|other.py",
         "torchrun --nproc_per_node # --nnodes=# train.py @"},
        {"torchrun|--log-dir|/l|t/train.py|--lr=1",
         "torchrun --log-dir @ train.py --lr=#"},
        {"accelerate|launch|--config_file|/c.yaml|train.py|c.yaml",
         "accelerate launch --config_file @ train.py @"},
        {"mpirun|-np|4|--bind-to|none|./solve|in.dat",
         "mpirun -np # --bind-to none solve @"},
        {"nice|-n|10|/usr/bin/python3|t.py|a.txt", "nice -n # python3 t.py @"},
        {"env|SEED=3|OUT=/o|python3|t.py", "env SEED=# OUT=@ python3 t.py"},
        {"timeout|3600|bash|run.sh|5", "timeout # bash run.sh #"},
        {"./train|eval.py", "train eval.py"},
        /* the text of a shell */
        {"sh|-c|cd /runs/7 && ./train --lr 0.1 > /o/log",
         "sh -c cd @ && train --lr # > @"},
        {"bash|-lc|SEED=4 python3 t.py --lr 1\n",
         "bash -lc SEED=# python3 t.py "
         "--lr #"},
        {"a.out|--name|my run 7", "a.out --name my run #"},
        /* the order counts, and what is empty */
        {"a.out|--b|--a", "a.out --b --a"},
        {"a.out||x", "a.out '' x"},
        {"", "''"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_text(rows[i][0], rows[i][1]);
}

static char *class_of(const char *command)
{
    struct error err = ERROR_INIT;
    char *items[WORDS], *line = strdup(command), *name = NULL;
    struct job_spec s = {.kind = SPEC_COMMAND, .command = split(line, items)};

    if (program_class(&s, &name, &err) < 0)
        tap_diag("%s", err.msg);
    free(line);
    return name;
}

static void same(const char *a, const char *b, bool want, const char *what)
{
    char *x = class_of(a), *y = class_of(b);

    ok(x && y && (strcmp(x, y) == 0) == want, "%s", what);
    free(x);
    free(y);
}

static void test_name(void)
{
    char *name = class_of("torchrun|/a/train.py|--lr|1");

    ok(name && strncmp(name, "program/train.py-", 17) == 0 &&
           strlen(name) == 17 + 16,
       "the name has the script, and a hash");
    free(name);
    name = class_of("python|-m|torch.distributed.run|/a/train.py");
    ok(name && strncmp(name, "program/train.py-", 17) == 0,
       "  also behind a module that launches");
    free(name);
    name = class_of("/bin/\xff\x01z");
    ok(name && strncmp(name, "program/?", 9) == 0, "  and no odd bytes");
    free(name);
    same("python3|t.py|--lr|1", "/v/bin/python3|/x/t.py|--lr|2e-3", true,
         "a sweep, and another folder");
    same("python3|t.py|--lr|1", "python3|u.py|--lr|1", false,
         "another script is another program");
    same("python3|t.py|--lr|1", "python3|t.py|--wd|1", false,
         "and so is another option");
    same("python3|t.py|--opt|adam", "python3|t.py|--opt|sgd", false,
         "and another word");

    char *anna = class_of("python3|t.py|--lr|1");
    char *bob = class_of("python3|t.py|--lr|2"), *again;
    program_class_set_user(anna, "anna");
    program_class_set_user(bob, "bob");
    ok(strncmp(anna, bob, 13) == 0 && strcmp(anna, bob) != 0 &&
           strlen(bob) == 13 + 16,
       "a program is of one user, and its label is not");
    again = class_of("python3|t.py|--lr|3");
    program_class_set_user(again, "anna");
    is_str(again, anna, "  the same user has it again");
    free(anna);
    free(bob);
    free(again);

    struct error err = ERROR_INIT;
    const struct job_spec none = {.kind = SPEC_COMMAND};
    const struct job_spec cv = {.kind = SPEC_CV};
    ok(program_class(&none, &name, &err) == 0 && !name, "an empty command");
    ok(program_class(&cv, &name, &err) == 0 && !name, "and no command");
}

/* Bytes that are likely to end a word, a number or a path. */
static void test_odd(void)
{
    static const char bytes[] = "-=/.,0 1e+x\n&;|_'mc\xc3\xff";
    struct rng rng;
    int bad = 0;

    rng_seed(&rng, 44);
    for (int i = 0; i < 20000; i++) {
        char text[3][12], *items[3] = {text[0], text[1], text[2]};
        struct spec_list argv = {.items = items, .n = rng_u32(&rng) % 4};
        struct buf out = BUF_INIT;
        struct error err = ERROR_INIT;
        size_t len = 0;
        for (int k = 0; k < 3; k++) {
            size_t n = rng_u32(&rng) % sizeof(text[k]);
            for (size_t c = 0; c < n; c++)
                text[k][c] = bytes[rng_u32(&rng) % (sizeof(bytes) - 1)];
            text[k][n] = '\0';
            len += n + 3;
        }
        bad += program_text(&argv, &out, &err) < 0 || out.len > len;
        buf_clear(&out);
    }
    is_int(bad, 0, "any bytes are taken, and no text is longer than its words");

    enum { HUGE_N = 1 << 20 };
    char *huge = malloc(HUGE_N + 1), *one[] = {huge, huge};
    struct spec_list argv = {.items = one, .n = 2};
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;
    if (!huge)
        exit(1);
    memset(huge, '7', HUGE_N);
    huge[HUGE_N] = '\0';
    ok(program_text(&argv, &out, &err) == 0 && out.len == HUGE_N + 2,
       "a huge number is one");
    buf_clear(&out);
    free(huge);
}

int main(void)
{
    test_table();
    test_name();
    test_odd();
    return tap_done();
}
