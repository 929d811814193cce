/* saved_formats.c - formats that users name in config.yaml: what they stand
 * for, and where a mistake in them is. */
#include "scheduler/tools/common/saved_formats.h"

#include <string.h>

#include "scheduler/tools/common/columns.h"
#include "tests/tap.h"

static struct formats f;
static struct error err;

static int parse(const char *text)
{
    formats_clear(&f);
    err = (struct error)ERROR_INIT;
    return formats_parse(text, strlen(text), "c.yaml", &f, &err);
}

static void expands(const char *text, const char *to)
{
    struct buf out = BUF_INIT;
    ok(formats_expand(&f, text, &out, &err) == 0, "'%s'", text);
    is_str(buf_str(&out), to, "  stands for what it should");
    buf_clear(&out);
}

static void test_good(void)
{
    is_int(parse("formats:\n  mine: [id, name, state]\n  more: mine,labels\n"
                 "  wide: [mine, times]\nformat: more\n"),
           0, "three formats");
    expands("mine", "id,name,state");
    expands("exit,more,gpus", "exit,id,name,state,labels,gpus");
    expands("why", "why");
    is_str(f.usual, "id,name,state,labels", "the one that is usual");
    is_int(parse(""), 0, "an empty file");
    ok(f.n == 0 && !f.usual, "  says nothing");
    is_int(parse("format: [id, exit]\n"), 0, "columns in place of a name");
    is_str(f.usual, "id,exit", "  are usual, too");
}

static void test_bad(void)
{
    static const struct {
        const char *text, *why;
    } t[] = {
        {"formats:\n  mine: [id, nme]\n",
         "c.yaml:2:14: no column 'nme'; did you mean 'name'?"},
        {"formats:\n  mine: id,nme,state\n",
         "c.yaml:2:12: no column 'nme'; did you mean 'name'?"},
        {"formats:\n  long: [id]\n",
         "c.yaml:2:3: there is a column or a format of that name already"},
        {"formats:\n  gpus: [id]\n",
         "c.yaml:2:3: there is a column or a format of that name already"},
        {"formats:\n  help: [id]\n",
         "c.yaml:2:3: there is a column or a format of that name already"},
        {"formats: id\n", "c.yaml:1:10: expected names and their columns"},
        {"formats:\n  mine: {id: 1}\n",
         "c.yaml:2:9: expected columns, as [id, name]"},
        {"formats:\n  mine: [[id]]\n",
         "c.yaml:2:10: expected the name of a column"},
        {"formats:\n  mine: []\n",
         "c.yaml:2:9: no columns; see mgpu-stat -o help"},
        {"formats:\n  \"a,b\": [id]\n", "c.yaml:2:3: "},
        {"format: mine\nformats:\n  yours: [id]\n",
         "c.yaml:1:9: no column 'mine'"},
        {"\nfrmats:\n  a: [id]\n",
         "c.yaml:2:1: unknown key 'frmats'; there are format and formats"},
        {"formats: [\n", "c.yaml:"},
        {"formats:\n  a: [id]\n  a: [id]\n", "c.yaml:3:"},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        is_int(parse(t[i].text), -1, "refused");
        ok(err.code == ERR_CONFIG &&
               strncmp(err.msg, t[i].why, strlen(t[i].why)) == 0,
           "  %s (%s)", t[i].why, err.msg);
    }
}

int main(void)
{
    test_good();
    test_bad();
    formats_clear(&f);
    return tap_done();
}
