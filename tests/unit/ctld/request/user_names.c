/* user_names.c - F39: the user database is slow, or does not answer at all. The
 * daemon is the program itself, and so is the C library's look-up. */
#include <pwd.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/unit/ctld/rig.h"

/* 0: there is nobody of that uid; 1: "somebody"; 2: no answer, for now */
static _Atomic int answers;
static _Atomic int n_asked;

int getpwuid_r(uid_t uid, struct passwd *pw, char *space, size_t cap,
               struct passwd **ret)
{
    n_asked++;
    while (answers == 2)
        (void)poll(NULL, 0, 5);
    *ret = NULL;
    if (answers == 0)
        return 0;
    (void)snprintf(space, cap, "somebody");
    *pw = (struct passwd){.pw_name = space, .pw_uid = uid, .pw_dir = space};
    *ret = pw;
    return 0;
}

static bool submits(struct rig *r, const char *key, const char *user)
{
    char want[64];
    (void)snprintf(want, sizeof(want), "\"user\":\"%s\"", user);
    int status = call(r, "POST", "/v1/jobs", SPEC("named"), key);
    if (status == 201 && has(r, want))
        return true;
    tap_diag("%d: %s", status, buf_str(&r->body));
    return false;
}

int main(void)
{
    static struct rig r;
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%lld", (long long)getuid());
    rig_init(&r);
    rig_up(&r, NULL);
    answers = 2;
    ok(submits(&r, "k1", digits), "no answer: the uid is the name");
    ok(submits(&r, "k2", digits), "  and the next one does not wait again");
    ok(get(&r, "/v1/jobs") == 200 && get(&r, "/readyz") == 200,
       "  nor does anybody else");
    ok(n_asked <= 1, "  it was asked once");
    answers = 0;
    ok(submits(&r, "k3", digits), "nobody of that uid: its digits");
    answers = 1;
    for (int i = 0; i < 600 && !submits(&r, NULL, "somebody"); i++)
        (void)poll(NULL, 0, 100);
    ok(submits(&r, "k5", "somebody"), "the name, once there is one");
    rig_down(&r);

    /* One that has asked is not waited for when the daemon stops. */
    answers = 1;
    rig_up(&r, NULL);
    answers = 2;
    ok(submits(&r, "k6", digits), "no answer in another life");
    rig_down(&r);
    ok(true, "it ends nevertheless");
    answers = 1; /* and whoever is left behind may go */
    rig_clear(&r);
    return tap_done();
}
